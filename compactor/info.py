"""What operators see of a compaction: `CompactionInfo`, and the report of a pass."""

from typing import Literal

import msgspec

from lithify.compactor.step import StepEnd
from lithify.manifest.categories import EndedBy
from lithify.manifest.homes import told
from lithify.manifest.jobs import (
    Attempt,
    Estimate,
    Job,
    JobError,
    Kind,
    MergeCounts,
    Origin,
    Status,
    last_number,
    summed_up,
)
from lithify.manifest.latest_failure import failure_text, latest_failure
from lithify.manifest.move_price import MovePrice
from lithify.manifest.words import counted
from lithify.store.apart import Ending, Fault, ending_of
from lithify.store.short_repr import short_repr

__all__ = [
    "CompactionInfo",
    "Holdings",
    "MaintenanceReport",
    "PartitionReport",
    "Phase",
    "Progress",
    "compaction_id",
    "compaction_info",
    "unread_topic",
]


Phase = Literal["reading", "writing", "committing", "done"]
"""Of a compaction; one that waits, or is planned, is reading."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    input_segments_processed: int  # estimated from the finished key ranges
    total_input_segments: int
    output_segments_written: int
    bytes_processed: int
    ranges: int  # of keys; 0 until it was admitted
    ranges_done: int
    completion_percentage: float  # 0 to 100, by finished key ranges
    estimated_completion: int | None  # ms since 1970, from the pace of the running attempt


class CompactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction's status (SlateDB's compaction RFC names the fields). Times in ms since 1970."""

    id: str  # topic/partition/job
    kind: Kind | None  # None until it was admitted
    status: Status
    phase: Phase
    origin: Origin
    reason: str
    chosen: str  # why it was chosen, where `reason` says how it ended
    ended_by: EndedBy | None  # None: it was not ended from outside
    cancel_requested: bool = False  # and it has not ended yet
    sources: tuple[str, ...]  # L0 segments and runs; once it ended, the first 16 of `total_sources`
    total_sources: int
    destination: str  # id of the run it makes; of a relocation, where the segments go
    attempts: tuple[Attempt, ...]  # the last 16; once it ended, the last 4. Numbers count from 1
    progress: Progress
    counts: MergeCounts
    estimate: Estimate | None  # made at its admission
    price: MovePrice | None = None  # of a move between homes, when it was requested, then when it was admitted
    peak_memory_bytes: int  # of the worker that took most, once it is finished
    created_at: int
    started_at: int | None
    completed_at: int | None
    error: JobError | None

    @property
    def last_attempt(self) -> int:
        """The number of the latest attempt, and so how many there were."""
        return last_number(self.attempts)

    @property
    def latest_failure(self) -> Attempt | None:
        """The last attempt that has ended, if it failed."""
        return latest_failure(self.attempts)

    @property
    def failing(self) -> str | None:
        """How the latest attempt failed, in words. None: it did not, or the compaction has ended."""
        return None if self.completed_at else failure_text(self.attempts)

    __repr__ = short_repr


class Holdings(msgspec.Struct, frozen=True):
    """What a partition holds in live segments, and how much of that readers see."""

    log_start_offset: int = 0  # as a reader sees it
    rows: int = 0
    bytes: int = 0
    logical_rows: int = 0  # at or above the log start offset
    logical_bytes: int = 0


class PartitionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did in a partition, and how it ended."""

    topic: str
    partition: int | None  # None: the topic cannot be read
    outcome: StepEnd
    detail: str  # why it ended there
    nothing_due: bool = False  # the pass left no debt
    jobs: tuple[CompactionInfo, ...] = ()
    last_job: str | None = None  # the one of `jobs` that the last step was about, and so `detail` too
    before: Holdings = Holdings()
    after: Holdings = Holdings()
    dropped_segments: int = 0  # retired without a job: they lay below the log start offset
    dropped_bytes: int = 0
    quarantined: bool = False  # a segment is damaged; nothing is compacted until a person lifts the quarantine
    fault: Fault | None = None  # that ended the pass here

    __repr__ = short_repr


class MaintenanceReport(msgspec.Struct, frozen=True, kw_only=True):
    partitions: tuple[PartitionReport, ...]
    more_work: bool  # something is left to do: a partition failed, waits or was stopped

    @property
    def jobs(self) -> tuple[CompactionInfo, ...]:
        return tuple(job for partition in self.partitions for job in partition.jobs)

    @property
    def ending(self) -> Ending:
        damaged = any(job.error is not None and job.error.damage for job in self.jobs)
        return ending_of(
            (partition.fault for partition in self.partitions),
            damaged=damaged or any(partition.quarantined for partition in self.partitions),
            failed=any(partition.outcome is StepEnd.FAILED for partition in self.partitions),
        )

    def __repr__(self) -> str:
        done = f"{counted(len(self.partitions), 'partition')}, {counted(len(self.jobs), 'job')}"
        return f"MaintenanceReport({done}, more_work={self.more_work})"


def unread_topic(topic: str, fault: Fault) -> PartitionReport:
    """The report of a topic that cannot be read, and with it none of its partitions."""
    return PartitionReport(topic=topic, partition=None, outcome=StepEnd.FAILED, detail=fault.text, fault=fault)


def compaction_id(topic: str, partition: int, job: str) -> str:
    return f"{topic}/{partition}/{job}"


def compaction_info(topic: str, partition: int, job: Job, now_ms: int) -> CompactionInfo:
    job = job if job.active else summed_up(job)
    sources = job.sources or job.requested
    return CompactionInfo(
        id=compaction_id(topic, partition, job.id),
        kind=job.kind,
        status=job.status,
        phase=_phase(job),
        origin=job.origin,
        reason=job.reason,
        chosen=job.chosen,
        ended_by=EndedBy(job.ended_by) if job.ended_by else None,
        cancel_requested=job.active and job.cancel_requested,
        sources=sources,
        total_sources=job.input_sources or len(sources),
        destination=told(job.home) if job.relocates else job.destination,
        attempts=job.attempts,
        progress=_progress(job, now_ms),
        counts=job.counts if not job.active else sum((d.counts for d in job.done), start=MergeCounts()),
        estimate=job.estimate,
        price=job.price,
        peak_memory_bytes=job.peak_memory_bytes,
        created_at=job.created_at_ms,
        started_at=job.started_at_ms,
        completed_at=job.completed_at_ms,
        error=job.error,
    )


def _phase(job: Job) -> Phase:
    if not job.active:
        return "done"
    if job.plan is None or not job.attempts:
        return "reading"
    return "committing" if len(job.done) == len(job.plan.ranges) else "writing"


def _progress(job: Job, now_ms: int) -> Progress:
    if not job.active or job.plan is None:
        total, done, inputs, size = job.ranges, job.ranges_done, job.input_segments, job.input_bytes
    else:
        total, done = len(job.plan.ranges), len(job.done)
        inputs, size = job.plan.input_segments, job.plan.input_bytes
    share = done / total if total else float(job.status == "completed")
    return Progress(
        input_segments_processed=int(inputs * share),
        total_input_segments=inputs,
        output_segments_written=job.output_segments if not job.active else len(job.outputs()),
        bytes_processed=int(size * share),
        ranges=total,
        ranges_done=done,
        completion_percentage=round(100 * share, 1),
        estimated_completion=_estimate(job, total - done, now_ms),
    )


def _estimate(job: Job, ranges_left: int, now_ms: int) -> int | None:
    running = next((a for a in job.attempts if a.ended_at_ms is None), None)
    if running is None or not running.ranges_done or not ranges_left:
        return None
    return now_ms + (now_ms - running.started_at_ms) * ranges_left // running.ranges_done
