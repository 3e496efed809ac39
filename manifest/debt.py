"""What work a partition owes (because something is uncleaned, expired or spread over too many files), and what that
work is. Pure.

Kafka's rules C1-C5 (docs/protocol.md) over units of the manifest: an L0 segment, or a whole sorted run. Every work
names its debt and leaves less of it, so that a partition left alone comes to rest (docs/rfcs/0008).
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import takewhile
from typing import Literal

import msgspec

from lithify.manifest.ages import latest_cleanable_ms
from lithify.manifest.cold import lies_elsewhere, to_relocate
from lithify.manifest.cold_price import too_dear
from lithify.manifest.compacted import is_clean
from lithify.manifest.config import LONG_MAX, TopicConfig, slows_from
from lithify.manifest.floor import droppable
from lithify.manifest.homes import told
from lithify.manifest.jobs import Kind
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at
from lithify.manifest.steps import steps
from lithify.manifest.units import Unit, units
from lithify.manifest.words import DEBT_TEXTS, counted, room_text, size_text, span_text

__all__ = ["Debt", "DebtName", "Due", "NotDue", "Work", "appends_slowed", "assess"]

RUNS_CROWDED_TIERS = 8  # with this many × runs.tier similar runs, merging runs goes before merging L0
# Skip a tier that would rewrite more than 1/4 of the bytes at which a clean is due: the clean will rewrite them soon
# anyway.
SOON_CLEANED_PARTS = 4

Work = Literal["drop", "tier", "clean", "relocate"]


class DebtName(StrEnum):
    """What a partition may owe."""

    FLOOR = "floor"  # segments below the log start offset take up space
    OVERDUE = "overdue"  # a record has waited longer than max.compaction.lag.ms to be cleaned
    RUNS_PRESSURE = "runs-pressure"  # reads touch far too many runs
    L0_PRESSURE = "l0-pressure"  # appends are slowed down, or refused
    DIRTY = "dirty"  # too large a share is uncleaned
    TOMBSTONES = "tombstones"  # some have expired
    L0 = "l0"  # there are enough L0 segments to merge
    RUNS = "runs"  # there are enough runs to merge
    COLD = "cold"  # segments are old enough for the cold home
    FAN_IN = "fan-in"  # more inputs than one merge can hold: some are merged first, on the way to another debt

    @property
    def work(self) -> Work:
        """The work that pays it."""
        match self:
            case DebtName.FLOOR:
                return "drop"
            case DebtName.OVERDUE | DebtName.DIRTY | DebtName.TOMBSTONES:
                return "clean"
            case DebtName.RUNS_PRESSURE | DebtName.L0_PRESSURE | DebtName.L0 | DebtName.RUNS | DebtName.FAN_IN:
                return "tier"
            case DebtName.COLD:
                return "relocate"

    @property
    def grows(self) -> bool:
        """Whether it grows while a long job runs, or waits for its next attempt."""
        return self in (DebtName.RUNS_PRESSURE, DebtName.L0_PRESSURE)

    @property
    def text(self) -> str:
        """The work, as a person would say it."""
        return DEBT_TEXTS[self]


class Due(msgspec.Struct, frozen=True):
    """Work that would pay a debt. A drop has no units: it retires the segments below the floor."""

    debt: DebtName
    units: tuple[Unit, ...]
    reason: str
    urgency: int = 0  # rank of the debt, the same for every topic; 0 comes first

    @property
    def kind(self) -> Work:
        return self.debt.work

    @property
    def job_kind(self) -> Kind:
        """Requires: it is not a drop, which is an edit without a job."""
        match self.debt.work:
            case "tier" | "clean" | "relocate" as kind:
                return kind
            case "drop":
                raise AssertionError("a drop is no job")


class NotDue(msgspec.Struct, frozen=True, gc=False):
    """Work, or a unit, that was considered and not chosen."""

    what: str
    reason: str


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    units: tuple[Unit, ...]  # all of them, by smallest offset
    cleanable: tuple[Unit, ...]  # older than min.compaction.lag.ms, and wholly below all younger ones
    log_start_offset: int  # as a reader sees it now
    droppable: tuple[SegmentRef, ...]  # wholly below it
    clean_bytes: int  # below cleaned_to
    dirty_bytes: int  # cleanable, not cleaned yet
    young_bytes: int  # neither clean nor cleanable yet
    dirty_ratio: float  # dirty / (clean + dirty), 0 if there is neither (C1)
    oldest_dirty_ms: int | None  # timestamp of the oldest record not yet cleaned
    weighed: tuple[Due | NotDue, ...]  # every kind of work, most urgent first

    @property
    def all_due(self) -> tuple[Due, ...]:
        """What is due, most urgent first."""
        return tuple(each for each in self.weighed if isinstance(each, Due))

    @property
    def due(self) -> Due | None:
        """The most urgent."""
        return next(iter(self.all_due), None)


def assess(reading: Reading) -> Debt:
    """What a partition owes. What its active jobs hold is owed no more: it is being worked on."""
    manifest = reading.manifest
    floor = floor_at(manifest, reading.now_ms)
    books = _Books(reading, floor)
    return Debt(
        units=books.units,
        cleanable=tuple(books.old),
        log_start_offset=floor,
        droppable=books.droppable,
        clean_bytes=books.clean_bytes,
        dirty_bytes=books.dirty_bytes,
        young_bytes=books.young_bytes,
        dirty_ratio=books.dirty_ratio,
        oldest_dirty_ms=books.oldest_dirty_ms,
        weighed=() if manifest.sealed else tuple(books.weighed()),
    )


def appends_slowed(manifest: Manifest, config: TopicConfig) -> bool:
    """Whether there are so many L0 segments that appends are slowed down."""
    return len(manifest.l0) >= slows_from(config.l0_segments_max)


class _Books:
    """One look at a manifest: its units by age and cleanliness, and the work that each debt requires."""

    def __init__(self, reading: Reading, floor: int) -> None:
        manifest, state, config, now_ms = reading
        self._manifest = manifest
        self._config = config
        self._now_ms = now_ms
        self._jobs = state.jobs
        self._held = held = reading.held
        self.units = units(manifest)
        self.droppable = droppable(manifest, floor, held)
        taken = (u for u in self.units if not held.isdisjoint(s.id for s in u.segments)) if held else ()
        self._taken = frozenset(u.id for u in taken)  # by active jobs
        self.old: Sequence[Unit] = self.units
        self.clean_bytes = self.dirty_bytes = self.young_bytes = 0
        self.dirty_ratio = 0.0
        self.oldest_dirty_ms: int | None = None
        if config.compacted:
            self.old = _cleanable(self.units, latest_cleanable_ms(config, now_ms))
            self._weigh()

    @cached_property
    def _old_to(self) -> int:
        return max((u.max_offset for u in self.old), default=-1)

    def _weigh(self) -> None:
        to = self._manifest.cleaned_to
        dirty = [u for u in self.old if not is_clean(u, to)]
        self.clean_bytes = sum(u.bytes for u in self.units if is_clean(u, to))
        self.dirty_bytes = sum(u.bytes for u in dirty)
        self.young_bytes = sum(u.bytes for u in self.units) - self.clean_bytes - self.dirty_bytes
        if self.dirty_bytes:
            self.dirty_ratio = self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)
            self.oldest_dirty_ms = min(u.min_timestamp_ms for u in dirty)

    def weighed(self) -> Iterator[Due | NotDue]:
        """Every kind of work, most urgent first: the work if it is due, else why it is not."""
        compacted = self._config.compacted
        ways = (
            (self._drop, True),
            (self._clean_overdue, compacted),
            (self._tier_crowded_runs, True),
            (self._tier_under_pressure, True),
            (self._clean_dirty, compacted),
            (self._clean_tombstones, compacted),
            (self._tier_l0, True),
            (self._tier_runs, True),
            (self._relocate, bool(self._config.cold_home)),
        )
        for urgency, (way, applies) in enumerate(ways):
            if applies:
                found = way()
                yield msgspec.structs.replace(found, urgency=urgency) if isinstance(found, Due) else found

    def _drop(self) -> Due | NotDue:
        if not self.droppable:
            return NotDue(DebtName.FLOOR.text, "no segment lies wholly below the log start offset")
        size = sum(s.bytes for s in self.droppable)
        held = f"{counted(len(self.droppable), 'segment')} ({size_text(size)})"
        lie = "lies" if len(self.droppable) == 1 else "lie"
        return Due(DebtName.FLOOR, (), f"{held} {lie} below the log start offset")

    def _clean(self, debt: DebtName, reason: str) -> Due | NotDue:
        # A clean includes every unit below its boundary, so it waits for running jobs instead of avoiding their units.
        if any(unit.id in self._taken for unit in self.old):
            cleaning = self._cleaning
            what = f"under way: job {cleaning}" if cleaning else "waiting for the jobs that hold some of its inputs"
            return NotDue(debt.text, f"{reason}; {what}")
        return Due(debt, tuple(self.old), reason)

    @property
    def _cleaning(self) -> str | None:
        """The job that cleans all that is to be cleaned."""
        wanted = frozenset(segment.id for unit in self.old for segment in unit.segments)
        return next((job.id for job in self._jobs if job.kind == "clean" and wanted.issubset(job.segments)), None)

    def _clean_overdue(self) -> Due | NotDue:
        lag_ms = self._config.max_compaction_lag_ms
        if self.oldest_dirty_ms is None:
            return NotDue(DebtName.OVERDUE.text, "everything is clean")
        age_ms = self._now_ms - self.oldest_dirty_ms
        if age_ms <= lag_ms:
            if lag_ms == LONG_MAX:
                return NotDue(DebtName.OVERDUE.text, "max.compaction.lag.ms is not set")
            return NotDue(DebtName.OVERDUE.text, f"due in {span_text(lag_ms - age_ms + 1)}")
        return self._clean(
            DebtName.OVERDUE, f"max.compaction.lag.ms: the oldest uncleaned record is {span_text(age_ms)} old"
        )

    def _clean_dirty(self) -> Due | NotDue:
        least = self._config.min_cleanable_dirty_ratio
        if not self.dirty_bytes or self.dirty_ratio <= least:
            return NotDue(DebtName.DIRTY.text, f"dirty ratio {self.dirty_ratio:.2f} is not above {least:g}")
        why = f"dirty ratio {self.dirty_ratio:.2f} is above {least:g}"
        dear = self._too_dear
        return self._clean(DebtName.DIRTY, why) if dear is None else NotDue(DebtName.DIRTY.text, f"{why}, but {dear}")

    @cached_property
    def _too_dear(self) -> str | None:
        segments = (segment for unit in self.old for segment in unit.segments)
        return too_dear(segments, self.dirty_bytes, self._config, self._now_ms)

    def _clean_tombstones(self) -> Due | NotDue:
        """After the latest stamped horizon, one clean drops all these tombstones. Under a steady stream of deletes the
        latest never passes, so the earliest waits one more retention period. Otherwise each stamp would cause a
        rewrite."""
        earliest = min((u.min_horizon_ms for u in self.old if u.min_horizon_ms is not None), default=None)
        latest = max((u.max_horizon_ms for u in self.old if u.max_horizon_ms is not None), default=None)
        if earliest is None or latest is None:
            return NotDue(DebtName.TOMBSTONES.text, "no tombstone is due to expire")
        at_ms = min(latest, earliest + self._config.delete_retention_ms)
        if self._now_ms < at_ms:
            return NotDue(DebtName.TOMBSTONES.text, f"tombstones expire in {span_text(at_ms - self._now_ms)}")
        return self._clean(DebtName.TOMBSTONES, f"tombstones expired {span_text(self._now_ms - earliest)} ago")

    def _tier_under_pressure(self) -> Due | NotDue:
        """Appends are being slowed down. If most L0 segments are younger than the lag, these are merged among
        themselves, and nothing is dropped: a merge never crosses the lag."""
        most, count = self._config.l0_segments_max, len(self._manifest.l0)
        if not appends_slowed(self._manifest, self._config):
            told = f"{counted(count, 'L0 segment')}: appends slow down at {slows_from(most)} and stop at {most}"
            return NotDue(DebtName.L0_PRESSURE.text, told)
        old = frozenset(unit.id for unit in self.old)
        free = [u for u in self.units if not u.is_run and u.id not in self._taken]
        groups = [[u for u in free if u.id in old], [u for u in free if u.id not in old]]
        chosen = max(groups, key=len)
        if not chosen:
            return NotDue(DebtName.L0_PRESSURE.text, f"{counted(count, 'L0 segment')}, held by active jobs")
        return Due(DebtName.L0_PRESSURE, tuple(chosen), room_text(count, most))

    def _tier_l0(self) -> Due | NotDue:
        loose = [u for u in self.old if not u.is_run]
        free = [u for u in loose if u.id not in self._taken]
        least = self._config.l0_segments_tier
        told = counted(len(loose), "L0 segment")
        if len(free) < len(loose):
            told = f"{len(free)} of {told} (active jobs hold {len(loose) - len(free)})"
        if len(free) < least:
            return NotDue(DebtName.L0.text, f"{told}; merged once there are {least} (l0.segments.tier)")
        return Due(DebtName.L0, self._with_similar(free), f"{told} to merge (l0.segments.tier is {least})")

    def _tier_crowded_runs(self) -> Due | NotDue:
        """If tiers of L0 are always due, no other work would limit the number of runs."""
        least = RUNS_CROWDED_TIERS * self._config.runs_tier
        most = max(self._run_steps, key=len, default=())
        told = f"{counted(len(most), 'run')} of similar size"
        if len(most) < least:
            return NotDue(DebtName.RUNS_PRESSURE.text, f"{told}; urgent at {least}")
        return Due(DebtName.RUNS_PRESSURE, tuple(most), f"reads touch {told} (limit {least})")

    def _tier_runs(self) -> Due | NotDue:
        least = self._config.runs_tier
        steps = self._run_steps
        full = [step for step in steps if len(step) >= least]
        best = next((step for step in full if not self._soon_cleaned(step)), None)
        if best is not None:
            told = f"{counted(len(best), 'neighbouring run')} of similar size (runs.tier is {least})"
            return Due(DebtName.RUNS, tuple(best), told)
        soon = "left alone, because a clean will soon rewrite them"
        why = soon if full else f"merged once there are {least} (runs.tier)"
        most = max(map(len, steps), default=0)
        return NotDue(DebtName.RUNS.text, f"{counted(most, 'neighbouring run')} of similar size; {why}")

    def _relocate(self) -> Due | NotDue:
        """Last of all: it saves money, and nobody waits for it."""
        home = self._config.cold_home
        chosen = to_relocate(self._manifest, self._config, self._now_ms, self._held)
        if isinstance(chosen, str):
            return NotDue(DebtName.COLD.text, chosen)
        size = sum(unit.bytes for unit in chosen)
        return Due(
            DebtName.COLD, chosen, f"{counted(len(chosen), 'segment')} ({size_text(size)}) may go to {told(home)}"
        )

    @cached_property
    def _run_steps(self) -> list[Sequence[Unit]]:
        """The runs on each size step: the old among themselves, and the young ones, which l0-pressure has made."""
        return [runs[first:end] for runs in (self._runs, self._young_runs) for first, end in steps(runs)]

    def _soon_cleaned(self, chosen: Sequence[Unit]) -> bool:
        """Whether a tier of `chosen` is not worth it: they are a large part of what makes a clean due, which will soon
        rewrite them. Never true for young ones."""
        ratio = self._config.min_cleanable_dirty_ratio
        if not self._config.compacted or ratio == 1 or chosen[-1].max_offset > self._old_to:
            return False
        enough = ratio * self.clean_bytes  # a clean is due if (1 - ratio) × dirty bytes exceed this
        return SOON_CLEANED_PARTS * (1 - ratio) * sum(u.bytes for u in chosen) > enough and self._too_dear is None

    @property
    def _runs(self) -> Sequence[Unit]:
        """What `tier` may merge. In a compacted topic not the clean run: all of it would be dirty again. In others no
        run as large as an output: reading in offset order would still open as many objects. Nor one that has moved to
        the cold home: it would come back."""
        if self._config.compacted:
            return [u for u in self.old if self._may_merge(u)]
        full = self._config.output_bytes
        free = (u for u in reversed(self.old) if u.is_run and u.id not in self._taken)
        return [*takewhile(lambda run: run.bytes < full and not lies_elsewhere(run), free)][::-1]

    @property
    def _young_runs(self) -> Sequence[Unit]:
        """If the lag was raised, a clean run may be young; it is left out here too."""
        if self.old is self.units:
            return ()
        return [u for u in self.units if u.max_offset > self._old_to and self._may_merge(u)]

    def _may_merge(self, unit: Unit) -> bool:
        """Whether it is a run that no job holds, and not the clean one."""
        return unit.is_run and unit.id not in self._taken and not is_clean(unit, self._manifest.cleaned_to)

    def _with_similar(self, chosen: Sequence[Unit]) -> tuple[Unit, ...]:
        """`chosen`, and the older runs with which its result would be merged at once: so they are written once, not
        twice."""
        runs = [run for run in self._runs if run.max_offset < chosen[0].min_offset]
        while True:
            first, end = next(steps(runs, sum(unit.bytes for unit in chosen)))
            more = [*runs[first:], *chosen]
            if end - first < self._config.runs_tier or self._soon_cleaned(more):
                return tuple(chosen)
            runs, chosen = runs[:first], more


def _cleanable(everything: Sequence[Unit], latest_ms: int) -> Sequence[Unit]:
    """C4: the units wholly below the first one with a record younger than the lag.

    SUBTLE! 1. A young unit counts even below `cleaned_to` (the lag may have been raised since): a merge with it drops
    nothing, so its tombstones would get horizons above values that stay. 2. A unit across the boundary moves the
    boundary down to its own beginning: if a clean left it out, it would keep the coverage offset there, and the same
    clean would be due again for ever. Test: tests/compactor/test_cleanable.py
    """
    boundary = min((u.min_offset for u in everything if u.max_timestamp_ms > latest_ms), default=None)
    if boundary is None:
        return everything
    for unit in sorted(everything, key=lambda unit: unit.max_offset, reverse=True):
        if unit.max_offset < boundary:
            break
        boundary = min(boundary, unit.min_offset)
    return [unit for unit in everything if unit.max_offset < boundary]
