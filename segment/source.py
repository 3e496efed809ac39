"""A source of a merge: consecutive segments, read one after the other within bounds."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import SegmentRef
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
    of cleanup.policy), then all their rows are sorted in bounded memory.

    `fan_in`: the number of sources of the same merge, which together fetch at most FETCHES_BYTES ahead. `sorts`: how
    many of them must be sorted; the sort memory is divided among them.
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
    ) -> None:
        self._segments = segments
        self._open = open_segment
        self._order: Order = order
        self._wanted = wanted
        self._fetch_bytes = min(FETCH_BYTES_MAX, FETCHES_BYTES // fan_in)
        self._sort_bytes = sort_bytes if sorts == 1 else max(_SORT_BYTES_MIN, sort_bytes // sorts)
        self._spill_dir = spill_dir
        self.bytes_read = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Batches with schema RUN, in `order`. Each segment is opened only when its turn comes."""
        if in_order(self._segments, self._order):
            return self._stored_rows()
        return external_sort(self._stored_rows(), self._order, memory_bytes=self._sort_bytes, spill_dir=self._spill_dir)

    def _stored_rows(self) -> Iterator[pa.RecordBatch]:
        for ref in self._segments:
            if not may_hold(ref, self._wanted):
                continue
            reader = self._open(ref, self._fetch_bytes)
            try:
                yield from reader.batches(self._wanted)
            finally:
                self.bytes_read += reader.bytes_read
