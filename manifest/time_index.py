"""The time index: what each stretch of the log holds, in a bounded list (R3, docs/rfcs/0007). Pure.

Each append gets a bucket, until there are TIME_INDEX_MAX. Then neighbours are joined: those that are small compared to
the whole log in time, rows and bytes. So no bucket covers more than a few per cent of the log, however long it grows. A
bucket outlives the segments that it was made for: merging them changes its rows and bytes, not its time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from lithify.manifest.model import TIME_INDEX_MAX, Bucket, SegmentRef

__all__ = ["Lost", "Sizes", "grow", "shrink", "trim", "uncounted", "weigh", "within"]

Lost = tuple[int, int]
"""(offset, rows): so many records were dropped from the bucket that contains `offset`."""

Sizes = tuple[int, int, int]
"""(offset, kept, lost): raw bytes that a merge kept and dropped, in the bucket that contains `offset`."""


def grow(index: tuple[Bucket, ...], segment: SegmentRef) -> tuple[Bucket, ...]:
    """`index` after the append of `segment`."""
    mine = Bucket(segment.min_offset, segment.max_timestamp_ms, segment.rows, segment.bytes, segment.raw_bytes)
    grown = (*index, mine)
    while len(grown) > TIME_INDEX_MAX:
        grown = _join_cheapest(grown)
    return grown


def _join_cheapest(index: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
    """Join the two neighbours that together make the smallest part of the log, by their largest measure.

    With n buckets and three measures, the cheapest pair is at most 6 / n of the log by each of them.
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

    # The newest bucket stays separate: if all are alike, the first pair is joined.
    at = min(range(len(index) - 1), key=cost)
    return (*index[:at], _joined(index[at], index[at + 1]), *index[at + 2 :])


def _joined(first: Bucket, second: Bucket) -> Bucket:
    latest_ms = max(first.max_timestamp_ms, second.max_timestamp_ms)
    rows, size, raw_bytes = first.rows + second.rows, first.bytes + second.bytes, first.raw_bytes + second.raw_bytes
    return Bucket(first.start, latest_ms, rows, size, raw_bytes)


def shrink(index: tuple[Bucket, ...], lost: Sequence[Lost]) -> tuple[Bucket, ...]:
    """`index` after a merge dropped records. Buckets already gone (below the floor) lose nothing more, and one without
    records goes too. Buckets only ever join, so offsets that shared a bucket when the merge was planned share one now.
    """
    starts = [bucket.start for bucket in index]
    gone = [0] * len(index)
    for offset, rows in lost:
        at = bisect_right(starts, offset) - 1
        if at >= 0:
            gone[at] += rows
    return tuple(replace(b, rows=max(b.rows - g, 0)) for b, g in zip(index, gone, strict=True) if b.rows > g)


def weigh(index: tuple[Bucket, ...], sizes: Sequence[Sizes], made_bytes: int) -> tuple[Bucket, ...]:
    """`index` with its buckets' bytes reduced by a merge into objects of `made_bytes` in total. Bytes never grow, so no
    merge raises a floor.

    Within a bucket, bytes are spread like the raw sizes of its records. Dropped records take their part along. Kept
    records take as much as before, but at most their raw size (most of many small objects is framing), and all together
    at most what the objects have: if these are smaller, every part shrinks alike.
    """
    starts = [bucket.start for bucket in index]
    kept, gone, others = [0] * len(index), [0] * len(index), 0
    for offset, stays, goes in sizes:
        at = bisect_right(starts, offset) - 1
        if at >= 0 and index[at].bytes:
            kept[at], gone[at] = kept[at] + stays, gone[at] + goes
        else:
            others += stays  # already below the floor, or from a bucket that counts nothing
    inside = sum(kept)
    # A bucket may know of less than was read, if an earlier release appended its records.
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
    """`index` after a merge of `sources` that was not counted by size, as in an earlier release. What is left in the
    buckets that they reach is unknown, so these count no bytes from now on: retention.bytes is late once, never early.
    """
    starts = [bucket.start for bucket in index]
    reached: set[int] = set()
    for segment in sources:
        first, last = (bisect_right(starts, offset) - 1 for offset in (segment.min_offset, segment.max_offset))
        reached.update(range(max(first, 0), last + 1))
    return tuple(replace(b, bytes=0, raw_bytes=0) if at in reached else b for at, b in enumerate(index))


def within(index: tuple[Bucket, ...], segments: Sequence[SegmentRef]) -> tuple[Bucket, ...]:
    """`index` reduced so that from each bucket on it counts no more bytes than the live `segments` there hold. If
    joined buckets were stored at different densities, a merge may drop records that took more than their share."""
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
    """`index` without the buckets wholly below `floor`, in a log that ends before offset `end`.

    If the floor cuts a bucket, it is unknown how many of its rows lay below: it keeps at most what is left of
    `live_rows`.
    """
    if floor >= end:
        return ()
    keep = max(bisect_right([bucket.start for bucket in index], floor) - 1, 0)
    first, rest = index[keep : keep + 1], index[keep + 1 :]
    room = live_rows - sum(bucket.rows for bucket in rest)
    return tuple(replace(b, rows=min(b.rows, room)) for b in first if room > 0) + rest
