"""The time index: what the log holds, stretch by stretch, in a bounded list (R3, docs/rfcs/0007). Pure.

An append is a bucket of its own, until there are TIME_INDEX_MAX; then neighbours are joined, those that are small
against the whole log in time, rows and bytes alike. So no bucket spans more than a few per cent of the log, however
long it grows, and a bucket outlives the segments it told of: merging them changes its rows and bytes, not its time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from lithify.manifest.model import TIME_INDEX_MAX, Bucket, SegmentRef

__all__ = ["Lost", "grow", "shares", "shrink", "trim"]

Lost = tuple[int, int]
"""(offset, rows): so many records are gone of the bucket in which `offset` lies."""


def grow(index: tuple[Bucket, ...], segment: SegmentRef) -> tuple[Bucket, ...]:
    """`index` after the append of `segment`."""
    mine = Bucket(segment.min_offset, segment.max_timestamp_ms, segment.rows, segment.bytes)
    grown = (*index, mine)
    while len(grown) > TIME_INDEX_MAX:
        grown = _join_cheapest(grown)
    return grown


def _join_cheapest(index: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
    """Join the two neighbours that together make the smallest part of the log, by its largest measure.

    Of n buckets with three measures, the cheapest pair makes at most 6 / n of any of them.
    """
    rows_all = sum(b.rows for b in index) or 1
    bytes_all = sum(b.bytes for b in index) or 1
    reached_ms = list(accumulate((b.max_timestamp_ms for b in index), max))
    span_ms = (reached_ms[-1] - reached_ms[0]) or 1

    def cost(at: int) -> float:
        first, second = index[at], index[at + 1]
        since_ms = reached_ms[at - 1] if at else reached_ms[0]
        return max(
            (first.rows + second.rows) / rows_all,
            (first.bytes + second.bytes) / bytes_all,
            (reached_ms[at + 1] - since_ms) / span_ms,
        )

    # The newest bucket stays apart: where all are alike, the first pair is joined.
    at = min(range(len(index) - 1), key=cost)
    return (*index[:at], _joined(index[at], index[at + 1]), *index[at + 2 :])


def _joined(first: Bucket, second: Bucket) -> Bucket:
    latest_ms = max(first.max_timestamp_ms, second.max_timestamp_ms)
    return Bucket(first.start, latest_ms, first.rows + second.rows, first.bytes + second.bytes)


def shrink(index: tuple[Bucket, ...], lost: Sequence[Lost]) -> tuple[Bucket, ...]:
    """`index` once a merge dropped records. Buckets that are gone by now (below the floor) lost nothing more; one
    without records left goes, too. Buckets only ever join, so what lay in one bucket when the merge was planned lies in
    one now."""
    starts = [bucket.start for bucket in index]
    gone = [0] * len(index)
    for offset, rows in lost:
        at = bisect_right(starts, offset) - 1
        if at >= 0:
            gone[at] += rows
    return tuple(replace(b, rows=max(b.rows - g, 0)) for b, g in zip(index, gone, strict=True) if b.rows > g)


def trim(index: tuple[Bucket, ...], floor: int, end: int, live_rows: int) -> tuple[Bucket, ...]:
    """`index` without the buckets that lie wholly below `floor`, in a log that ends before offset `end`.

    Of a bucket that the floor cuts, nobody knows how many rows lay below it: it holds at most what is left of
    `live_rows`.
    """
    if floor >= end:
        return ()
    keep = max(bisect_right([bucket.start for bucket in index], floor) - 1, 0)
    first, rest = index[keep : keep + 1], index[keep + 1 :]
    room = live_rows - sum(bucket.rows for bucket in rest)
    return tuple(replace(b, rows=min(b.rows, room)) for b in first if room > 0) + rest


def shares(index: tuple[Bucket, ...], segments: Sequence[SegmentRef], end: int) -> tuple[Bucket, ...]:
    """`index` with the bytes of live `segments` given to its buckets; the log ends before offset `end`.

    A segment's bytes go where its offsets lie: to one bucket, or to several by their rows. What lies below the first
    bucket is nobody's.
    """
    if not index:
        return index
    starts = [bucket.start for bucket in index]
    ends = [*starts[1:], max(end, starts[-1] + 1)]
    density = [b.rows / (stop - b.start) for b, stop in zip(index, ends, strict=True)]
    held = [0.0] * len(index)
    for segment in segments:
        first = max(bisect_right(starts, segment.min_offset) - 1, 0)
        last = bisect_right(starts, segment.max_offset) - 1
        if last < 0:
            continue
        if first == last and segment.min_offset >= starts[first]:
            held[first] += segment.bytes
            continue
        parts = [
            (at, (min(ends[at], segment.max_offset + 1) - max(starts[at], segment.min_offset)) * density[at])
            for at in range(first, last + 1)
        ]
        below = max(starts[0] - segment.min_offset, 0)
        rows = sum(part for _, part in parts) + below
        for at, part in parts:
            held[at] += segment.bytes * part / rows if rows else 0
    return tuple(replace(b, bytes=round(h)) for b, h in zip(index, held, strict=True))
