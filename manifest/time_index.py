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

__all__ = ["Lost", "Sizes", "grow", "shrink", "trim", "uncounted", "weigh", "within"]

Lost = tuple[int, int]
"""(offset, rows): so many records are gone of the bucket in which `offset` lies."""

Sizes = tuple[int, int, int]
"""(offset, kept, lost): of the bucket in which `offset` lies, a merge kept and dropped records of so many raw bytes."""


def grow(index: tuple[Bucket, ...], segment: SegmentRef) -> tuple[Bucket, ...]:
    """`index` after the append of `segment`."""
    mine = Bucket(segment.min_offset, segment.max_timestamp_ms, segment.rows, segment.bytes, segment.raw_bytes)
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
    rows, size, raw_bytes = first.rows + second.rows, first.bytes + second.bytes, first.raw_bytes + second.raw_bytes
    return Bucket(first.start, latest_ms, rows, size, raw_bytes)


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


def weigh(index: tuple[Bucket, ...], sizes: Sequence[Sizes], made_bytes: int) -> tuple[Bucket, ...]:
    """`index` with the bytes of its buckets lessened by a merge into objects of `made_bytes` together. Never more: so
    no floor rises because of a merge.

    Within a bucket, bytes lie as the sizes of its records do. What is dropped takes its part along. What is kept takes
    as much as before, but no more than its own size (of many small objects most is frame), and all of it together no
    more than the objects made: where these are smaller, every part shrinks alike.
    """
    starts = [bucket.start for bucket in index]
    kept, gone, others = [0] * len(index), [0] * len(index), 0
    for offset, stays, goes in sizes:
        at = bisect_right(starts, offset) - 1
        if at >= 0 and index[at].bytes:
            kept[at], gone[at] = kept[at] + stays, gone[at] + goes
        else:
            others += stays  # below the floor by now, or of a bucket that counts nothing
    inside = sum(kept)
    # More was read than the bucket knows of where an earlier release appended it.
    raw = [max(b.raw_bytes, stays + goes, 1) for b, stays, goes in zip(index, kept, gone, strict=True)]
    parts = [min(stays, b.bytes * stays // r) for b, stays, r in zip(index, kept, raw, strict=True)]
    whole = max(sum(parts), 1)
    room = min(made_bytes * inside // max(inside + others, 1), whole)
    return tuple(
        replace(b, bytes=b.bytes + b.bytes * (stays + goes) // -r + part * room // whole, raw_bytes=r - goes)
        if stays + goes
        else b
        for b, stays, goes, r, part in zip(index, kept, gone, raw, parts, strict=True)
    )


def uncounted(index: tuple[Bucket, ...], sources: Sequence[SegmentRef]) -> tuple[Bucket, ...]:
    """`index` after a merge of `sources` that was not counted by size, as an earlier release did it. Nobody knows what
    is left of the buckets they reach into: so these count nothing from now on, which makes retention.bytes late once,
    and never early."""
    starts = [bucket.start for bucket in index]
    reached: set[int] = set()
    for segment in sources:
        first, last = (bisect_right(starts, offset) - 1 for offset in (segment.min_offset, segment.max_offset))
        reached.update(range(max(first, 0), last + 1))
    return tuple(replace(b, bytes=0, raw_bytes=0) if at in reached else b for at, b in enumerate(index))


def within(index: tuple[Bucket, ...], segments: Sequence[SegmentRef]) -> tuple[Bucket, ...]:
    """`index` with no more bytes from any bucket on than the live `segments` that reach there hold. Of joined buckets
    that were stored at different densities, a merge may drop what took more than it seemed."""
    starts = [bucket.start for bucket in index]
    room = [0] * len(index)
    for segment in segments:
        at = bisect_right(starts, segment.max_offset) - 1
        if at >= 0:
            room[at] += segment.bytes
    found: list[Bucket] = []
    free = 0
    for bucket, more in zip(reversed(index), reversed(room), strict=True):
        size = min(bucket.bytes, free + more)
        free += more - size
        found.append(replace(bucket, bytes=size))
    return tuple(reversed(found))


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
