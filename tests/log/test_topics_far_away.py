"""Topics of several partitions in a far store: the partitions are asked, and read, at once."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from lithify.log.record import Record
from lithify.log.small_partitions import TOGETHER_BYTES_MAX, PartitionRead, in_turn
from lithify.log.snapshot import Snapshot
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment import points
from lithify.segment import room as rooms
from lithify.segment.parts import Need, Parts
from lithify.segment.room import Room
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Object
from lithify.store.side_by_side import SideBySide
from tests.far import FarStore

T = TypeVar("T")
PARTITIONS = 6
KEYS = [b"%d" % n for n in range(60)]


class Meeting(FarStore):
    """A store with threads, which answers the first question about each partition's files of one kind when all have
    asked."""

    def __init__(self) -> None:
        super().__init__("meeting")
        self.pool = SideBySide()
        self.meets: threading.Barrier | None = None
        self.met: set[str] = set()
        self.away = ""
        self.at = "manifest"  # where they meet

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self.pool.run(calls)

    def get(self, key: str) -> Object | None:
        self.meet(key)
        return super().get(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        self.meet(key)
        return super().read(key, start, length)

    def meet(self, key: str) -> None:
        partition = key.split("/")[2] if f"/{self.at}/" in key else ""
        if partition and partition == self.away:
            raise Unavailable("no answer")
        if partition and self.meets is not None and partition not in self.met:
            self.met.add(partition)
            self.meets.wait(60)


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
    for meets in (threading.Barrier(PARTITIONS), None if staleness_ms else threading.Barrier(PARTITIONS)):
        store.meets = meets
        store.met.clear()
        found = topic.get_many([*KEYS, b"never"], max_staleness_ms=staleness_ms)
        assert [record and record.value for record in found] == [*KEYS, None]
        assert len(store.met) == (PARTITIONS if meets else 0)


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
    store.at, store.meets = "segments", threading.Barrier(PARTITIONS)
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
    numbers = [batch.column("n")[0].as_py() for batch in in_turn(made, store)]
    assert numbers == list(range(len(sizes)))
    assert asked == [wave for wave in waves if wave > 1]


def test_near_ones_are_read_at_their_turn() -> None:
    made, read = reads([1] * 3)
    for at, _ in enumerate(in_turn(made, MemoryStore()), 1):
        assert len(read) == at
