"""Consumers whose commits are lost, late or refused, and whom cleaning outruns; followers that an outage stops."""

from typing import Any

import pytest

from lithify.compactor.compactor import Compactor
from lithify.log.consumer import Consumer
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Pause
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.failing import FailingStore
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
    append(part, "e")
    consumer = part.consumer("c")
    found: list[Any] = []
    for faults in ([Fault.REFUSED], [Fault.DENIED], [Fault.LOST_REQUEST] * 10, []):
        found += shown(consumer.poll(max_records=1))
        clock.now_ms += 5_000
        plan(store, *faults)
    found += shown(consumer.poll(max_records=1))
    assert found == [0, 1, 2, 3, 4]
    assert stored(part) == 4


@pytest.mark.parametrize("faults", [[Fault.REFUSED], [Fault.DENIED], [Fault.LOST_REQUEST] * 10, [Fault.LATE] * 10])
def test_closing_again_commits(clock: HandClock, faults: list[Fault]) -> None:
    """Before, it did nothing, and said nothing."""
    _, store, part = faulty(clock)
    consumer = part.consumer("c")
    consumer.poll(max_records=3)
    plan(store, *faults)
    with pytest.raises((Unavailable, CommitUnknown)):
        consumer.close()
    store.deliver()
    with pytest.raises(InvalidRequest, match="closed; open another one"):
        consumer.poll()
    consumer.close()
    assert stored(part) == 3


def test_closing_after_an_error_commits_nothing_more(clock: HandClock) -> None:
    """The block commits what came before; that is lost, and closing makes up for it alone."""
    _, store, part = faulty(clock)
    with pytest.raises(ZeroDivisionError):
        take_and_fail(part, 3, lambda: plan(store, Fault.REFUSED))
    assert stored(part) == 0
    consumer = part.consumer("c")
    with pytest.raises(ZeroDivisionError):
        fail_in_block(consumer, store)
    assert stored(part) == 0
    consumer.close()
    assert stored(part) == 2


def fail_in_block(consumer: Consumer, store: FaultyStore) -> None:
    with consumer:
        for _ in range(3):
            next(consumer)
        plan(store, Fault.REFUSED)
        raise ZeroDivisionError


def test_a_store_that_fails_does_not_hide_the_callers_error(clock: HandClock) -> None:
    _, store, part = faulty(clock)
    with pytest.raises(ZeroDivisionError):
        take_and_fail(part, 2, lambda: plan(store, Fault.REFUSED))
    assert stored(part) == 0


def test_cleaning_that_outruns_a_consumer_is_an_alarm(warehouse: Warehouse, clock: HandClock) -> None:
    config = {"cleanup.policy": "compact", "delete.retention.ms": 1_000, "min.cleanable.dirty.ratio": 0}
    part = warehouse.create_topic("t", config=config).partition(0)
    append(part, "a", "b", "c")
    with part.consumer("behind") as consumer:
        assert len(consumer.poll()) == 3
    with part.consumer("new", auto_commit_interval_ms=None):
        pass
    part.append([Record(b"d", b""), Record(b"a", None), Record(b"e", b"")])
    with part.consumer("ahead") as consumer:
        assert len(consumer.poll()) == 6
    compactor = Compactor(warehouse, engine="local")
    compactor.run_once()  # stamps the tombstone's horizon
    assert [known.missed_to for known in part.consumers()] == [0, 0, 0]
    clock.now_ms += 2_000
    append(part, "f")
    compactor.run_once()
    assert {known.name: known.missed_to for known in part.consumers()} == {"ahead": 0, "behind": 5, "new": 5}
    assert {known.name for known in part.consumers() if known.alarm} == {"behind"}  # the new one begins anew
    with part.consumer("behind") as consumer:
        assert shown(consumer.poll()) == [3, 5, 6]  # and never that a is gone
    (behind,) = [known for known in part.describe().consumers if known.name == "behind"]
    assert behind.alarm is not None
    assert "below offset 5" in behind.alarm


def test_cleaning_that_outruns_what_was_read_and_not_committed_is_an_alarm(
    warehouse: Warehouse, clock: HandClock
) -> None:
    """It reads a, and commits nothing yet. Then a is deleted, and the tombstone cleaned away before it reads on."""
    config = {"cleanup.policy": "compact", "delete.retention.ms": 1_000, "min.cleanable.dirty.ratio": 0}
    part = warehouse.create_topic("t", config=config).partition(0)
    append(part, "a", "b")
    reads = part.consumer("reads", auto_commit_interval_ms=None)
    with part.consumer("begins", auto_commit_interval_ms=None):
        pass
    assert shown(reads.poll()) == [0, 1]
    part.append([Record(b"a", None), Record(b"c", b"")])
    compactor = Compactor(warehouse, engine="local")
    compactor.run_once()
    clock.now_ms += 2_000
    append(part, "d")
    compactor.run_once()
    assert shown(reads.poll()) == [3, 4]
    begins = part.consumer("begins", auto_commit_interval_ms=None)
    assert shown(begins.poll()) == [1, 3, 4]
    for consumer in (reads, begins):
        consumer.commit()
    assert {known.name for known in part.consumers() if known.alarm} == {"reads"}


def test_what_cleaning_took_at_the_end_is_no_lag(warehouse: Warehouse, clock: HandClock) -> None:
    config = {"cleanup.policy": "compact", "delete.retention.ms": 1_000, "min.cleanable.dirty.ratio": 0}
    part = warehouse.create_topic("t", config=config).partition(0)
    part.append([Record(b"a", b""), Record(b"a", None)])
    compactor = Compactor(warehouse, engine="local")
    compactor.run_once()
    clock.now_ms += 2_000
    compactor.run_once()
    assert part.describe().rows == 0
    with part.consumer("c") as consumer:
        assert consumer.poll() == []
    assert [(known.offset, known.lag) for known in part.consumers()] == [(2, 0)]


def test_what_failed_after_a_commit_begins_behind_that_commit(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "a", "b", "c", "d")

    def pass_time() -> None:
        clock.now_ms += 5_000

    def take(consumer: Consumer, count: int) -> None:
        with consumer:
            for _ in range(count):
                next(consumer)
                pass_time()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take(part.consumer("c"), 3)
    assert stored(part) == 2


def test_an_iterator_that_failed_goes_on_when_it_is_asked_again(clock: HandClock) -> None:
    """Before, it was over, and said so as if somebody had stopped it."""
    store = FailingStore()
    part = Warehouse(Driver(store, clock)).create_topic("t", probe=False).partition(0)
    append(part, "a", "b")
    following = part.read(follow=True)

    def away(request: str, key: str) -> None:
        if request == "read":
            raise Unavailable(f"{key}: the store is away")

    store.before = away
    for _ in range(2):
        with pytest.raises(Unavailable):
            next(following)
    store.before = lambda _request, _key: None
    assert shown([next(following), next(following)]) == [0, 1]
