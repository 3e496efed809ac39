"""The edit that commits a compaction: its outputs replace its sources (P13, R4). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.claims import fenced
from lithify.manifest.config import LONG_MAX
from lithify.manifest.consumers import missed
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import (
    COMPLETED_JOBS_MAX,
    RETIRED_MAX,
    Bucket,
    CompletedJob,
    Manifest,
    SortedRun,
)
from lithify.manifest.pins import waiting_text
from lithify.manifest.refusals import not_created, topic_gone
from lithify.manifest.retention import floor_at
from lithify.manifest.retired import retire
from lithify.manifest.time_index import Lost, Sizes
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable

__all__ = ["CommitCompaction", "coverage_offset"]


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
    """Replace exactly the segments that the job holds by one run of outputs (P13). The run is empty if no record
    survived. Of a run in offset order the first segments alone may be replaced (docs/rfcs/0008)."""

    epoch: int
    job: str
    segments: tuple[str, ...]  # ids of the segments that the job holds
    run: SortedRun
    coverage_offset: int
    clean: bool
    forget: tuple[str, ...]  # completed jobs that have ended in `.compactor`
    floor: int = 0  # records below it were dropped, so it must be stored
    lost: tuple[Lost, ...] = ()  # rows that the merge dropped, by the buckets of the time index
    sizes: tuple[Sizes, ...] | None = None  # bytes that it kept and dropped, by bucket; None: some were not counted
    dropped_to: int = 0  # 1 + the highest offset of an expired tombstone that was dropped
    config_at: int = LONG_MAX  # the configuration's version that was checked to allow the drops

    repeatable = True  # by the job id
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
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
            return Refused(
                Unavailable(
                    f"{head.topic}/{head.partition}: too many completed jobs are waiting to be recorded in .compactor; "
                    "retry later"
                )
            )
        left = (replace(run, segments=tuple(s for s in run.segments if s.id not in held)) for run in head.runs)
        runs = [run for run in left if run.segments]
        if self.run.segments:
            made = tuple(replace(s, added_at=number) for s in self.run.segments)
            runs.append(replace(self.run, reaches_to=_reach(head, held), segments=made))
            runs.sort(key=_run_order)
        # Store the floor that readers see now with the smaller sizes; otherwise it would fall (R3).
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
        """The time index with the bytes that are left after the merge (RFC 0007)."""
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
            return Unavailable(f"{where}: the topic was altered in the meantime; the job must be checked again")
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
