"""Where the log starts: the retention floor, one function for readers, compaction and deletion (R3; D1-D9). Pure.

Retention drops whole buckets of the time index, oldest first: never early, late by at most one bucket.
"""

import msgspec

from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.model import Manifest, Retention, TopicFile
from lithify.manifest.words import span_text

__all__ = [
    "KEEP_ALL",
    "Retention",
    "bounds_before",
    "floor_at",
    "log_start",
    "logical_size",
    "retention_of",
    "stalled_by_future",
]

KEEP_ALL = Retention()


def retention_of(config: TopicConfig) -> Retention:
    """The bounds of a topic. With cleanup.policy=compact alone, nothing is dropped by age or size (D7)."""
    if not config.deleting:
        return KEEP_ALL
    return Retention(config.retention_ms, config.retention_bytes, config.retention_records)


def bounds_before(topic: TopicFile) -> Retention:
    """The bounds for a partition whose manifest has none, because an earlier version of lithify wrote it.

    SUBTLE! Not today's bounds, if they were altered. 1. An alter writes `.topic` with wider bounds, and stops before
    the partition's manifest. 2. By the wider bounds readers would see again what was gone. 3. Whoever then stores the
    bounds no longer knows where the log started. Test: tests/compactor/test_altered_meanwhile.py
    """
    if topic.former_bounds is not msgspec.UNSET:
        return topic.former_bounds
    return retention_of(parse(topic.config))


def floor_at(manifest: Manifest, now_ms: int) -> int:
    """The first offset that a reader may see at `now_ms`, by the bounds in the manifest itself.

    SUBTLE! Not by the topic's configuration: a process may have read it before it was altered, and a floor stored by
    the old bounds stays for ever, even under wider ones. The bounds are in the manifest and set by a commit, so they
    agree with the floor computed from them. Test: tests/compactor/test_altered_meanwhile.py
    """
    return log_start(manifest, manifest.retention or KEEP_ALL, now_ms)


def log_start(manifest: Manifest, retention: Retention, now_ms: int) -> int:
    """The stored floor, or the floor that `retention` gives for the time index at `now_ms`, if that is higher.

    Time: a bucket goes while its latest record is older than retention.ms (strictly, D1). Size and records: the oldest
    bucket goes while at least the bound remains without it (D2). A bucket that stays keeps everything after it (D3).
    Everything may go (D4).
    """
    floor = manifest.log_start_offset
    index = manifest.time_index
    if retention == KEEP_ALL or not index:
        return floor
    ends = _ends(manifest)
    bytes_left = sum(bucket.bytes for bucket in index)
    rows_left = sum(bucket.rows for bucket in index)
    for bucket, end in zip(index, ends, strict=True):
        bytes_left -= bucket.bytes
        rows_left -= bucket.rows
        by_time = 0 <= retention.ms < now_ms - bucket.max_timestamp_ms
        by_bytes = 0 <= retention.bytes <= bytes_left
        by_records = 0 <= retention.records <= rows_left
        if not (end <= floor or by_time or by_bytes or by_records):
            return floor
        floor = max(floor, end)
    return floor


def stalled_by_future(manifest: Manifest, floor: int, now_ms: int) -> str | None:
    """Why retention by time is stalled at `floor`: the oldest remaining bucket has a record from the future, which
    keeps everything after it (D5). None: it is not stalled."""
    if manifest.retention is None or manifest.retention.ms < 0:
        return None
    index = zip(manifest.time_index, _ends(manifest), strict=True)
    oldest = next((bucket for bucket, end in index if end > floor), None)
    if oldest is None or oldest.max_timestamp_ms <= now_ms:
        return None
    ahead = span_text(oldest.max_timestamp_ms - now_ms)
    return (
        f"a record at or after offset {oldest.start} has a timestamp {ahead} in the future: until then, retention.ms "
        "deletes nothing after it. 'lithify topic delete-records' can"
    )


def logical_size(manifest: Manifest, floor: int) -> tuple[int, int]:
    """(rows, bytes) that readers see at `floor`; of a bucket that the floor cuts, in proportion to its offsets."""
    rows, size = 0, 0
    for bucket, end in zip(manifest.time_index, _ends(manifest), strict=True):
        if floor <= bucket.start:
            rows, size = rows + bucket.rows, size + bucket.bytes
        elif floor < end:
            part = (end - floor) / (end - bucket.start)
            rows, size = rows + round(bucket.rows * part), size + round(bucket.bytes * part)
    return rows, size


def _ends(manifest: Manifest) -> list[int]:
    """Where each bucket of the time index ends, exclusive."""
    return [bucket.start for bucket in manifest.time_index[1:]] + [manifest.next_offset] * bool(manifest.time_index)
