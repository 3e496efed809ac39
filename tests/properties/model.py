"""What a log must show, in plain Python: every record ever appended, the rules of C1-C10, D1-D5, R1-R4 over lists.

It shares no code with what it judges but the configuration's names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lithify.manifest.config import TopicConfig
from lithify.manifest.model import Bucket, Manifest

__all__ = ["Admission", "AppendedAt", "Floors", "Row", "floors", "index_problem", "latest", "merged"]


class Row(NamedTuple):
    """A stored record. Of two rows of a log with one offset, all is equal but the horizon."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    horizon_ms: int | None = None


class AppendedAt(NamedTuple):
    """One append: offsets [start, end), and its latest timestamp."""

    start: int
    end: int
    max_timestamp_ms: int


class Admission(NamedTuple):
    """What held when a compaction was admitted; it goes by that whenever it ends (P9)."""

    config: TopicConfig
    now_ms: int
    floor: int
    left_out: frozenset[int]  # offsets of the live records that are not in its sources


def latest(records: Iterable[Row], floor: int) -> dict[bytes, Row]:
    """What `scan` shows: by key, the record with the highest offset, unless it is a tombstone."""
    found = {row.key: row for row in sorted(records) if row.offset >= floor and row.key is not None}
    return {key: row for key, row in found.items() if row.value is not None}


def merged(sources: Sequence[Row], when: Admission, *, clean: bool) -> list[Row]:
    """What a compaction leaves of its sources, by offset."""
    config, now_ms = when.config, when.now_ms
    lag_ms = config.min_compaction_lag_ms
    young = any(row.timestamp_ms > now_ms - lag_ms for row in sources) if lag_ms else False
    cleaning = config.compacted and not young
    newest = {row.key: row.offset for row in sorted(sources)}
    covered = min(when.left_out, default=2**63)
    left: list[Row] = []
    for row in sorted(sources):
        if row.offset < when.floor:
            continue
        if cleaning and (row.key is None or row.offset != newest[row.key]):
            continue
        if row.value is None and row.horizon_ms is not None and now_ms >= row.horizon_ms:
            continue
        if clean and row.value is None and row.horizon_ms is None and row.offset < covered:
            row = row._replace(horizon_ms=now_ms + config.delete_retention_ms)
        left.append(row)
    return left


@dataclass(frozen=True)
class Floors:
    """Where a log may start: `late_max` ≤ log start ≤ `early_max`, but for one bucket and for records long gone."""

    certain: int  # by the most aggressive bound alone
    possible: int  # by all bounds taking turns, and bytes counted in favour of going


def floors(
    head: Manifest, live: Sequence[tuple[Row, float, float]], straddling: Sequence[tuple[int, int, int]],
    appends: Sequence[AppendedAt], config: TopicConfig, now_ms: int,
) -> Floors:  # fmt: skip
    """The exact floor, append by append (D1-D5, D9). `live`: stored rows, each with its part of its segment's bytes,
    and with what of that may count once it was merged: no more than the bytes in memory (RFC 0007);
    `straddling`: (min offset, max offset, bytes) of segments, whose bytes may be counted on either side of a border.
    """
    stored = head.log_start_offset
    if not config.deleting:
        return Floors(stored, stored)
    cut = [bucket for bucket in head.time_index[:1] if bucket.start < stored]
    by_time = by_size = possible = stored
    timing = sizing = going = True
    for at in appends:
        rows_left = sum(row.offset >= at.end for row, _, _ in live)
        bytes_left = sum(most for row, most, _ in live if row.offset >= at.end)
        least_left = sum(least for row, _, least in live if row.offset >= at.end)
        slack = sum(size for low, high, size in straddling if low < at.end <= high) + len(appends)
        latest_ms = at.max_timestamp_ms
        old = 0 <= config.retention_ms < now_ms - latest_ms
        # Of a bucket that was cut by hand nobody knows on which side of the cut its latest record lay.
        surely = old and all(now_ms - bucket.max_timestamp_ms > config.retention_ms for bucket in cut)
        many = 0 <= config.retention_records <= rows_left
        large = 0 <= config.retention_bytes <= least_left - slack
        perhaps = 0 <= config.retention_bytes <= bytes_left + slack
        empty = not any(at.start <= row.offset < at.end for row, _, _ in live)
        timing = timing and (surely or at.end <= stored)
        sizing = sizing and (many or large or at.end <= stored)
        going = going and (old or many or perhaps or empty or at.end <= stored)
        by_time = max(by_time, at.end) if timing else by_time
        by_size = max(by_size, at.end) if sizing else by_size
        possible = max(possible, at.end) if going else possible
    return Floors(max(by_time, by_size), possible)


def index_problem(index: Sequence[Bucket], live: Sequence[Row], floor: int) -> str | None:
    """Where the time index does not tell of the records that are stored; None: nowhere."""
    starts = [bucket.start for bucket in index]
    ends = [*starts[1:], 2**63][: len(starts)]
    first = starts[0] if starts else 2**63
    if any(floor <= row.offset < first for row in live):
        return "a visible record lies before the time index"
    for at, (bucket, end) in enumerate(zip(index, ends, strict=True)):
        inside = [row for row in live if bucket.start <= row.offset < end]
        visible = [row for row in inside if row.offset >= floor]
        exact = at > 0 or bucket.start >= floor
        if exact and bucket.rows != len(inside):
            return f"the bucket from {bucket.start} counts {bucket.rows} of {len(inside)} records"
        if bucket.rows < len(visible):
            return f"the first bucket counts {bucket.rows} records, {len(visible)} are visible"
        if any(row.timestamp_ms > bucket.max_timestamp_ms for row in inside):
            return f"the bucket from {bucket.start} forgot its latest record"
    return None
