"""Keys of several partitions of a far store: the partitions are asked at once."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment import points
from lithify.segment.parts import Need, Parts
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.port import Object
from lithify.store.side_by_side import SideBySide
from tests.far import FarStore

T = TypeVar("T")
PARTITIONS = 6
KEYS = [b"%d" % n for n in range(60)]


class Meeting(FarStore):
    """A store with threads, which answers the first question about each manifest when all partitions have asked."""

    def __init__(self) -> None:
        super().__init__("meeting")
        self.pool = SideBySide()
        self.meets: threading.Barrier | None = None
        self.met: set[str] = set()
        self.away = ""

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self.pool.run(calls)

    def get(self, key: str) -> Object | None:
        partition = key.split("/")[2] if "/manifest/" in key else ""
        if partition and partition == self.away:
            raise Unavailable("no answer")
        if partition and self.meets is not None and partition not in self.met:
            self.met.add(partition)
            self.meets.wait(60)
        return super().get(key)


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
    monkeypatch.setattr(points, "LOOKS_MAX", 2 * PARTITIONS)
    looks: list[int] = []
    fetch = Parts.fetch

    def noted(self: Parts, needs: dict[Need, None]) -> None:
        looks.append(len(needs))
        fetch(self, needs)

    monkeypatch.setattr(Parts, "fetch", noted)
    assert all(topic.snapshot().get_many(KEYS) if of_a_snapshot else topic.get_many(KEYS))
    assert max(looks) <= 2
    looks.clear()
    topic.partition(0).get_many(KEYS)
    assert looks
