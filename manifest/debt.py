"""What a partition owes: what is uncleaned, expired or scattered over too many files, and which work would pay most of
it. Pure.

Kafka's rules C1-C5 (docs/protocol.md) over units of the manifest: an L0 segment, or a whole sorted run. Every work
names its debt and leaves less of it, so that a partition left alone comes to rest (docs/rfcs/0008).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from lithify.manifest.config import TopicConfig
from lithify.manifest.floor import droppable
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.retention import log_start, retention_of

__all__ = ["Debt", "Due", "NotDue", "Unit", "Work", "assess", "latest_cleanable_ms", "left_out", "units"]

_NO_LIMIT_MS = 2**63 - 1
SIMILAR_SIZE_RATIO = 4  # runs within this factor of each other are of similar size

Work = Literal["drop", "tier", "clean"]


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
    max_horizon_ms: int | None


class Due(msgspec.Struct, frozen=True):
    """Work that would pay a named debt. A drop has no units: it retires the segments below the floor."""

    kind: Work
    units: tuple[Unit, ...]
    debt: str  # floor, overdue, l0-pressure, dirty, l0, runs, tombstones
    reason: str
    urgency: int = 0  # place of the debt in the order in which debts are paid; 0 first


class NotDue(msgspec.Struct, frozen=True):
    """Work, or a unit, that was weighed and not chosen."""

    what: str
    reason: str


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    log_start_offset: int  # as a reader sees it now
    droppable: tuple[SegmentRef, ...]  # wholly below it
    clean_bytes: int  # below cleaned_to
    dirty_bytes: int  # cleanable: uncleaned and past min.compaction.lag.ms
    young_bytes: int  # uncleaned and not cleanable yet
    dirty_ratio: float  # dirty / (clean + dirty), 0 where there is neither (C1)
    oldest_dirty_ms: int | None  # timestamp of the oldest record not yet cleaned
    due: Due | None
    others: tuple[NotDue, ...]  # the work that is not chosen, most urgent first


def units(manifest: Manifest) -> tuple[Unit, ...]:
    """Runs and L0 segments by smallest offset."""
    found = [_unit(run.id, True, run.segments) for run in manifest.runs]
    found += [_unit(segment.id, False, (segment,)) for segment in manifest.l0]
    return tuple(sorted(found, key=lambda unit: unit.min_offset))


def _unit(unit_id: str, is_run: bool, segments: tuple[SegmentRef, ...]) -> Unit:
    one = segments[0]
    if len(segments) == 1:
        return Unit(
            id=unit_id,
            is_run=is_run,
            segments=segments,
            bytes=one.bytes,
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
        rows=sum(s.rows for s in segments),
        min_offset=min(s.min_offset for s in segments),
        max_offset=max(s.max_offset for s in segments),
        min_timestamp_ms=min(s.min_timestamp_ms for s in segments),
        max_timestamp_ms=max(s.max_timestamp_ms for s in segments),
        tombstones=sum(s.tombstones for s in segments),
        min_horizon_ms=min((s.min_horizon_ms for s in segments if s.min_horizon_ms is not None), default=None),
        max_horizon_ms=max((s.max_horizon_ms for s in segments if s.max_horizon_ms is not None), default=None),
    )


def assess(manifest: Manifest, config: TopicConfig, now_ms: int, pinned: frozenset[str] = frozenset()) -> Debt:
    """The debt of `manifest`. `pinned`: the segments of active jobs, which no due work may name."""
    floor = log_start(manifest, retention_of(config), now_ms)
    books = _Books(manifest, config, now_ms, pinned, floor)
    found = [] if manifest.sealed else list(books.candidates())
    due = next((each for each in found if isinstance(each, Due)), None)
    others = tuple(
        each if isinstance(each, NotDue) else NotDue(f"{each.kind} for {each.debt}", f"due after that: {each.reason}")
        for each in found
        if each is not due
    )
    return Debt(
        log_start_offset=floor,
        droppable=books.droppable,
        clean_bytes=books.clean_bytes,
        dirty_bytes=books.dirty_bytes,
        young_bytes=sum(unit.bytes for unit in books.units) - books.clean_bytes - books.dirty_bytes,
        dirty_ratio=books.dirty_ratio,
        oldest_dirty_ms=books.oldest_dirty_ms,
        due=due,
        others=others,
    )


def latest_cleanable_ms(config: TopicConfig, now_ms: int) -> int:
    """The largest timestamp a unit may hold to be compacted now. Without a lag there is none: a record from the future
    is no reason to leave its unit alone (as in Kafka)."""
    return now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else _NO_LIMIT_MS


def left_out(
    manifest: Manifest, config: TopicConfig, now_ms: int, due: Due | None, pinned: frozenset[str]
) -> tuple[NotDue, ...]:
    """Why each unit that `due` does not name is left alone, in the manifest's order."""
    chosen = frozenset[str]() if due is None else frozenset(unit.id for unit in due.units)
    books = _Books(manifest, config, now_ms, pinned, 0)
    old = {unit.id for unit in books.old}

    def reason(unit: Unit) -> str:
        if not pinned.isdisjoint(s.id for s in unit.segments):
            return "an active job holds it"
        if unit.id in old:
            return "clean" if config.compacted and unit.max_offset < manifest.cleaned_to else "no due work needs it"
        if unit.max_timestamp_ms > latest_cleanable_ms(config, now_ms):
            wait_ms = unit.max_timestamp_ms + config.min_compaction_lag_ms - now_ms
            return f"younger than min.compaction.lag.ms, for another {wait_ms} ms"
        return "it follows one that is younger than min.compaction.lag.ms"

    return tuple(NotDue(unit.id, reason(unit)) for unit in books.units if unit.id not in chosen)


