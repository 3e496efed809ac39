"""The edits of a manifest that are not appends: birth and seal, claims, compactions, quarantine. Pure; each names the
protocol rule it serves (docs/protocol.md)."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.appends import topic_gone
from lithify.manifest.commit import Already, Next, Refused
from lithify.manifest.config import LONG_MAX
from lithify.manifest.consumers import missed
from lithify.manifest.model import (
    COMPLETED_JOBS_MAX,
    RETIRED_MAX,
    Bucket,
    CompletedJob,
    Manifest,
    Quarantine,
    Retired,
    SegmentRef,
    SortedRun,
)
from lithify.manifest.pins import unpinned, waiting_text
from lithify.manifest.retention import floor_at
from lithify.manifest.time_index import Lost, Sizes
from lithify.store.errors import (
    EpochRegression,
    Fenced,
    InvalidRequest,
    LithifyError,
    NotFound,
    Unavailable,
)

__all__ = [
    "Claim",
    "CommitCompaction",
    "CreatePartition",
    "LiftQuarantine",
    "Seal",
    "SetQuarantine",
    "coverage_offset",
    "fenced",
    "retire",
]


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Manifest 1. It exists before the `.topic` that announces the partition (P21)."""

    first: Manifest

    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        return Already(None) if head is not None else Next(self.first, None)


@dataclass(frozen=True, slots=True)
class Seal:
    """The topic was deleted: nothing is appended or compacted any more; all that was live or pinned is let go (P21).

    The retired list may pass its bound here: nothing will be added to it again.
    """

    repeatable = True
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        if head is None or head.sealed:
            return Already(None)
        retired = (*head.retired, *retire(head.segments(), number))
        sealed = replace(head, sealed=True, l0=(), runs=(), time_index=(), retired=retired, checkpoints=())
        return Next(replace(sealed, unpinned=unpinned(head, ())), None)


@dataclass(frozen=True, slots=True)
class Claim:
    """Take the next compactor epoch (P5); answers with it, or with None where another claim came first.

    SUBTLE! Whoever looked decided by the owner of the epoch it saw. Of two that look at once, the one that loses the
    race for the number must look again: the winner may be at work within its lease. Test:
    tests/protocol/test_p05_fencing.py
    """

    expected: int | None  # the epoch that was looked at; None: whichever it is, an order to take over

    repeatable = True  # a second time it finds the epoch that the first one made, and answers None
    frees = True

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, int | None] | Already[int | None] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest; create the topic first"))
        if head.sealed:
            return Refused(topic_gone(head))
        epoch = head.compactor_epoch
        if self.expected is not None and epoch < self.expected:
            return Refused(epoch_regressed(head.topic, head.partition, epoch, self.expected))
        if self.expected is not None and epoch > self.expected:
            return Already(None)
        return Next(replace(head, compactor_epoch=epoch + 1), epoch + 1)


def epoch_regressed(topic: str, partition: int, stored: int, known: int) -> EpochRegression:
    return EpochRegression(
        f"{topic}/{partition}: the store shows epoch {stored} though epoch {known} was committed: it lost "
        "acknowledged writes. Stop every writer and look at the bucket before anything else"
    )


def fenced(topic: str, partition: int, stored: int, mine: int) -> LithifyError | None:
    """What epoch `stored` means to the holder of epoch `mine` (P5); None: it still holds."""
    if stored > mine:
        return Fenced(
            f"{topic}/{partition}: another compactor took over (epoch {stored}, mine is {mine}); this one stops here "
            "and has deleted nothing"
        )
    return epoch_regressed(topic, partition, stored, mine) if stored < mine else None


def coverage_offset(head: Manifest, sources: frozenset[str]) -> int:
    """T: the lowest offset in any live segment that is not in `sources` (segment ids), or next_offset (P9)."""
    return min((s.min_offset for s in head.segments() if s.id not in sources), default=head.next_offset)


def _reach(head: Manifest, sources: frozenset[str]) -> int:
    """The lowest offset that was ever merged into any of `sources` (segment ids); 0: that is not known."""
    loose = [s.min_offset for s in head.l0 if s.id in sources]
    runs = [run.reaches_to for run in head.runs if any(s.id in sources for s in run.segments)]
    return min((*loose, *runs), default=0)


