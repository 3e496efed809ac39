"""A source of a merge: consecutive segments, read one after the other within bounds."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lithify.manifest.bounds import Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.ahead import ReadAhead
from lithify.segment.extent import Order
from lithify.segment.read import FETCH_BYTES_MAX, OpenSegment
from lithify.segment.sort import SORT_BYTES, external_sort

__all__ = ["FETCHES_BYTES", "Source", "in_order"]

FETCHES_BYTES = 32 << 20  # fetched at once by all sources of one merge together
_SORT_BYTES_MIN = 1 << 20


def in_order(segments: Sequence[SegmentRef], order: Order) -> bool:
    """Whether their rows are stored in `order`, so that no sort is needed."""
    return all(ref.order == order for ref in segments)


class Source:
    """Requires: the segments' rows follow each other in `order`; or the segments are in the other order (after a change
    of cleanup.policy), then all their rows are sorted in bounded memory. `apart`: each of these by itself, since their
    rows follow each other.

    `fan_in`: the number of sources of the same merge, which together fetch at most FETCHES_BYTES at once. `sorts`: how
    many of them must be sorted; the sort memory is divided among them. `ahead`: what they read ahead, together.
    """

    def __init__(
        self,
        segments: Sequence[SegmentRef],
        open_segment: OpenSegment,
        order: Order,
        wanted: Bounds,
        *,
        fan_in: int = 1,
        sorts: int = 1,
        sort_bytes: int = SORT_BYTES,
        spill_dir: Path | None = None,
        ahead: ReadAhead | None = None,
        apart: bool = False,
    ) -> None:
        self._segments = segments
        self._order: Order = order
        self._sort_bytes = sort_bytes if sorts == 1 else max(_SORT_BYTES_MIN, sort_bytes // sorts)
        self._spill_dir = spill_dir
        self._apart = apart
        fetch_bytes = min(FETCH_BYTES_MAX, FETCHES_BYTES // fan_in)
        self._lane = (ahead or ReadAhead()).lane(segments, open_segment, wanted, fetch_bytes)

    @property
    def bytes_read(self) -> int:
        return self._lane.bytes_read

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Batches with schema RUN, in `order`; can be had once. Each segment is opened only when its turn comes, or
        ahead of it."""
        if in_order(self._segments, self._order):
            return self._lane.batches()
        if self._apart:
            return itertools.chain.from_iterable(self._each())
        return self._sorted(self._lane.batches())

    def _each(self) -> Iterator[Iterator[pa.RecordBatch]]:
        for ref, rows in self._lane.segments():
            yield rows if in_order([ref], self._order) else self._sorted(rows)

    def _sorted(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return external_sort(rows, self._order, memory_bytes=self._sort_bytes, spill_dir=self._spill_dir)