class _Books:
    """One look at a manifest: its units by age and cleanliness, and the work that each debt asks for."""

    def __init__(
        self, manifest: Manifest, config: TopicConfig, now_ms: int, pinned: frozenset[str], floor: int
    ) -> None:
        self._manifest = manifest
        self._config = config
        self._now_ms = now_ms
        self.units = units(manifest)
        self.droppable = droppable(manifest, floor, pinned)
        self._free = frozenset(u.id for u in self.units if pinned.isdisjoint(s.id for s in u.segments))
        self.old = _cleanable(self.units, latest_cleanable_ms(config, now_ms))
        self.clean_bytes = self.dirty_bytes = 0
        self.dirty_ratio = 0.0
        self.oldest_dirty_ms: int | None = None
        if config.compacted:
            self._weigh()
        else:
            self.old = self.units

    def _weigh(self) -> None:
        to = self._manifest.cleaned_to
        dirty = [u for u in self.old if u.max_offset >= to]
        self.clean_bytes = sum(u.bytes for u in self.units if u.max_offset < to)
        self.dirty_bytes = sum(u.bytes for u in dirty)
        if self.dirty_bytes:
            self.dirty_ratio = self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)
            self.oldest_dirty_ms = min(u.min_timestamp_ms for u in dirty)

    def candidates(self) -> Iterator[Due | NotDue]:
        """Every kind of work, most urgent first: what it pays if it is due, else why it is not."""
        ways = [self._drop, self._tier_under_pressure, self._tier_l0, self._tier_runs]
        if self._config.compacted:
            ways = [
                *(self._drop, self._clean_overdue, self._tier_under_pressure, self._clean_dirty),
                *(self._tier_l0, self._tier_runs, self._clean_tombstones),
            ]
        for urgency, way in enumerate(ways):
            found = way()
            yield msgspec.structs.replace(found, urgency=urgency) if isinstance(found, Due) else found

    def _drop(self) -> Due | NotDue:
        if not self.droppable:
            return NotDue("drop", "no segment lies wholly below the log start offset")
        size = sum(s.bytes for s in self.droppable)
        return Due("drop", (), "floor", f"{len(self.droppable)} segments ({size} bytes) lie below the log start offset")

    def _clean(self, debt: str, reason: str) -> Due | NotDue:
        # A clean holds every unit below its boundary; it waits for running jobs rather than go around them.
        if any(unit.id not in self._free for unit in self.old):
            return NotDue("clean", f"{reason}; it waits for the jobs that hold some of its inputs")
        return Due("clean", tuple(self.old), debt, reason)

    def _clean_overdue(self) -> Due | NotDue:
        lag_ms = self._config.max_compaction_lag_ms
        if self.oldest_dirty_ms is None:
            return NotDue("clean for overdue", "nothing is dirty")
        age_ms = self._now_ms - self.oldest_dirty_ms
        if age_ms <= lag_ms:
            when = "there is no max.compaction.lag.ms" if lag_ms == _NO_LIMIT_MS else f"due in {lag_ms - age_ms + 1} ms"
            return NotDue("clean for overdue", when)
        return self._clean("overdue", f"max.compaction.lag.ms: the oldest uncleaned record is {age_ms} ms old")

    def _clean_dirty(self) -> Due | NotDue:
        least = self._config.min_cleanable_dirty_ratio
        if not self.dirty_bytes or self.dirty_ratio <= least:
            return NotDue("clean for dirty", f"dirty ratio {self.dirty_ratio:.2f} is not above {least:g}")
        return self._clean("dirty", f"dirty ratio {self.dirty_ratio:.2f} is above {least:g}")

    def _clean_tombstones(self) -> Due | NotDue:
        """Once the latest stamped horizon has passed, one clean drops them all; under a steady stream of deletes,
        whose latest never passes, the earliest waits one retention period more. Else each stamp would be a rewrite."""
        earliest = min((u.min_horizon_ms for u in self.old if u.min_horizon_ms is not None), default=None)
        latest = max((u.max_horizon_ms for u in self.old if u.max_horizon_ms is not None), default=None)
        if earliest is None or latest is None:
            return NotDue("clean for tombstones", "no tombstone has a horizon")
        at_ms = min(latest, earliest + self._config.delete_retention_ms)
        if self._now_ms < at_ms:
            return NotDue("clean for tombstones", f"tombstones expire in {at_ms - self._now_ms} ms")
        return self._clean("tombstones", f"tombstones expired {self._now_ms - earliest} ms ago")

    def _tier_under_pressure(self) -> Due | NotDue:
        """Appends are being slowed down. Where most L0 segments are younger than the lag these are merged among
        themselves, and nothing is dropped: a merge never crosses the lag."""
        most, count = self._config.l0_segments_max, len(self._manifest.l0)
        if count < most - most // 4:
            return NotDue(
                "tier for l0-pressure", f"{count} L0 segments do not slow appends down, {most} would stop them"
            )
        old = frozenset(unit.id for unit in self.old)
        free = [u for u in self.units if not u.is_run and u.id in self._free]
        groups = [[u for u in free if u.id in old], [u for u in free if u.id not in old]]
        chosen = max(groups, key=len)
        if len(chosen) < 2:
            return NotDue("tier for l0-pressure", f"{count} L0 segments, and active jobs hold them")
        return Due("tier", tuple(chosen), "l0-pressure", f"{count} L0 segments of at most {most} slow appends down")

    def _tier_l0(self) -> Due | NotDue:
        free = [u for u in self.old if not u.is_run and u.id in self._free]
        least = self._config.l0_segments_tier
        if len(free) < least:
            return NotDue("tier for l0", f"{len(free)} L0 segments to merge, tiered at {least}")
        return Due("tier", tuple(free), "l0", f"{len(free)} L0 segments, tiered at {least}")

    def _tier_runs(self) -> Due | NotDue:
        best = _similar([u for u in self.old if u.is_run and u.id in self._free])
        least = self._config.runs_tier
        if len(best) < least:
            return NotDue("tier for runs", f"{len(best)} neighbouring runs of similar size, tiered at {least}")
        return Due("tier", tuple(best), "runs", f"{len(best)} sorted runs of similar size, tiered at {least}")


