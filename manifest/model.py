"""What is stored in numbered files: frozen structs, encoded as JSON (docs/rfcs/0002), read by operators with `jq`.

Names carry units; offsets are int64 and dense per partition; times are milliseconds since 1970 by the store's clock;
`*_at` fields without a unit are manifest numbers (the protocol's only order).
"""

from typing import Any

import msgspec

__all__ = [
    "KEY_BOUND_BYTES",
    "Boundary",
    "Checkpoint",
    "CompletedJob",
    "Manifest",
    "ProducerEntry",
    "Quarantine",
    "Retired",
    "SegmentRef",
    "SortedRun",
    "TimeBucket",
    "TopicFile",
    "Transaction",
]

KEY_BOUND_BYTES = 32  # key bounds in manifests are cut to this, rounded outward


class SegmentRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One immutable Parquet object.

    `min_key` is ≤ every key and `max_key` ≥ every key: exact up to 32 bytes, rounded outward beyond. None is unbounded
    (or no keyed record at all). In an L0 segment row r has offset `base_offset` + r's `offset_delta`; segments of runs
    carry offsets in the rows and have no base offset.
    """

    id: str
    store: str = ""  # the tier's store; "" is the warehouse itself
    bytes: int  # of the Parquet object
    raw_bytes: int  # of its columns in memory, for planning
    rows: int
    min_key: bytes | None = None
    max_key: bytes | None = None
    base_offset: int | None = None
    min_offset: int
    max_offset: int  # inclusive
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int = 0
    min_horizon_ms: int | None = None  # earliest stamped tombstone horizon in it (R4)
    order: str = "key"  # "key": by (key, offset); "offset": by offset
    added_at: int = 0  # manifest number that made it live
    checksum: str  # XXH3-64 of the object's bytes, 16 hexadecimal digits


class SortedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Segments with disjoint key ranges in key order (for offset-ordered topics: disjoint offsets in offset order)."""

    id: str
    segments: tuple[SegmentRef, ...]
