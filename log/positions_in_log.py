"""The offset at which a time begins, or the last N records. Only offsets and times are read. (`positions.py` has the
positions of consumers.)"""

from collections.abc import Iterable

import numpy as np

from lithify.manifest.bounds import Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.arrays import Longs, longs
from lithify.segment.columns import Columns
from lithify.segment.segments import Segments

__all__ = ["offset_at", "offset_of_last"]

_TIMES = Columns(frozenset({"offset", "timestamp_ms"}), tombstones=False)
_OFFSETS = Columns(frozenset({"offset"}), tombstones=False)


def offset_at(segments: Segments, refs: Iterable[SegmentRef], floor: int, timestamp_ms: int) -> int | None:
    """The smallest offset ≥ `floor` of a record whose time is ≥ `timestamp_ms`; None: there is none. Reads no segment
    that ends before that time, or begins after a record that was found."""
    found: int | None = None
    late = (ref for ref in refs if ref.max_timestamp_ms >= timestamp_ms and ref.max_offset >= floor)
    for ref in sorted(late, key=lambda ref: ref.min_offset):
        if found is not None and ref.min_offset >= found:
            break
        if ref.min_timestamp_ms >= timestamp_ms and ref.min_offset >= floor:
            found = ref.min_offset
            continue
        for batch in segments.reader(ref, columns=_TIMES).batches(Bounds(from_offset=floor, to_offset=found)):
            offsets = longs(batch.column("offset"))[longs(batch.column("timestamp_ms")) >= timestamp_ms]
            if len(offsets):
                found = int(offsets.min())
                if ref.order == "offset":
                    break
    return found


def offset_of_last(segments: Segments, refs: Iterable[SegmentRef], floor: int, count: int) -> int | None:
    """The offset of the `count`-th record from the end; of the first one, if there are fewer; None: there is none.
    Requires: `count` is not 0. Reads only segments that hold gaps."""
    last: Longs = np.zeros(0, np.int64)
    for ref in sorted(refs, key=lambda ref: -ref.max_offset):
        known_from = int(last.min()) if len(last) == count else floor
        if ref.max_offset < known_from:
            break
        last = np.concatenate([last, *_offsets(segments, ref, known_from)])
        last = np.partition(last, len(last) - count)[-count:] if len(last) > count else last
    return int(last.min()) if len(last) else None


def _offsets(segments: Segments, ref: SegmentRef, start: int) -> list[Longs]:
    """The offsets ≥ `start` in a segment."""
    if ref.max_offset - ref.min_offset + 1 == ref.rows:
        return [np.arange(max(start, ref.min_offset), ref.max_offset + 1, dtype=np.int64)]
    batches = segments.reader(ref, columns=_OFFSETS).batches(Bounds(from_offset=start))
    return [longs(batch.column("offset")) for batch in batches]