def _cleanable(everything: Sequence[Unit], latest_ms: int) -> Sequence[Unit]:
    """C4: what lies wholly below the first unit that holds a record younger than the lag.

    SUBTLE! A young unit counts below `cleaned_to`, too (the lag may have been raised since): a merge with it drops
    nothing, so its tombstones would get horizons above values that stay. And a unit that reaches across the boundary
    draws it down to its own beginning: left out of a clean it would hold the coverage offset there, and the same clean
    would be due again for ever. Test: tests/compactor/test_cleanable.py
    """
    boundary = min((u.min_offset for u in everything if u.max_timestamp_ms > latest_ms), default=None)
    if boundary is None:
        return everything
    for unit in sorted(everything, key=lambda unit: unit.max_offset, reverse=True):
        if unit.max_offset < boundary:
            break
        boundary = min(boundary, unit.min_offset)
    return [unit for unit in everything if unit.max_offset < boundary]


def _similar(runs: Iterable[Unit]) -> list[Unit]:
    """The longest stretch of neighbouring runs of similar size."""
    best: list[Unit] = []
    stretch: list[Unit] = []
    low = high = 1
    for unit in runs:
        low, high = min(low, max(unit.bytes, 1)), max(high, unit.bytes)
        if not stretch or high > SIMILAR_SIZE_RATIO * low:
            stretch, low, high = [], max(unit.bytes, 1), max(unit.bytes, 1)
        stretch.append(unit)
        if len(stretch) > len(best):
            best = stretch[:]
    return best
