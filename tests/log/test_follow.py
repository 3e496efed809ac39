"""Following: each record once and in order, whatever compaction, collection and retention do underneath; gaps."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from lithify.log.follow import Gap
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, NotFound, OffsetOutOfRange, SnapshotExpired, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Get, Head, Together
from lithify.store.request_counts import RequestCounts
from tests.clock import HandClock
from tests.log.compaction import collect, compact
from tests.log.waiting import Script

COMPACTED = {"cleanup.policy": "compact"}
EXPIRING = {"cleanup.policy": "delete", "retention.ms": 1_000}


def append(part: Partition, *values: str) -> range:
    return part.append([Record(value.encode(), value.encode()) for value in values])


def shown(items: Iterable[Record | Gap]) -> list[Any]:
    """Offsets, and gaps as pairs."""
    return [(item.start_offset, item.end_offset) if isinstance(item, Gap) else item.offset for item in items]


def expire(clock: HandClock) -> None:
    """Whatever is there by now is older than EXPIRING keeps."""
    clock.now_ms += 1_001


def test_it_goes_on_with_what_comes(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    other = any_warehouse.topic("t").partition(0)
    append(part, "a", "b")
    script = Script(any_warehouse, lambda: append(other, "a"), lambda: None, lambda: append(part, "c", "d"))
    items = list(part.read(follow=True, poll_ms=70, stop=script.stop))
    assert shown(items) == [0, 1, 2, 3, 4]
    assert [item.value for item in items if isinstance(item, Record)] == [b"a", b"b", b"a", b"c", b"d"]
    assert set(script.pauses_ms) == {70}


def test_it_ends_when_it_is_told_and_when_it_is_closed(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "a", "b")
    assert list(part.read(follow=True, stop=lambda: True)) == []
    following = part.read(follow=True)
    assert shown([next(following)]) == [0]
    following.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(following)


def test_where_it_begins_is_fixed_by_the_call(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "a")
    script = Script(warehouse)
    latest = part.read(None, auto_offset_reset="latest", follow=True, stop=script.stop)
    append(part, "b")
    assert shown(latest) == [1]


def test_to_wait_costs_one_get_every_second_time_two(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "a")
    follower = part.follower()
    assert follower.take() is not None
    spent: list[int] = []
    for _ in range(4):
        before = warehouse.store.requests()
        assert follower.take() is None
        asked = warehouse.store.requests() - before
        assert asked == RequestCounts(gets=asked.gets, bytes_read=asked.bytes_read)
        spent.append(asked.gets)
    assert spent == [1, 2, 1, 2]


def test_what_compaction_superseded_is_no_gap(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(part, "a", "b", "a")
    steps = (
        lambda: (append(part, "a", "a", "c"), compact(warehouse, "t")),  # 3 goes unread
        lambda: (append(part, "b", "b"), append(part, "b"), compact(warehouse, "t")),  # 6 and 7 go
        lambda: compact(warehouse, "t"),
    )
    script = Script(warehouse, *steps)
    assert shown(part.read(follow=True, stop=script.stop)) == [0, 1, 2, 4, 5, 8]


@pytest.mark.slow
def test_a_snapshot_that_expires_is_opened_anew_at_the_same_place(
    any_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lithify.log.follow.STRETCH_RECORDS", 2)
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    for number in range(6):
        append(part, f"a{number}", f"b{number}")
    follower, snapshot = part.follower(), part.snapshot()
    first = follower.take()
    assert first is not None
    append(part, "a5", "late")
    compact(any_warehouse, "t")
    append(part, "last")
    collect(any_warehouse, "t")
    with pytest.raises(SnapshotExpired):
        list(snapshot.read())
    found = shown(first.items)
    for _ in range(2):  # every second look is at the boundary, too: what was read ahead may have been all
        while (stretch := follower.take()) is not None:
            found += shown(stretch.items)
    # 10, a5, may have been read before it was superseded by 12, or not.
    assert [offset for offset in found if offset != 10] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14]


@pytest.mark.slow
def test_who_slept_through_a_collection_wakes(any_warehouse: Warehouse) -> None:
    """The next number is gone, so only the boundary tells that something happened (P3)."""
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(part, "a")

    def much() -> None:
        for number in range(4):
            append(part, f"k{number}")
        compact(any_warehouse, "t")
        append(part, "z")
        collect(any_warehouse, "t")

    script = Script(any_warehouse, much, lambda: None)
    assert shown(part.read(follow=True, stop=script.stop)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("reset", "goes_on"), [("earliest", [0, (1, 3), 3, 4]), ("latest", [0, (1, 4), 4]), ("error", [0])]
)
def test_what_retention_took_is_a_gap(warehouse: Warehouse, clock: HandClock, reset: Any, goes_on: list[Any]) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    append(part, "0")

    def too_late() -> None:
        append(part, "1", "2")
        expire(clock)
        append(part, "3")

    script = Script(warehouse, too_late, lambda: append(part, "4"))
    found: list[Any] = []
    following = part.read(follow=True, auto_offset_reset=reset, stop=script.stop)
    if reset == "error":
        with pytest.raises(OffsetOutOfRange, match="begins at 3 and ends before 4"):
            found.extend(shown([item]) for item in following)
        found = [offset for (offset,) in found]
    else:
        items = list(following)
        found = shown(items)
        assert all(reset in item.reason for item in items if isinstance(item, Gap))
    assert found == goes_on


def test_what_was_deleted_by_hand_is_no_gap(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    append(part, "0")
    steps = (
        lambda: (append(part, "1", "2", "3"), part.delete_records(3)),
        lambda: (append(part, "4"), append(part, "5"), part.delete_records(5), expire(clock), append(part, "6")),
    )
    script = Script(warehouse, *steps)
    # Of 4 and 5 the first was deleted, the second expired.
    assert shown(part.read(follow=True, stop=script.stop)) == [0, 3, (5, 6), 6]


def test_a_deletion_under_the_latest_policy_shows_what_the_policy_skips(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "0")
    script = Script(warehouse, lambda: (append(part, "1", "2", "3"), part.delete_records(2)), lambda: append(part, "4"))
    found = shown(part.read(follow=True, auto_offset_reset="latest", stop=script.stop))
    assert found == [0, (2, 4), 4]


START_CASES: list[tuple[int | None, Any, list[Any] | None]] = [
    (0, "earliest", [2, 3]),  # the log's beginning, wherever that is
    (None, "earliest", [2, 3]),
    (1, "earliest", [(1, 2), 2, 3]),  # a place that somebody had come to
    (2, "earliest", [2, 3]),
    (3, "latest", [3]),
    (0, "latest", []),
    (None, "latest", []),
    (1, "latest", [(1, 4)]),
    (4, "error", []),
    (1, "error", None),
    (None, "error", None),
    (9, "earliest", [2, 3]),  # beyond the log: as Kafka resets it
    (9, "latest", []),
    (9, "error", None),
]


@pytest.mark.parametrize(("start", "reset", "found"), START_CASES)
def test_where_a_follower_begins(
    warehouse: Warehouse, clock: HandClock, start: int | None, reset: Any, found: list[Any] | None
) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    append(part, "0", "1")
    expire(clock)
    append(part, "2", "3")
    script = Script(warehouse)
    if found is None:
        with pytest.raises(OffsetOutOfRange, match="begins at 2 and ends before 4"):
            part.read(start, follow=True, auto_offset_reset=reset)
    else:
        assert shown(part.read(start, follow=True, auto_offset_reset=reset, stop=script.stop)) == found


@pytest.mark.parametrize(
    ("start", "end", "reset", "found"),
    [
        (0, None, "earliest", [2, 3]),
        (None, None, "earliest", [2, 3]),
        (1, 3, "earliest", [2]),
        (0, 1, "earliest", []),
        (1, None, "latest", []),
        (1, 2, "latest", []),
        (None, None, "latest", []),
        (2, None, "latest", [2, 3]),
        (4, None, "error", []),
        (3, None, "error", [3]),
        (1, None, "error", None),
        (None, None, "error", None),
        (5, None, "earliest", None),
        (5, None, "latest", None),
    ],
)
def test_where_a_read_begins(
    warehouse: Warehouse,
    clock: HandClock,
    start: int | None,
    end: int | None,
    reset: Any,
    found: list[int] | None,
) -> None:
    part = warehouse.create_topic("t", config=EXPIRING).partition(0)
    append(part, "0", "1")
    expire(clock)
    append(part, "2", "3")
    if found is None:
        said = "read from 2 to 4" if start == 5 else "begins at 2 and ends before 4"
        with pytest.raises(OffsetOutOfRange, match=said):
            part.read(start, end, auto_offset_reset=reset)
        return
    assert shown(part.read(start, end, auto_offset_reset=reset)) == found
    batches = part.read_batches(start, end, auto_offset_reset=reset)
    assert batches.read_all().column("offset").to_pylist() == found


@pytest.mark.parametrize(
    "arguments",
    [
        {"follow": True, "end_offset": 3},
        {"follow": True, "start_offset": -1},
        {"follow": True, "start_offset": "1"},
        {"follow": True, "poll_ms": 0},
        {"follow": True, "poll_ms": 1.5},
        {"auto_offset_reset": "none"},
        {"start_offset": 5, "end_offset": 3},
        {"start_offset": None, "end_offset": "3"},
    ],
)
def test_what_makes_no_sense_is_refused(warehouse: Warehouse, arguments: dict[str, Any]) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "0")
    with pytest.raises(InvalidRequest):
        part.read(**arguments)


def test_a_deleted_topic_ends_its_followers(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    append(part, "0")
    Script(warehouse, lambda: warehouse.delete_topic("t"))
    following = part.read(follow=True)
    assert shown([next(following)]) == [0]
    with pytest.raises(NotFound, match="was deleted"):
        next(following)


class Failing(MemoryStore):
    """It cannot be read while it is told so."""

    down = False

    def read(self, key: str, start: int, length: int) -> bytes:
        if self.down:
            raise Unavailable(f"{key}: the store is away; retry")
        return super().read(key, start, length)


def test_a_follower_outlives_an_outage(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried on log/follow.py, and caught: the iterator that failed is kept, and taken for one that came to its end."""
    monkeypatch.setattr("lithify.log.follow.STRETCH_RECORDS", 1)
    store = Failing()
    part = Warehouse(Driver(Metered(store), clock)).create_topic("t").partition(0)
    for number in range(4):
        append(part, str(number))
    follower = part.follower()
    first = follower.take()
    assert first is not None
    found = shown(first.items)
    store.down = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            follower.take()
    store.down = False
    while (stretch := follower.take()) is not None:
        found += shown(stretch.items)
    assert found == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_each_record_that_stays_is_seen_once(
    seed: int, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key is appended once, so compaction drops nothing: a record is seen, or lies in a gap, or was deleted."""
    chance = random.Random(seed)
    monkeypatch.setattr("lithify.log.follow.STRETCH_RECORDS", 3)
    warehouse = Warehouse(Driver(Metered(MemoryStore()), clock))
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact,delete", "retention.ms": 5_000})
    part, follower, found = topic.partition(0), topic.partition(0).follower(), list[Any]()
    count = 0

    def add() -> None:
        nonlocal count
        size = chance.randrange(1, 5)
        part.describe()  # collections here know no grace: who builds on an older head may never learn what became of it
        append(part, *(f"k{number}" for number in range(count, count + size)))
        count += size

    def pass_time() -> None:
        clock.now_ms += chance.randrange(3_000)

    def delete() -> None:
        part.delete_records(chance.randrange(part.describe().log_start_offset, count + 1))

    def merge() -> None:
        compact(warehouse, "t", drop=chance.random() < 0.5)

    def sweep_up() -> None:
        collect(warehouse, "t")

    for _ in range(60):
        chance.choice([add, add, add, pass_time, delete, merge, sweep_up])()
        for _ in range(chance.randrange(3)):
            stretch = follower.take()
            found += [] if stretch is None else stretch.items
    for _ in range(1_000):
        stretch = follower.take() or follower.take()
        if stretch is None:
            break
        found += stretch.items
    offsets = [item.offset for item in found if isinstance(item, Record)]
    lost = [offset for item in found if isinstance(item, Gap) for offset in range(item.start_offset, item.end_offset)]
    assert shown(found) == sorted(shown(found), key=lambda each: each[0] if isinstance(each, tuple) else each)
    assert len(set(offsets + lost)) == len(offsets + lost)
    deleted_to = warehouse.driver.run(part._files.head()).deleted_to
    assert {offset for offset in range(count) if offset >= deleted_to} <= {*offsets, *lost}
    assert all(item.key == f"k{item.offset}".encode() for item in found if isinstance(item, Record))
    assert follower.position == count


def test_twenty_new_segments_are_followed_in_five_rounds(clock: HandClock) -> None:
    """Of requests for numbered files; the segments are read in one more (tests/segment/test_ahead.py)."""
    driver = Driver(MemoryStore(), clock)
    part = Warehouse(driver).create_topic("t", config={"cleanup.policy": "compact"}, probe=False).partition(0)
    follower, answer, asked = part.follower(), driver.answer, list[Any]()

    def counted(request: Any) -> Any:
        if isinstance(request, Get | Head | Together):
            asked.append(request)
        return answer(request)

    rounds: list[int] = []
    for _ in range(3):
        for _ in range(20):
            part.append([Record(b"k", b"v")])
        driver.answer = counted
        while follower.take() is not None:
            pass
        driver.answer = answer
        rounds.append(len(asked))
        asked.clear()
    assert rounds == [5, 4, 4]
