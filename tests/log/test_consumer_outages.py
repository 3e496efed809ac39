"""Consumers whose commits are lost, late or refused."""

from typing import Any

import pytest

from lithify.log.partition import Partition
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown
from lithify.store.memory import MemoryStore
from lithify.store.port import Pause
from lithify.testing.faults import Fault, FaultyStore
from tests.log.conftest import HandClock
from tests.log.test_consumer import stored, take_and_fail
from tests.log.test_follow import append, shown


def faulty(clock: HandClock) -> tuple[Warehouse, FaultyStore, Partition]:
    store = FaultyStore(MemoryStore(), [])
    driver = Driver(store, clock)
    answer = driver.answer
    driver.answer = lambda request: None if isinstance(request, Pause) else answer(request)
    warehouse = Warehouse(driver)
    part = warehouse.create_topic("t", probe=False).partition(0)
    append(part, "a", "b", "c", "d")
    return warehouse, store, part


def plan(store: FaultyStore, *faults: Fault) -> None:
    store._plan = iter(faults)


def test_an_unknown_commit_is_settled_by_the_next(clock: HandClock) -> None:
    _, store, part = faulty(clock)
    consumer = part.consumer("c")
    consumer.poll(max_records=1)
    plan(store, *[Fault.LATE] * 10)
    with pytest.raises(CommitUnknown):
        consumer.commit()
    store.deliver()
    assert shown(consumer.poll(max_records=1)) == [1]
    consumer.commit()
    assert stored(part) == 2
    plan(store, Fault.LOST_REPLY)
    consumer.poll(max_records=1)
    consumer.commit()
    assert stored(part) == 3


def test_an_automatic_commit_that_fails_is_tried_again(clock: HandClock) -> None:
    _, store, part = faulty(clock)
    consumer = part.consumer("c")
    found: list[Any] = []
    for faults in ([Fault.REFUSED], [Fault.LOST_REQUEST] * 10, []):
        found += shown(consumer.poll(max_records=1))
        clock.now_ms += 5_000
        plan(store, *faults)
    found += shown(consumer.poll(max_records=1))
    assert found == [0, 1, 2, 3]
    assert stored(part) == 3


def test_a_store_that_fails_does_not_hide_the_callers_error(clock: HandClock) -> None:
    _, store, part = faulty(clock)
    with pytest.raises(ZeroDivisionError):
        take_and_fail(part, 2, lambda: plan(store, Fault.REFUSED))
    assert stored(part) == 0
