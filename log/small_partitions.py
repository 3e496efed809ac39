"""Partitions of a far store are read side by side if they are small (docs/rfcs/0030)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from lithify.manifest.homes import in_warehouse
from lithify.manifest.model import SegmentRef
from lithify.store.port import Store
from lithify.store.side_by_side import result

__all__ = ["TOGETHER_BYTES_MAX", "TOGETHER_MAX", "PartitionRead", "Reads", "in_order"]

T = TypeVar("T")

# Of the records in memory, of all partitions that are read at once. Reading them takes up to ten times as much.
TOGETHER_BYTES_MAX = 8 << 20
TOGETHER_MAX = 16


class PartitionRead(NamedTuple, Generic[T]):
    """What is to be read of a partition: Arrow batches, say."""

    batches: Callable[[], Iterator[T]]  # begins a read; any thread may call it
    bytes: int  # of its records in memory
    hot: bool  # all of it is in the warehouse

    @staticmethod
    def of(segments: Iterable[SegmentRef], batches: Callable[[], Iterator[T]]) -> "PartitionRead[T]":
        refs = tuple(segments)
        return PartitionRead(batches, sum(ref.raw_bytes for ref in refs), all(map(in_warehouse, refs)))


class Reads(Protocol[T]):
    """Those of some partitions, by place: a list, say."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> PartitionRead[T]: ...


def in_order(reads: Reads[T], store: Store) -> Iterator[T]:
    """The batches of each, one after the other. An error is raised when its turn comes. What is to be read of one is
    looked up in `reads` again when its turn comes, and whether it still is: `reads` may become shorter.

    Small ones that follow each other are read whole beforehand, side by side: else each of them would wait for its own
    round trips. It is threads of the warehouse's `store` that read them, so nothing of another home is read there.
    """
    place = 0
    while place < len(reads):
        together = [reads[place]]
        size = together[0].bytes
        while (place := place + 1) < len(reads) and store.far and _may_join(together, size, other := reads[place]):
            size += other.bytes
            together.append(other)
        if len(together) == 1:
            yield from together[0].batches()
            continue
        calls = [partial(_whole, each) for each in together]
        for at, outcome in enumerate(store.side_by_side(calls), place - len(together)):
            if at >= len(reads):
                return
            yield from result(outcome)


def _may_join(together: list[PartitionRead[T]], size: int, other: PartitionRead[T]) -> bool:
    if len(together) == TOGETHER_MAX or not (together[0].hot and other.hot):
        return False
    return size + other.bytes <= TOGETHER_BYTES_MAX


def _whole(read: PartitionRead[T]) -> list[T]:
    return list(read.batches())
