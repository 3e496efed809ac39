"""Where the keys of a topic live after it has grown, and which records they left behind (docs/rfcs/0013). Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lithify.log.partitioner import partitions_for_keys
from lithify.log.record import Record
from lithify.manifest.model import Growth
from lithify.segment.arrays import longs

__all__ = ["KeyPlaces", "stayed_batches"]


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """The growths of a topic, oldest first, and its present number of partitions."""

    growths: tuple[Growth, ...]
    partitions: int

    @property
    def counts(self) -> tuple[int, ...]:
        """All partition counts that it has had, ascending."""
        return (*(growth.partitions for growth in self.growths), self.partitions)

    def stayed(self, keys: pa.Array, offsets: Sequence[int] | npt.NDArray[np.int64], partition: int) -> Any:
        """A mask of the records of `partition`: False for those that their key left behind.

        A key lives where the present count puts it. If no count, past or present, puts it here, somebody placed it by
        hand, and it stays.
        """
        mine = [partitions_for_keys(keys, count) == partition for count in self.counts]
        left = np.zeros(len(keys), np.bool_)
        was_here = mine[0]
        at = np.asarray(offsets)
        for growth, before, after in zip(self.growths, mine, mine[1:], strict=False):
            # The key moved away and returns: its old records here are older than those in its former partition, so hide
            # them.
            left |= was_here & ~before & after & (at < _end(growth, partition))
            was_here = was_here | after
        left |= was_here & ~mine[-1]
        return ~left

    def has(self, record: Record, partition: int) -> bool:
        """Whether `record` of `partition` has not been left behind by its key."""
        assert record.offset is not None  # it comes from the log
        return bool(self.stayed(pa.array([record.key], pa.binary()), [record.offset], partition)[0])


def _end(growth: Growth, partition: int) -> int:
    """Where the log of a partition ended at that growth; 0 if unknown."""
    return (growth.ends[partition] or 0) if partition < len(growth.ends) else 0


def stayed_batches(
    batches: Iterable[pa.RecordBatch], places: KeyPlaces, partition: int, tell: Callable[[int, int], object]
) -> Iterator[pa.RecordBatch]:
    """The records of a partition that their keys have not left behind. At the end calls `tell` with the partition and
    the number of records left out, if any."""
    if not places.growths:
        yield from batches
        return
    left_out = 0
    for batch in batches:
        stayed = places.stayed(batch.column("key"), longs(batch.column("offset")), partition)
        kept = batch.filter(pa.array(stayed))
        left_out += batch.num_rows - kept.num_rows
        yield kept
    if left_out:
        tell(partition, left_out)
