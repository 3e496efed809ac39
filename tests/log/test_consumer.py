"""Named consumers: positions that survive, rivals under one name, what is read again after a failure, alarms."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from lithify.log.consumer import Consumer
from lithify.log.follow import Gap
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.model import CONSUMERS_MAX
from lithify.store.driver import Driver
from lithify.store.errors import (
    Fenced,
    InvalidRequest,
    NotFound,
    OffsetOutOfRange,
    Unavailable,
)
from tests.clock import HandClock
from tests.log.compaction import collect, compact, files_of
from tests.log.failing import FailingStore
from tests.log.test_follow import COMPACTED, EXPIRING, append, expire, shown
from tests.log.waiting import Script


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    made = warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(made, "a", "b", "c", "d")
    return made


def stored(part: Partition, name: str = "c") -> int:
    (found,) = [known.offset for known in part.consumers() if known.name == name]
    return found


def commits(warehouse: Warehouse) -> int:
    return warehouse.driver.run(files_of(warehouse, "t").head()).id


def test_it_goes_on_where_the_last_one_left_off(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(part, "a", "b", "c", "d")
    with part.consumer("c") as consumer:
        assert shown([next(consumer), next(consumer)]) == [0, 1]
        assert consumer.position == 2
    append(part, "a")
    compact(any_warehouse, "t")
    append(part, "e")
    collect(any_warehouse, "t")
    with any_warehouse.topic("t").partition(0).consumer("c") as consumer:
        assert (consumer.position, consumer.committed) == (2, 2)
        assert shown(consumer.poll(max_records=3)) == [2, 3, 4]
        assert shown(consumer.poll()) == [5]
        assert consumer.poll() == []
    (known,) = part.describe().consumers
    assert (known.name, known.offset, known.lag, known.missed_to, known.alarm) == ("c", 6, 0, 0, None)


def test_a_clock_that_steps_back_stops_no_commit(part: Partition, clock: HandClock) -> None:
    clock.now_ms += 3_600_000
    with part.consumer("c", auto_commit_interval_ms=1_000) as consumer:
        clock.now_ms -= 3_600_000
        assert shown(consumer.poll()) == [0, 1, 2, 3]
        consumer.poll(timeout_ms=0)
        assert consumer.committed == 4


def test_iterating_waits_and_commits_by_interval(warehouse: Warehouse, clock: HandClock, part: Partition) -> None:
    found: list[tuple[int, int]] = []

    def later() -> None:
        clock.now_ms += 4_000

    script = Script(warehouse, later, later, lambda: append(part, "e"), later, later)
    before = commits(warehouse)
    with part.consumer("c", poll_ms=9, stop=script.stop) as consumer:
        for item in consumer:
            assert isinstance(item, Record)
            assert item.offset is not None
            found.append((item.offset, stored(part)))
    # Taken over; at 8 s; after the fifth record at 16 s. Where nothing moved nothing is committed, at the end, too.
    assert found == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 4)]
    assert commits(warehouse) - before == 4  # an append is among them
    assert stored(part) == 5
    assert set(script.pauses_ms) == {9}


def test_what_was_being_dealt_with_when_it_failed_is_handed_out_again(part: Partition) -> None:
    """Tried on log/consumer.py, and caught: the position is committed in place of what the caller came back after."""
    with pytest.raises(ZeroDivisionError):
        take_and_fail(part, 3)
    assert stored(part) == 2
    with part.consumer("c") as consumer:
        assert shown([next(consumer)]) == [2]
    assert stored(part) == 3  # left without an error: the record was dealt with
    with pytest.raises(ZeroDivisionError):
        take_and_fail(part, 1)
    assert stored(part) == 3


def take_and_fail(part: Partition, count: int, then: Callable[[], object] = int, name: str = "c") -> None:
    with part.consumer(name) as consumer:
        for _ in range(count):
            next(consumer)
        then()
        raise ZeroDivisionError


def test_only_commit_commits_where_it_was_asked_for(part: Partition, clock: HandClock) -> None:
    with part.consumer("c", auto_commit_interval_ms=None) as consumer:
        assert shown(consumer.poll(max_records=2)) == [0, 1]
        clock.now_ms += 1_000_000
        assert shown(consumer.poll(max_records=1)) == [2]
        assert stored(part) == 0
        consumer.commit()
        assert stored(part) == consumer.committed == 3
        assert shown(consumer.poll()) == [3]
    assert stored(part) == 3
    assert repr(consumer).endswith("closed)")
    with pytest.raises(InvalidRequest, match="closed; open another one"):
        consumer.poll()
    with pytest.raises(StopIteration):
        next(consumer)


def test_a_commit_of_nothing_new_asks_for_nothing(warehouse: Warehouse, part: Partition) -> None:
    consumer = part.consumer("c")
    consumer.poll()
    consumer.commit()
    before = warehouse.store.requests()
    consumer.commit()
    consumer.close()
    consumer.close()
    assert warehouse.store.requests() == before


def test_a_commit_is_one_put_and_one_get(warehouse: Warehouse, part: Partition) -> None:
    consumer = part.consumer("c")
    consumer.poll()
    before = warehouse.store.requests()
    consumer.commit()
    spent = warehouse.store.requests() - before
    assert (spent.creates, spent.gets, spent.puts, spent.heads, spent.lists) == (1, 1, 0, 0, 0)


def test_its_own_commits_hide_no_record_from_it(warehouse: Warehouse, part: Partition) -> None:
    """Its commit comes after a rival append that it has not seen: what the chain shows it next is its own number."""
    other = warehouse.topic("t").partition(0)
    consumer = part.consumer("c")
    assert shown(consumer.poll()) == [0, 1, 2, 3]
    append(other, "e")
    consumer.commit()
    assert shown(consumer.poll()) == [4]


def test_polling_waits_no_longer_than_it_may(warehouse: Warehouse, part: Partition) -> None:
    script = Script(warehouse, lambda: None, lambda: append(part, "e"))
    warehouse.driver.monotonic_ms = HandClock()  # of a slow machine each poll would wait a moment less, and then again
    consumer = part.consumer("c", poll_ms=400)
    assert len(consumer.poll(1_000)) == 4
    assert script.pauses_ms == []
    assert shown(consumer.poll(1_000)) == [4]
    assert script.pauses_ms == [400, 400]
    assert consumer.poll(300) == []
    assert script.pauses_ms == [400, 400, 300]


def test_a_poll_ends_when_it_is_told(warehouse: Warehouse, part: Partition) -> None:
    """However long it may wait. Tried on log/consumer.py and log/topic_consumer.py, and caught: `stop` is not asked."""
    for open_one in (part.consumer, warehouse.topic("t").consumer):
        script = Script(warehouse, lambda: None)
        consumer = open_one("c", poll_ms=400, stop=script.stop)
        assert len(consumer.poll(10**9)) == 4
        assert consumer.poll(10**9) == []
        assert script.pauses_ms == [400, 400]
        consumer.close()
        part.reset_consumer("c", "earliest")


def test_what_is_not_polled_asks_for_nothing(clock: HandClock) -> None:
    """So a partition is left out by not polling it."""
    store, asked = FailingStore(), list[str]()
    topic = Warehouse(Driver(store, clock)).create_topic("t", partitions=2, probe=False)
    polled, left_out = (topic.partition(number).consumer("c") for number in range(2))
    for number in range(2):
        append(topic.partition(number), "a")
    store.before = lambda _, key: asked.append(key)
    assert shown(polled.poll()) == [0]
    assert polled.poll() == []
    assert asked
    assert [key for key in asked if "/00001/" in key] == []
    assert shown(left_out.poll()) == [0]


def test_where_a_new_name_begins_is_fixed_by_opening_it(part: Partition) -> None:
    """The first instance dies before it commits. Tried on log/positions.py, and caught: each one begins anew."""
    part.consumer("c", auto_offset_reset="latest")
    append(part, "e")
    assert shown(part.consumer("c", auto_offset_reset="latest").poll()) == [4]


def test_who_comes_later_takes_the_name_over(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t").partition(0)
    append(part, "a", "b", "c", "d")
    older = part.consumer("c")
    assert shown(older.poll(max_records=2)) == [0, 1]
    newer = any_warehouse.topic("t").partition(0).consumer("c")
    with pytest.raises(Fenced, match="another instance"):
        older.commit()
    with pytest.raises(Fenced):
        older.close()
    assert shown(newer.poll()) == [0, 1, 2, 3]  # what the older one had not committed
    newer.close()
    assert stored(part) == 4


def test_an_automatic_commit_that_is_refused_ends_the_loop(part: Partition, clock: HandClock) -> None:
    older = part.consumer("c")
    next(older)
    part.consumer("c")
    assert shown([next(older)]) == [1]  # it does not know yet
    clock.now_ms += 5_000
    for _ in range(2):
        with pytest.raises(Fenced):
            next(older)
        clock.now_ms += 5_000


@pytest.mark.parametrize(
    "become",
    [
        lambda part: part.consumer("other"),
        lambda part: part.reset_consumer("other", "earliest"),
        lambda part: part.reset_consumer("other", "latest"),
        lambda part: part.delete_consumer("other"),
        lambda part: take_and_fail(part, 1, name="other"),
    ],
    ids=["taken over", "reset to earliest", "reset to latest", "deleted", "failed"],
)
def test_whatever_becomes_of_one_name_is_nothing_to_another(
    part: Partition, become: Callable[[Partition], object]
) -> None:
    """Tried on manifest/consumers.py, and caught: a commit that leaves its own entry alone in the manifest."""
    mine, other = part.consumer("mine"), part.consumer("other")
    assert shown(mine.poll(max_records=1)) == [0]
    assert shown(other.poll(max_records=3)) == [0, 1, 2]
    mine.commit()
    assert (stored(part, "mine"), stored(part, "other")) == (1, 0)
    other.commit()
    assert (stored(part, "mine"), stored(part, "other")) == (1, 3)
    with contextlib.suppress(ZeroDivisionError):
        become(part)
    append(part, "e")
    assert shown(mine.poll()) == [1, 2, 3]
    assert shown(mine.poll()) == [4]
    mine.close()
    assert stored(part, "mine") == 5


def test_a_reset_refuses_who_runs(part: Partition) -> None:
    consumer = part.consumer("c")
    consumer.poll(max_records=3)
    assert part.reset_consumer("c", 1) == 1
    with pytest.raises(Fenced, match="reset"):
        consumer.commit()
    assert shown(part.consumer("c").poll()) == [1, 2, 3]
    assert part.reset_consumer("c", "latest") == 4
    assert part.consumer("c").poll() == []
    assert part.reset_consumer("c", "earliest") == 0
    with pytest.raises(OffsetOutOfRange, match="beyond the end of the log"):
        part.reset_consumer("c", 5)
    with pytest.raises(NotFound, match="no consumer 'd'"):
        part.reset_consumer("d", 0)


def test_a_deleted_consumer_begins_anew(part: Partition) -> None:
    consumer = part.consumer("c")
    consumer.poll()
    part.delete_consumer("c")
    assert part.consumers() == ()
    with pytest.raises(NotFound, match="was deleted"):
        consumer.commit()
    with pytest.raises(NotFound):
        part.delete_consumer("c")
    assert len(part.consumer("c").poll()) == 4


@pytest.mark.parametrize(("reset", "found"), [("earliest", [2, 3]), ("latest", []), ("error", None)])
def test_a_new_name_begins_where_it_is_told(
    warehouse: Warehouse, clock: HandClock, reset: Any, found: list[int] | None
) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    append(part, "0", "1")
    expire(clock)
    append(part, "2", "3")
    if found is None:
        with pytest.raises(OffsetOutOfRange, match="no position"):
            part.consumer("c", auto_offset_reset=reset)
        assert part.consumers() == ()
        return
    with part.consumer("c", auto_offset_reset=reset) as consumer:
        assert shown(consumer.poll()) == found
    append(part, "4")
    assert shown(part.consumer("c", auto_offset_reset=reset).poll()) == [4]


def test_what_expired_before_it_was_read_is_a_gap_and_an_alarm(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    with part.consumer("c"), part.consumer("late", auto_offset_reset="latest"):
        pass
    append(part, "0", "1", "2")
    expire(clock)
    append(part, "3", "4")
    infos = {known.name: known for known in part.consumers()}
    assert infos["c"].alarm is not None
    assert "offsets 0 to 2 expired unread" in infos["c"].alarm
    assert (infos["c"].offset, infos["c"].lag) == (0, 2)
    with part.consumer("c") as consumer:
        gap = next(consumer)
        assert isinstance(gap, Gap)
        assert (gap.start_offset, gap.end_offset, consumer.position) == (0, 3, 3)
        assert shown(consumer.poll()) == [3, 4]
    with pytest.raises(OffsetOutOfRange):
        part.consumer("late", auto_offset_reset="error")


def test_at_the_bound_a_new_name_is_refused(part: Partition) -> None:
    for number in range(CONSUMERS_MAX):
        part.consumer(f"c{number:03d}")
    with pytest.raises(Unavailable, match="lithify consumer"):
        part.consumer("more")
    assert len(part.consumer("c007").poll()) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "x" * 250},
        {"name": "a\nb"},
        {"name": 7},
        {"auto_commit_interval_ms": 0},
        {"auto_commit_interval_ms": "5000"},
        {"poll_ms": 0},
        {"auto_offset_reset": "none"},
    ],
)
def test_what_makes_no_sense_is_refused(part: Partition, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        part.consumer(**{"name": "c", **arguments})
    assert part.consumers() == ()


@pytest.mark.parametrize("arguments", [{"timeout_ms": -1}, {"timeout_ms": 0.5}, {"max_records": 0}])
def test_polls_that_make_no_sense_are_refused(part: Partition, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        part.consumer("c").poll(**arguments)


@pytest.mark.parametrize("to", [-1, "first", 1.5, None])
def test_resets_that_make_no_sense_are_refused(part: Partition, to: Any) -> None:
    part.consumer("c")
    with pytest.raises(InvalidRequest):
        part.reset_consumer("c", to)


def test_it_says_what_it_is(part: Partition) -> None:
    consumer = part.consumer("c")
    assert isinstance(consumer, Consumer)
    assert repr(consumer) == "Consumer('c' of t/0 at 0)"
    assert iter(consumer) is consumer
