"""What failed while it was read never ends as if it were complete: asked again, it fails again."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, LithifyError, Unavailable
from tests.clock import HandClock
from tests.log.compaction import compact
from tests.log.failing import FailingStore
from tests.log.test_follow import COMPACTED, append

READS: dict[str, Callable[[Topic], Iterator[Any]]] = {
    "Topic.scan": lambda topic: iter(topic.scan()),
    "Partition.scan": lambda topic: iter(topic.partition(0).scan()),
    "Partition.read": lambda topic: topic.partition(0).read(),
    "Partition.read from an offset": lambda topic: topic.partition(0).read(3),
    "Partition.read_batches": lambda topic: iter(topic.partition(0).read_batches()),
    "Snapshot.read": lambda topic: topic.partition(0).snapshot().read(),
    "Snapshot.scan": lambda topic: iter(topic.partition(0).snapshot().scan(tombstones=True)),
    "scan_and_follow": lambda topic: iter(topic.partition(0).scan_and_follow().state),
    "scan_and_follow by name": lambda topic: iter(topic.partition(0).scan_and_follow("c").state),
}


def filled() -> tuple[FailingStore, Topic]:
    store = FailingStore()
    warehouse = Warehouse(Driver(store, HandClock()))
    topic = warehouse.create_topic("t", partitions=2, probe=False, config=COMPACTED)
    for number in range(2):
        append(topic.partition(number), "a", "b", "c")
        append(topic.partition(number), "c", "d")
    compact(warehouse, "t")
    append(topic.partition(0), "d", "e")
    return store, topic


def rows(item: Any) -> int:
    return getattr(item, "num_rows", 1)


@pytest.mark.parametrize("error", [Unavailable, Corrupt, KeyboardInterrupt])
@pytest.mark.parametrize("kind", READS)
def test_a_read_that_failed_never_ends_as_if_it_were_complete(kind: str, error: type[BaseException]) -> None:
    """At any of its requests. Before, whoever asked again was told that this was all."""
    store, topic = filled()
    whole = sum(map(rows, READS[kind](topic)))
    failures = 0
    for after in itertools.count():
        reading = READS[kind](topic)
        store.before = failing_after(store, after, error)
        found, told = drained(reading)
        store.before = lambda _request, _key: None
        if told is None:
            assert found == whole
            break
        assert found < whole
        for _ in range(3):
            again = drained(reading)
            assert again == (0, Unavailable if error is KeyboardInterrupt else error)
        failures += 1
    assert failures


def failing_after(store: FailingStore, count: int, error: type[BaseException]) -> Callable[[str, str], None]:
    """The read after so many of segments fails, once."""
    left = [None] * count

    def before(request: str, key: str) -> None:
        if request != "read":
            return
        if not left:
            store.before = lambda _request, _key: None
            raise error(f"{key}: told by the test")
        left.pop()

    return before


def drained(reading: Iterator[Any]) -> tuple[int, type[BaseException] | None]:
    """How many rows came, and what ended it."""
    found = 0
    try:
        for item in reading:
            found += rows(item)
    except (LithifyError, KeyboardInterrupt) as error:
        return found, type(error)
    return found, None


def test_a_state_that_failed_is_no_state() -> None:
    """Its consumer goes on from the end of the scan, and commits nothing."""
    store, topic = filled()
    part = topic.partition(0)
    rebuilt = part.scan_and_follow("c")

    def before(request: str, key: str) -> None:
        if request == "read":
            raise Unavailable(f"{key}: told by the test")

    store.before = before
    for _ in range(2):
        with pytest.raises(Unavailable):
            rebuilt.state.read_all()
        store.before = lambda _request, _key: None
    assert rebuilt.consumer is not None
    rebuilt.consumer.poll()
    rebuilt.consumer.close()
    assert [known.offset for known in part.consumers()] == [0]


def test_what_was_read_to_its_end_ends_however_often_it_is_asked() -> None:
    _, topic = filled()
    for read in READS.values():
        reading = read(topic)
        assert list(reading)
        assert [next(reading, None) for _ in range(3)] == [None] * 3
