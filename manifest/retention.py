"""Where the log starts: the retention floor, one function for readers, compaction and deletion (R3; D1-D9). Pure.

A floor forgets a prefix, whole buckets of the time index at a time: never early, late by at most one bucket.
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
    """A topic whose cleanup.policy is compact alone forgets nothing by age or size (D7)."""
    if not config.deleting:
        return KEEP_ALL
    return Retention(config.retention_ms, config.retention_bytes, config.retention_records)


def bounds_before(topic: TopicFile) -> Retention:
    """What a partition goes by whose manifest holds no bounds: an earlier version of lithify wrote it.

    SUBTLE! Not the bounds of today, once they were altered. Between the `.topic` and the partition's manifest somebody
    may read, or the alteration may end: what readers have lost sight of would be back, and whoever then writes the
    bounds down no longer knows where the log started. Test: tests/compactor/test_altered_meanwhile.py
    """
    if topic.former_bounds is not msgspec.UNSET:
        return topic.former_bounds
    return retention_of(parse(topic.config))


def floor_at(manifest: Manifest, now_ms: int) -> int:
    """The first offset a reader may see at `now_ms`, by the bounds that the manifest itself holds.

    SUBTLE! Not by the topic's configuration. What one process has read of that may have been altered since, and a floor
    that is stored by the former bounds is there for ever, under wider ones, too. The bounds lie in the manifest and
    are set by a commit, so they and the floor that goes by them cannot disagree. Test: tests/manifest/test_bounds.py
    """
    return log_start(manifest, manifest.retention or KEEP_ALL, now_ms)


def log_start(manifest: Manifest, retention: Retention, now_ms: int) -> int:
    """The stored floor, or what `retention` makes of the time index at `now_ms`, if that is more.

    Time: a bucket goes while its latest record is older than retention.ms (strictly, D1). Size and records: the oldest
    goes while at least the bound remains without it (D2). A bucket that stays keeps all after it (D3). Everything may
    go (D4).
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
    """Why retention by time stands still at `floor`: the oldest bucket that stays has a record from the future, and
    keeps all that follows it (D5)."""
    if manifest.retention is None or manifest.retention.ms < 0:
        return None
    index = zip(manifest.time_index, _ends(manifest), strict=True)
    oldest = next((bucket for bucket, end in index if end > floor), None)
    if oldest is None or oldest.max_timestamp_ms <= now_ms:
        return None
    ahead = span_text(oldest.max_timestamp_ms - now_ms)
    return (
        f"a record at or after offset {oldest.start} is stamped {ahead} in the future: "
        "retention.ms deletes nothing after it until then; 'lithify topic delete-records' does"
    )


def logical_size(manifest: Manifest, floor: int) -> tuple[int, int]:
    """(rows, bytes) that readers see at `floor`; of a bucket that the floor cuts, its part by offsets."""
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
