"""The partitions of a topic, each as it was when it was opened, at most a minute before its turn."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from lithify.log.small_partitions import TOGETHER_MAX, PartitionRead
from lithify.log.snapshot import Snapshot
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse

__all__ = ["OPEN_ANEW_MS", "Turns"]

OPEN_ANEW_MS = 60_000  # when a turn comes later than this

T = TypeVar("T")


class Turns(Generic[T]):
    """What is to be read of each partition, for `lithify.log.small_partitions.in_order`. One that cannot be opened is
    tried again, and raises, at its turn.

    SUBTLE! 1. Several partitions are opened. 2. An hour goes by while the first is written. 3. The manifest of the
    second has been collected. So the next ones are opened anew, and measured. Test:
    tests/cli/test_partitions_far_away.py
    """

    def __init__(self, topic: Topic, warehouse: Warehouse, read: Callable[[int, Snapshot], Iterator[T]]) -> None:
        """`read` gives what a partition has, by its number."""
        self._topic = topic
        self._driver = warehouse.driver
        self._read = read
        self._count = topic.partitions
        self._found: dict[int, tuple[int, Snapshot | Exception]] = {}  # with the time

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int, /) -> PartitionRead[T]:
        opened_ms, found = self._found.pop(number, (None, None))
        if found is None or opened_ms is None or self._driver.monotonic_ms() - opened_ms > OPEN_ANEW_MS:
            together = TOGETHER_MAX if self._driver.store.far else 1
            self._open(range(number, min(number + together, self._count)))
            opened_ms, found = self._found.pop(number)
        self._found[number] = opened_ms, found
        if isinstance(found, Exception):
            return PartitionRead(lambda: self._read(number, self._snapshot(number)), 0, hot=False)
        return PartitionRead.of(found.segments, partial(self._read, number, found))

    def _open(self, numbers: range) -> None:
        now_ms = self._driver.monotonic_ms()
        outcomes = self._driver.each(self._snapshot, numbers)
        self._found = {number: (now_ms, outcome) for number, outcome in zip(numbers, outcomes, strict=True)}

    def _snapshot(self, number: int) -> Snapshot:
        return self._topic.partition(number).snapshot()
