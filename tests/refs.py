"""References to segments, as manifests name them, for tests that need no bytes. Golden files and benchmarks make their
own: what they hold must not change with these."""

from typing import Any

import msgspec

from lithify.manifest.model import SegmentRef, SortedRun

__all__ = ["l0_ref", "segment_ref", "sorted_run"]


def segment_ref(segment_id: str, *, rows: int = 1, first: int = 0, timestamp_ms: int = 0, **fields: Any) -> SegmentRef:
    """A segment of records at the offsets from `first` on, all of one time; `fields` say what else is so."""
    plain: dict[str, Any] = {
        "bytes": rows,
        "raw_bytes": fields.get("bytes", rows),
        "rows": rows,
        "min_offset": first,
        "max_offset": first + rows - 1,
        "min_timestamp_ms": timestamp_ms,
        "max_timestamp_ms": timestamp_ms,
        "checksum": "0" * 16,
    }
    return SegmentRef(id=segment_id, **{**plain, **fields})


def l0_ref(segment_id: str, first: int, **fields: Any) -> SegmentRef:
    """As an append leaves it in the manifest."""
    return segment_ref(segment_id, first=first, **{"base_offset": first, "added_at": 1, **fields})


def sorted_run(run_id: str, *segments: SegmentRef) -> SortedRun:
    """Their rows carry their offsets."""
    return SortedRun(id=run_id, segments=tuple(msgspec.structs.replace(each, base_offset=None) for each in segments))