@dataclass(frozen=True, slots=True)
class CommitCompaction:
    """Replace exactly the segments that the job holds by one run of outputs (P13). An empty run is a job without
    survivors. Of a run in offset order the first segments may be taken alone (docs/rfcs/0008)."""

    epoch: int
    job: str
    segments: tuple[str, ...]  # ids of those that the job holds
    run: SortedRun
    coverage_offset: int
    clean: bool
    forget: tuple[str, ...]  # completed jobs that `.compactor` shows terminal
    floor: int = 0  # records below it were dropped, so it is stored
    lost: tuple[Lost, ...] = ()  # what the merge dropped, by the buckets of the time index
    sizes: tuple[Sizes, ...] | None = None  # what it kept and dropped, by them; None: not all of it was counted
    dropped_to: int = 0  # 1 + the highest offset of an expired tombstone that was dropped
    config_at: int = LONG_MAX  # the version of the configuration that lets the job drop what it dropped

    repeatable = True  # by the job id
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest"))
        if any(done.id == self.job for done in head.completed_jobs):
            return Already(None)
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        refused = self._refusal(head)
        if refused is not None:
            return Refused(refused)
        held = frozenset(self.segments)
        jobs = (*(d for d in head.completed_jobs if d.id not in self.forget), CompletedJob(self.job, number))
        if len(jobs) > COMPLETED_JOBS_MAX:
            return Refused(Unavailable(f"{head.topic}/{head.partition}: too many completed jobs wait to be recorded"))
        left = (replace(run, segments=tuple(s for s in run.segments if s.id not in held)) for run in head.runs)
        runs = [run for run in left if run.segments]
        if self.run.segments:
            made = tuple(replace(s, added_at=number) for s in self.run.segments)
            runs.append(replace(self.run, reaches_to=_reach(head, held), segments=made))
            runs.sort(key=_run_order)
        # The floor that readers see by now is stored with the smaller sizes: else it would fall (R3).
        floor = max(self.floor, floor_at(head, now_ms))
        value = replace(
            head,
            log_start_offset=floor,
            l0=tuple(s for s in head.l0 if s.id not in held),
            runs=tuple(runs),
            retired=(*head.retired, *retire((s for s in head.segments() if s.id in held), number)),
            completed_jobs=jobs,
            consumers=missed(head.consumers, self.dropped_to),
            cleaned_to=max(head.cleaned_to, self.coverage_offset) if self.clean else head.cleaned_to,
            last_compacted_at_ms=now_ms,
            last_cleaned_at_ms=now_ms if self.clean else head.last_cleaned_at_ms,
        )
        index = time_index.shrink(self._weighed(head), self.lost)
        index = time_index.trim(index, floor, head.next_offset, value.rows)
        return Next(replace(value, time_index=time_index.within(index, value.segments())), None)

    def _weighed(self, head: Manifest) -> tuple[Bucket, ...]:
        """The time index with the bytes that the merge left of it (RFC 0007)."""
        if self.sizes is not None:
            made_bytes = sum(segment.bytes for segment in self.run.segments)
            return time_index.weigh(head.time_index, self.sizes, made_bytes)
        held = frozenset(self.segments)
        return time_index.uncounted(head.time_index, [s for s in head.segments() if s.id in held])

    def _refusal(self, head: Manifest) -> LithifyError | None:
        where = f"{head.topic}/{head.partition}: job {self.job}"
        if head.sealed:
            return topic_gone(head)
        if head.quarantine is not None:
            return Unavailable(f"{where}: compaction is quarantined: {head.quarantine.reason}")
        if head.config_at > self.config_at:
            return Unavailable(f"{where}: the topic was altered meanwhile; whether it may commit is looked at anew")
        held = frozenset(self.segments)
        missing = held - {s.id for s in head.segments()}
        if missing:
            return InvalidRequest(f"{where}: {len(missing)} of its sources are no longer live ({min(missing)} …)")
        for run in head.runs:
            inside = sum(s.id in held for s in run.segments)
            divided = run.segments[0].order == "offset" and all(s.id in held for s in run.segments[:inside])
            if inside not in (0, len(run.segments)) and not divided:
                return InvalidRequest(f"{where} holds a part of run {run.id} only")
        if coverage_offset(head, held) < self.coverage_offset:
            return InvalidRequest(f"{where}: a live segment reaches below its coverage offset")
        if len(head.retired) + len(held) > RETIRED_MAX:
            return Unavailable(f"{where}: {waiting_text(head)}")
        return None


def _run_order(run: SortedRun) -> tuple[int, str]:
    return min(s.min_offset for s in run.segments), run.id


def retire(segments: Iterable[SegmentRef], number: int) -> list[Retired]:
    """The entries of `segments`, retired by manifest `number` (P16)."""
    return [
        Retired(
            id=s.id,
            store=s.store,
            bytes=s.bytes,
            rows=s.rows,
            base_offset=s.base_offset,
            added_at=s.added_at,
            retired_at=number,
        )
        for s in segments
    ]


@dataclass(frozen=True, slots=True)
class SetQuarantine:
    """Stop compaction of the partition: a segment is corrupt and a person must look (R6)."""

    epoch: int
    reason: str
    segment: str

    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest"))
        if head.sealed:
            return Refused(topic_gone(head))  # its segments are missing because they were collected
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        if head.quarantine is not None:
            return Already(None)
        return Next(replace(head, quarantine=Quarantine(self.reason, self.segment, now_ms)), None)


@dataclass(frozen=True, slots=True)
class LiftQuarantine:
    """A person looked and repaired."""

    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest"))
        return Already(None) if head.quarantine is None else Next(replace(head, quarantine=None), None)
