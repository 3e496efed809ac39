"""What a partition owes: how much is uncleaned, how many files a read touches, and which compaction is due. Pure.

Kafka's rules C1-C5 (docs/protocol.md) over units of the manifest: an L0 segment, or a whole sorted run.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from lithify.manifest.config import TopicConfig
from lithify.manifest.model import Manifest, SegmentRef

__all__ = ["Debt", "Due", "Unit", "assess", "latest_cleanable_ms", "units"]

_NO_LIMIT_MS = 2**63 - 1
SIMILAR_SIZE_RATIO = 4  # runs within this factor of each other are of similar size


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """An L0 segment or a sorted run, as one thing to compact."""

    id: str
    is_run: bool
    segments: tuple[SegmentRef, ...]
    bytes: int
    rows: int
    min_offset: int
    max_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int
    min_horizon_ms: int | None


class Due(msgspec.Struct, frozen=True):
    """A compaction that would pay a named debt."""

    kind: Literal["tier", "clean"]
    units: tuple[Unit, ...]
    reason: str


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    clean_bytes: int  # below cleaned_to
    dirty_bytes: int  # cleanable: uncleaned and past min.compaction.lag.ms
    young_bytes: int  # uncleaned and not cleanable yet
    dirty_ratio: float  # dirty / (clean + dirty), 0 where there is neither (C1)
    due: Due | None


def units(manifest: Manifest) -> tuple[Unit, ...]:
    """Runs and L0 segments by smallest offset."""
    found = [_unit(run.id, True, run.segments) for run in manifest.runs]
    found += [_unit(segment.id, False, (segment,)) for segment in manifest.l0]
    return tuple(sorted(found, key=lambda unit: unit.min_offset))


def _unit(unit_id: str, is_run: bool, segments: tuple[SegmentRef, ...]) -> Unit:
    horizons = [s.min_horizon_ms for s in segments if s.min_horizon_ms is not None]
    return Unit(
        id=unit_id,
        is_run=is_run,
        segments=segments,
        bytes=sum(s.bytes for s in segments),
        rows=sum(s.rows for s in segments),
        min_offset=min(s.min_offset for s in segments),
        max_offset=max(s.max_offset for s in segments),
        min_timestamp_ms=min(s.min_timestamp_ms for s in segments),
        max_timestamp_ms=max(s.max_timestamp_ms for s in segments),
        tombstones=sum(s.tombstones for s in segments),
        min_horizon_ms=min(horizons, default=None),
    )


def assess(manifest: Manifest, config: TopicConfig, now_ms: int, busy: frozenset[str] = frozenset()) -> Debt:
    """The debt of `manifest`. `busy`: unit ids in active jobs, which no due compaction may name."""
    everything = units(manifest)
    if not config.compacted:
        return Debt(
            clean_bytes=0, dirty_bytes=0, young_bytes=0, dirty_ratio=0.0, due=_due_tier(everything, config, busy)
        )
    cleanable = _cleanable(everything, manifest.cleaned_to, latest_cleanable_ms(config, now_ms))
    clean = [u for u in everything if u.max_offset < manifest.cleaned_to]
    dirty = [u for u in cleanable if u.max_offset >= manifest.cleaned_to]
    clean_bytes, dirty_bytes = _bytes(clean), _bytes(dirty)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    due = None
    if not manifest.sealed and not busy:
        # A clean holds every unit there is below its boundary; it waits for running jobs rather than go around them.
        reason = _due_clean(manifest, config, now_ms, clean, dirty, ratio)
        due = Due("clean", tuple(cleanable), reason) if reason else None
    if due is None and not manifest.sealed:
        due = _due_tier(tuple(cleanable), config, busy)
    young_bytes = _bytes(everything) - clean_bytes - dirty_bytes
    return Debt(clean_bytes=clean_bytes, dirty_bytes=dirty_bytes, young_bytes=young_bytes, dirty_ratio=ratio, due=due)


def latest_cleanable_ms(config: TopicConfig, now_ms: int) -> int:
    """The largest timestamp a unit may hold to be compacted now. Without a lag there is none: a record from the future
    is no reason to leave its unit alone (as in Kafka)."""
    return now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else _NO_LIMIT_MS


def _bytes(some: Iterable[Unit]) -> int:
    return sum(unit.bytes for unit in some)


def _cleanable(everything: tuple[Unit, ...], cleaned_to: int, latest_ms: int) -> list[Unit]:
    """C4: what lies wholly below the first uncleaned unit that holds a record younger than the lag."""
    boundary = min(
        (u.min_offset for u in everything if u.max_offset >= cleaned_to and u.max_timestamp_ms > latest_ms),
        default=None,
    )
    return [u for u in everything if boundary is None or u.max_offset < boundary]


def _due_clean(
    manifest: Manifest, config: TopicConfig, now_ms: int, clean: list[Unit], dirty: list[Unit], ratio: float
) -> str | None:
    if dirty:
        oldest_ms = min(u.min_timestamp_ms for u in dirty)
        if oldest_ms < now_ms - config.max_compaction_lag_ms:
            return f"max.compaction.lag.ms: the oldest uncleaned record is {now_ms - oldest_ms} ms old"
        if ratio > config.min_cleanable_dirty_ratio:
            return f"dirty ratio {ratio:.2f} is above {config.min_cleanable_dirty_ratio:g}"
    horizon_ms = min((u.min_horizon_ms for u in clean if u.min_horizon_ms is not None), default=None)
    if horizon_ms is not None and horizon_ms <= now_ms:
        # At most once per retention period: each such clean rewrites the bottom run.
        last_ms = manifest.last_cleaned_at_ms or 0
        if now_ms - last_ms >= config.delete_retention_ms:
            return f"tombstones expired {now_ms - horizon_ms} ms ago"
    return None


def _due_tier(candidates: tuple[Unit, ...], config: TopicConfig, busy: frozenset[str]) -> Due | None:
    """Size-tiered: all L0 segments once they are many, or the longest stretch of neighbouring similar runs."""
    free = [u for u in candidates if u.id not in busy]
    l0 = [u for u in free if not u.is_run]
    if len(l0) >= config.l0_segments_tier:
        return Due("tier", tuple(l0), f"{len(l0)} L0 segments, tiered at {config.l0_segments_tier}")
    best: list[Unit] = []
    stretch: list[Unit] = []
    for unit in (u for u in free if u.is_run):
        sizes = [u.bytes for u in (*stretch, unit)]
        if max(sizes) > SIMILAR_SIZE_RATIO * max(1, min(sizes)):
            stretch = []
        stretch.append(unit)
        best = max(best, stretch[:], key=len)
    if len(best) >= config.runs_tier:
        return Due("tier", tuple(best), f"{len(best)} sorted runs of similar size, tiered at {config.runs_tier}")
    return None
