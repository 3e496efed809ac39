"""Which records of a partition their keys left behind when the topic grew (docs/rfcs/0013). Pure."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lithify.manifest.model import Growth
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.segment.arrays import longs
from lithify.segment.partitioner import partitions_for_keys

__all__ = ["stayed", "stayed_batches", "stays"]


def stayed(
    places: KeyPlaces, keys: pa.Array, offsets: Sequence[int] | npt.NDArray[np.int64], partition: int
) -> npt.NDArray[np.bool_]:
    """A mask of the records of `partition`: False for those that their key left behind.

    A key lives where the present count puts it. If no count, past or present, puts it here, somebody placed it by
    hand, and it stays.
    """
    mine = [partitions_for_keys(keys, count) == partition for count in places.counts]
    left = np.zeros(len(keys), np.bool_)
    was_here = mine[0]
    at = np.asarray(offsets)
    for growth, before, after in zip(places.growths, mine, mine[1:], strict=False):
        # The key moved away and returns: its old records here are older than those in its former partition, so hide
        # them.
        left |= was_here & ~before & after & (at < _end(growth, partition))
        was_here = was_here | after
    left |= was_here & ~mine[-1]
    return ~left


def stays(places: KeyPlaces, key: bytes | None, offset: int | None, partition: int) -> bool:
    """Whether a record of `partition` has not been left behind by its key. Requires: it comes from the log."""
    assert offset is not None
    keys: Any = pa.array([key], pa.binary())
    return bool(stayed(places, keys, [offset], partition)[0])


def _end(growth: Growth, partition: int) -> int:
    """Where the log of a partition ended at that growth; 0 if unknown."""
    return (growth.ends[partition] or 0) if partition < len(growth.ends) else 0


def stayed_batches(
    batches: Iterable[pa.RecordBatch], places: KeyPlaces, partition: int, tell: Callable[[int, int], object]
) -> Generator[pa.RecordBatch]:
    """The records of a partition that their keys have not left behind. At the end, or when it is closed before, calls
    `tell` with the partition and the number of records left out, if any."""
    if not places.growths:
        yield from batches
        return
    left_out = 0
    with suppress(GeneratorExit):
        for batch in batches:
            here = stayed(places, batch.column("key"), longs(batch.column("offset")), partition)
            kept = batch.filter(pa.array(here))
            left_out += batch.num_rows - kept.num_rows
            yield kept
    if left_out:
        tell(partition, left_out)
