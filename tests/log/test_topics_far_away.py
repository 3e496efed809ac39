"""Topics of several partitions in a far store: the partitions are asked, and read, at once."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from lithify.log.record import Record
from lithify.log.small_partitions import TOGETHER_BYTES_MAX, PartitionRead, in_order
from lithify.log.snapshot import Snapshot
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment import points
from lithify.segment import room as rooms
from lithify.segment.parts import Need, Parts
from lithify.segment.room import Room
from lithify.store.driver import Driver
from lithify.store.errors import OffsetOutOfRange, Unavailable
from lithify.store.memory import MemoryStore
from tests.far import Meeting

T = TypeVar("T")
PARTITIONS = 6
KEYS = [b"%d" % n for n in range(60)]


@pytest.fixture
def store() -> Meeting:
    return Meeting()


@pytest.fixture
def topic(store: Meeting) -> Topic:
    topic = Warehouse(Driver(store)).create_topic("t", PARTITIONS, probe=False)
    topic.append([Record(key, key) for key in KEYS])
    return Warehouse(Driver(store)).topic("t")


@pytest.mark.parametrize("staleness_ms", [0, 60_000])
def test_they_are_asked_side_by_side(store: Meeting, topic: Topic, staleness_ms: int) -> None:
    for asked in (PARTITIONS, 0 if staleness_ms else PARTITIONS):
        store.all_meet(PARTITIONS)
        found = topic.get_many([*KEYS, b"never"], max_staleness_ms=staleness_ms)
        assert [record and record.value for record in found] == [*KEYS, None]
        assert len(store.met) == asked


def test_what_a_partition_raises_is_raised(store: Meeting, topic: Topic) -> None:
    assert topic.get_many(KEYS)
    store.away = "00003"
    with pytest.raises(Unavailable, match="no answer"):
        topic.get_many(KEYS)
    store.away = ""
    assert all(topic.get_many(KEYS))


@pytest.mark.parametrize("of_a_snapshot", [False, True])
def test_all_together_hold_no_more_than_one(topic: Topic, monkeypatch: pytest.MonkeyPatch, of_a_snapshot: bool) -> None:
    """As many looks, and as many bytes; one part is taken however large it is."""
    largest = max(ref.raw_bytes for part in topic.snapshot().partitions for ref in part.segments)
    monkeypatch.setattr(points, "LOOKS_MAX", 2 * PARTITIONS)
    monkeypatch.setattr(rooms, "WAVE_RAW_BYTES", 2 * largest)
    looks, held, most = list[int](), list[int](), list[int]()
    fetch, take, give = Parts.fetch, Room.take, Room.give

    def noted(self: Parts, needs: dict[Need, None]) -> None:
        looks.append(len(needs))
        fetch(self, needs)

    def taken(self: Room, size: int) -> None:
        take(self, size)
        held.append(size)
        most.append(sum(held))

    def given(self: Room, size: int) -> None:
        held.remove(size)
        give(self, size)

    monkeypatch.setattr(Parts, "fetch", noted)
    monkeypatch.setattr(Room, "take", taken)
    monkeypatch.setattr(Room, "give", given)
    assert all(topic.snapshot().get_many(KEYS) if of_a_snapshot else topic.get_many(KEYS))
    assert max(looks) <= 2
    assert max(most) <= 2 * largest
    assert len(most) >= PARTITIONS
    assert held == []


def test_a_room_has_place_for_one_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "WAVE_RAW_BYTES", 100)
    room, order = Room(2), list[str]()
    room.take(1_000)
    waits = threading.Thread(target=lambda: (room.take(1_000), order.append("taken"), room.give(1_000)))
    waits.start()
    order.append("given")
    room.give(1_000)
    waits.join()
    room.take(60)
    room.take(40)
    assert order == ["given", "taken"]


def keys_of(part: Snapshot) -> list[bytes]:
    return part.scan().read_all()["key"].to_pylist()


@pytest.mark.parametrize(
    "read",
    [lambda topic: [each.key for each in topic.read()], lambda topic: topic.scan().read_all()["key"].to_pylist()],
)
def test_small_ones_are_read_side_by_side(store: Meeting, topic: Topic, read: Callable[[Topic], Any]) -> None:
    store.all_meet(PARTITIONS, "segments")
    found = read(topic)
    assert len(store.met) == PARTITIONS
    places = {key: number for number, part in enumerate(topic.snapshot().partitions) for key in keys_of(part)}
    assert sorted(found) == sorted(KEYS)
    assert [places[key] for key in found] == sorted(places[key] for key in found), "one after the other, as ever"


def test_what_cannot_be_read_is_raised_when_its_turn_comes(store: Meeting, topic: Topic) -> None:
    before = sum(part.scan().read_all().num_rows for part in topic.snapshot().partitions[:3])
    store.at, store.away = "segments", "00003"
    batches: list[pa.RecordBatch] = []
    reader = topic.scan()
    with pytest.raises(Unavailable, match="no answer"):
        batches.extend(reader)
    assert sum(batch.num_rows for batch in batches) == before


def reads(sizes: list[int], cold: Collection[int] = ()) -> tuple[list[PartitionRead], list[int]]:
    """And a list of those that were read."""
    read: list[int] = []

    def batches(number: int) -> Iterator[pa.RecordBatch]:
        read.append(number)
        return iter([pa.record_batch({"n": [number]})])

    made = [PartitionRead(partial(batches, n), size, n not in cold) for n, size in enumerate(sizes)]
    return made, read


@pytest.mark.parametrize(
    ("sizes", "cold", "waves"),
    [
        ([1] * 5, (), [5]),
        ([1] * 40, (), [16, 16, 8]),
        ([TOGETHER_BYTES_MAX // 2 + 1] * 3, (), [1, 1, 1]),
        ([TOGETHER_BYTES_MAX, 1, 1, TOGETHER_BYTES_MAX], (), [1, 2, 1]),
        ([1] * 6, (2,), [2, 1, 3]),
        ([1] * 3, (0, 1, 2), [1, 1, 1]),
    ],
)
def test_how_many_are_read_at_once(sizes: list[int], cold: tuple[int, ...], waves: list[int]) -> None:
    """No more than memory holds, and nothing of another home in the threads of the store."""
    store, asked = Meeting(), list[int]()
    run = store.pool.run

    def noted(calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        asked.append(len(calls))
        return run(calls)

    store.pool.run = noted  # pyright: ignore[reportAttributeAccessIssue]
    made, _ = reads(sizes, cold)
    numbers = [batch.column("n")[0].as_py() for batch in in_order(made, store)]
    assert numbers == list(range(len(sizes)))
    assert asked == [wave for wave in waves if wave > 1]


def test_near_ones_are_read_at_their_turn() -> None:
    made, read = reads([1] * 3)
    for at, _ in enumerate(in_order(made, MemoryStore()), 1):
        assert len(read) == at


def test_offsets_for_a_time_are_looked_up_side_by_side(store: Meeting, topic: Topic) -> None:
    store.all_meet(PARTITIONS, "segments")
    times = sorted(record.timestamp_ms or 0 for record in topic.read())
    store.all_meet(PARTITIONS, "manifest")
    assert topic.offsets_for_timestamp(times[0]) == dict.fromkeys(range(PARTITIONS), 0)
    assert topic.offsets_for_timestamp(times[-1] + 1) == dict.fromkeys(range(PARTITIONS), None)


def test_a_snapshot_is_renewed_and_released_side_by_side(store: Meeting, topic: Topic) -> None:
    snapshot = topic.snapshot(ttl=60_000)
    for do in (snapshot.renew, snapshot.release):
        store.all_meet(PARTITIONS, "manifest")
        do()
        assert len(store.met) == PARTITIONS
    assert not any(topic.partition(number).checkpoints() for number in range(PARTITIONS))


def test_records_are_deleted_side_by_side_also_beside_a_partition_that_fails(store: Meeting, topic: Topic) -> None:
    store.all_meet(PARTITIONS, "manifest")
    ends = topic.delete_records(dict.fromkeys(range(PARTITIONS), -1))
    assert ends == {number: each.next_offset for number, each in enumerate(topic.snapshot().partitions)}
    topic.append([Record(key, key) for key in KEYS])
    with pytest.raises(OffsetOutOfRange):
        topic.delete_records({0: 1_000, **dict.fromkeys(range(1, PARTITIONS), -1)})
    left = topic.snapshot().partitions
    assert [each.log_start_offset == each.next_offset for each in left] == [False] + [True] * (PARTITIONS - 1)
