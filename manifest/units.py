"""What compaction takes as a whole: an L0 segment, or a sorted run, with totals over its segments. Pure."""

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.runs import Runs

__all__ = ["Unit", "segments_of", "unit_of", "units"]

_MIN_OFFSET = attrgetter("min_offset")


class Unit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An L0 segment or a sorted run, to be compacted as one; or the first segments of a run in offset order, whose rest
    stays a run."""

    id: str
    is_run: bool
    segments: tuple[SegmentRef, ...]
    bytes: int
    raw_bytes_max: int  # of its largest segment
    max_row_bytes: int
    rows: int
    min_offset: int
    max_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int
    min_horizon_ms: int | None
    max_horizon_ms: int | None


def units(manifest: Manifest) -> tuple[Unit, ...]:
    """Runs and L0 segments by smallest offset."""
    loose = (unit_of(segment.id, False, (segment,)) for segment in manifest.l0)
    return tuple(sorted((*Runs.of(manifest.runs).kept(_of_runs), *loose), key=_MIN_OFFSET))


def _of_runs(runs: Runs) -> tuple[Unit, ...]:
    return tuple(unit_of(run.id, True, run.segments) for run in runs)


def segments_of(chosen: Iterable[Unit]) -> tuple[SegmentRef, ...]:
    return tuple(segment for unit in chosen for segment in unit.segments)


def unit_of(unit_id: str, is_run: bool, segments: tuple[SegmentRef, ...]) -> Unit:
    one = segments[0]
    if len(segments) == 1:
        return Unit(
            id=unit_id,
            is_run=is_run,
            segments=segments,
            bytes=one.bytes,
            raw_bytes_max=one.raw_bytes,
            max_row_bytes=one.max_row_bytes,
            rows=one.rows,
            min_offset=one.min_offset,
            max_offset=one.max_offset,
            min_timestamp_ms=one.min_timestamp_ms,
            max_timestamp_ms=one.max_timestamp_ms,
            tombstones=one.tombstones,
            min_horizon_ms=one.min_horizon_ms,
            max_horizon_ms=one.max_horizon_ms,
        )
    return Unit(
        id=unit_id,
        is_run=is_run,
        segments=segments,
        bytes=sum(s.bytes for s in segments),
        raw_bytes_max=max(s.raw_bytes for s in segments),
        max_row_bytes=max(s.max_row_bytes for s in segments),
        rows=sum(s.rows for s in segments),
        min_offset=min(s.min_offset for s in segments),
        max_offset=max(s.max_offset for s in segments),
        min_timestamp_ms=min(s.min_timestamp_ms for s in segments),
        max_timestamp_ms=max(s.max_timestamp_ms for s in segments),
        tombstones=sum(s.tombstones for s in segments),
        min_horizon_ms=min((s.min_horizon_ms for s in segments if s.min_horizon_ms is not None), default=None),
        max_horizon_ms=max((s.max_horizon_ms for s in segments if s.max_horizon_ms is not None), default=None),
    )
