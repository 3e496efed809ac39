"""The edits of a `.compactor` file: claims, requests, admission, attempts, progress, ends. Pure (P5, P8-P15).

Every one carries its maker's epoch. Requests, which anyone may make, are in lithify.compactor.request_edits.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.compactor.failures import (
    away_after,
    counted_after,
    failure_of,
    given_up_after,
    is_in_vain,
    runs_alone,
    source_set,
)
from lithify.compactor.requested import after_merge
from lithify.compactor.waves import paced_to_ms
from lithify.manifest.categories import Category, EndedBy
from lithify.manifest.claims import fenced
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import (
    ATTEMPTS_KEPT,
    HISTORY_MAX,
    IN_PROGRESS_MAX,
    Attempt,
    CompactorState,
    Ended,
    Job,
    JobError,
    MergeCounts,
    RangeDone,
    Status,
    discarded,
    recorded,
    summed_up,
)
from lithify.store.errors import Fenced, InvalidRequest, NotFound, Unavailable

__all__ = [
    "Admit",
    "ClaimState",
    "Discard",
    "EndAttempt",
    "EndPlanning",
    "Finish",
    "Heartbeat",
    "Leave",
    "Record",
    "ShowPlanning",
    "StartAttempt",
]

Verdict = Next[CompactorState, None] | Already[None] | Refused


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The second half of a claim: write the epoch that the manifest gave into the next `.compactor` (P5).

    It expects a smaller stored epoch, and carries every job over. SUBTLE! 1. This claim writes epoch 5 into the
    manifest. 2. An admin finds no `.compactor` and writes number 1 at the manifest's epoch, 5, with no owner. 3. This
    claim finds its own epoch stored. Nobody else can own it, so the claim takes it. Test:
    tests/protocol/test_p05_fencing.py
    """

    first: CompactorState  # an empty state of this partition, for the very first claim
    epoch: int
    owner: str  # the coordinator's nonce, the same if it claims again after an unknown outcome
    owner_name: str

    repeatable = True  # by epoch and owner
    frees = True

    def apply(self, head: CompactorState | None, number: int, now_ms: int) -> Verdict:
        base = head or self.first
        if base.epoch == self.epoch and base.owner == self.owner:
            return Already(None)
        if base.epoch > self.epoch or (base.epoch == self.epoch and base.owner):
            return Refused(Fenced(f"{base.topic}/{base.partition}: another compactor claimed epoch {base.epoch} first"))
        state = base
        for job in base.jobs:  # the former owner's attempts ended with its epoch
            state = _interrupt(state, job, now_ms) if base.owner == self.owner else _abandon(state, job, now_ms)
        state = replace(
            state,
            epoch=self.epoch,
            owner=self.owner,
            owner_name=self.owner_name,
            planning=True,  # something is due, or it would not claim
            heartbeat_at_ms=now_ms,
            history=tuple(map(summed_up, state.history)),  # an earlier release kept finished jobs whole
        )
        return Next(state, None)


def _abandon(state: CompactorState, job: Job, now_ms: int) -> CompactorState:
    """End the attempts of `job` that another owner left open.

    An attempt that recorded nothing counts as one under which the engine died; if it ran alone, as a failure. Otherwise
    a job that kills its compactor would be tried for ever (P14). The next attempt need not wait.
    """
    failures = state.failures
    if is_in_vain(job):
        category = Category.ENGINE if runs_alone(failure_of(state, job.segments)) else Category.ENGINE_LOST
        error = JobError(category, f"{state.owner_name or 'its compactor'} stopped without recording why")
        failures = counted_after(state, job, error, now_ms, wait=False)
    ended = _end_attempts(job, now_ms)
    ended = replace(ended, failed_attempts=job.failed_attempts + (ended.attempts != job.attempts))
    return replace(state, jobs=_with(state.jobs, ended), failures=failures)


def _interrupt(state: CompactorState, job: Job, now_ms: int) -> CompactorState:
    """End the attempts of `job` that the same coordinator began: it lives, but could not write down how they ended."""
    error = JobError(Category.UNAVAILABLE, "its outcome could not be recorded: the store did not answer")
    failures = counted_after(state, job, error, now_ms) if is_in_vain(job) else state.failures
    return replace(state, jobs=_with(state.jobs, _end_attempts(job, now_ms, error)), failures=failures)


def _end_attempts(job: Job, now_ms: int, error: JobError | None = None) -> Job:
    attempts = tuple(
        a if a.ended_at_ms is not None else replace(a, ended_at_ms=now_ms, error=error) for a in job.attempts
    )
    return replace(job, attempts=attempts)


def _count(state: CompactorState, status: Status) -> int:
    return sum(job.status == status for job in state.jobs)


def _with(jobs: tuple[Job, ...], changed: Job) -> tuple[Job, ...]:
    return tuple(changed if job.id == changed.id else job for job in jobs)


@dataclass(frozen=True, slots=True)
class _Owned:
    """An edit by the holder of `epoch`: refused as fenced if another holds it now (P5); else `change` decides."""

    epoch: int
    frees = False  # unless it says otherwise

    def apply(self, head: CompactorState | None, number: int, now_ms: int) -> Verdict:
        if head is None:
            return Refused(NotFound("the compactor's state is gone"))
        lost = fenced(head.topic, head.partition, head.epoch, self.epoch)
        return self.change(head, now_ms) if lost is None else Refused(lost)

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Heartbeat(_Owned):
    """A sign of life while a job runs; recording progress is one too."""

    repeatable = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        return Next(replace(head, heartbeat_at_ms=now_ms), None)


@dataclass(frozen=True, slots=True)
class ShowPlanning(_Owned):
    """A sign of life while a job is planned: reading the footers of its sources may take longer than a lease.

    The mark ends when an attempt begins, a job ends, or there was nothing to do; a dead owner's mark ends with its
    lease.
    """

    repeatable = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        return Next(replace(head, planning=True, heartbeat_at_ms=now_ms), None)


@dataclass(frozen=True, slots=True)
class EndPlanning(_Owned):
    """The owner has stopped planning: a standby need not wait for its lease."""

    repeatable = True
    frees = True  # once for each mark

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        return Next(replace(head, planning=False), None) if head.planning else Already(None)


class Leave(_Owned):
    """The owner is about to end: whoever comes next claims at once, and waits for no lease (P5).

    Its epoch stays, so what it wrote before is still its own; its name stays, for people. Not while an attempt is open:
    then it did not end as it should, and its lease says how long others wait.
    """

    repeatable = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        if not head.owner or any(a.ended_at_ms is None for job in head.jobs for a in job.attempts):
            return Already(None)
        return Next(replace(head, owner="", planning=False), None)


@dataclass(frozen=True, slots=True)
class Admit(_Owned):
    """Freeze a job's sources and plan before anything of it is uploaded (P8, P9, P10), and begin its first attempt.

    The planner has checked the sources against the manifest; here they are checked against every other job.
    """

    job: Job  # in progress, with plan, sources, segments, destination
    worker: str = ""  # who begins the attempt; "": that is a write of its own

    repeatable = True  # by the job id

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        known = head.job(self.job.id)
        if known is not None and known.status != "submitted":
            return Already(None)
        if known is not None and known.cancel_requested:
            return Refused(InvalidRequest(f"job {self.job.id}: its cancellation was requested in the meantime"))
        taken = {s for job in head.jobs if job.id != self.job.id and job.plan is not None for s in job.segments}
        shared = taken & set(self.job.segments)
        if shared:
            return Refused(InvalidRequest(f"job {self.job.id}: segment {min(shared)} is in another active job"))
        if _count(head, "in_progress") >= IN_PROGRESS_MAX:
            where = f"{head.topic}/{head.partition}"
            return Refused(Unavailable(f"{where} has {IN_PROGRESS_MAX} jobs in progress, its limit"))
        # What was requested, and when, stays as it was written down.
        created_ms, requested = (now_ms, ()) if known is None else (known.created_at_ms, known.requested)
        job = replace(
            self.job, status="in_progress", started_at_ms=now_ms, created_at_ms=created_ms, requested=requested
        )
        jobs = (*head.jobs, job) if known is None else _with(head.jobs, job)
        # A manual request clears earlier failures; else an interrupted attempt would meet the old limit and give up
        # untried.
        forgiven = source_set(job.segments) if job.origin == "manual" else ""
        failures = tuple(f for f in head.failures if f.sources != forgiven)
        state = replace(head, jobs=jobs, failures=failures, planning=True, heartbeat_at_ms=now_ms)
        state = replace(state, format=max(state.format, state.format_needed))
        if not self.worker:
            return Next(state, None)  # until its attempt begins this counts as planning
        return StartAttempt(self.epoch, job.id, job.last_attempt + 1, self.worker).change(state, now_ms)


@dataclass(frozen=True, slots=True)
class StartAttempt(_Owned):
    """Every start of work, resumes included, is a new attempt; its number goes into the names of its outputs (P10)."""

    job: str
    number: int
    worker: str

    repeatable = True  # by the attempt's number

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        job = head.job(self.job)
        if job is None or job.status != "in_progress":
            return Refused(InvalidRequest(f"job {self.job} is not in progress"))
        if any(a.number == self.number for a in job.attempts):
            return Already(None)
        head = _interrupt(head, job, now_ms)  # the claim has ended those of other owners
        job = next(j for j in head.jobs if j.id == self.job)
        attempt = Attempt(number=self.number, epoch=self.epoch, worker=self.worker, started_at_ms=now_ms)
        job = replace(job, attempts=(*job.attempts, attempt)[-ATTEMPTS_KEPT:])
        return Next(replace(head, jobs=_with(head.jobs, job), planning=False, heartbeat_at_ms=now_ms), None)


@dataclass(frozen=True, slots=True)
class Discard(_Owned):
    """Take back recorded ranges whose outputs are missing or damaged: all except `keep` are done again (P12)."""

    job: str
    keep: frozenset[int]

    repeatable = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        job = head.job(self.job)
        if job is None or all(d.index in self.keep for d in job.done):
            return Already(None)
        job = discarded(job, self.keep)
        return Next(replace(head, jobs=_with(head.jobs, job), heartbeat_at_ms=now_ms), None)


@dataclass(frozen=True, slots=True)
class Record(_Owned):
    """Finished ranges become progress (P11), which clears earlier failures (P14)."""

    job: str
    done: tuple[RangeDone, ...]

    repeatable = True  # by the ranges' indexes
    frees = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        job = head.job(self.job)
        if job is None or job.status != "in_progress":
            return Refused(InvalidRequest(f"job {self.job} is not in progress"))
        known = {d.index for d in job.done}
        fresh = tuple(d for d in self.done if d.index not in known)
        if not fresh:
            return Already(None)
        attempts = tuple(
            replace(a, ranges_done=a.ranges_done + len(fresh)) if a.ended_at_ms is None else a for a in job.attempts
        )
        job = replace(recorded(job, fresh), attempts=attempts)
        failures = tuple(f for f in head.failures if f.sources != source_set(job.segments))
        return Next(replace(head, jobs=_with(head.jobs, job), failures=failures, heartbeat_at_ms=now_ms), None)


@dataclass(frozen=True, slots=True)
class EndAttempt(_Owned):
    """The running attempt ended: cleanly (`error` None; the job waits to be resumed), or with a failure."""

    job: str
    error: JobError | None

    repeatable = True
    frees = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        job = head.job(self.job)
        if job is None or not any(a.ended_at_ms is None for a in job.attempts):
            return Already(None)
        failures, ended = head.failures, _end_attempts(job, now_ms, self.error)
        if self.error is not None:
            failures = counted_after(head, job, self.error, now_ms)
            # An engine or store that is down for a week is no failure of the job.
            ended = replace(ended, failed_attempts=job.failed_attempts + self.error.blames_job)
        return Next(replace(head, jobs=_with(head.jobs, ended), failures=failures), None)


@dataclass(frozen=True, slots=True)
class Finish(_Owned):
    """Make a job terminal and move it to the history. Only the owner of the epoch may (P15).

    Requires, for "completed": the manifest's commit of the job (P13: manifest first). `divided`: those of its sources
    of which the manifest still holds a part.
    """

    job: str
    status: Ended
    reason: str
    error: JobError | None = None
    rate: int = -1  # the throttle, in bytes per second; -1: none
    divided: frozenset[str] = frozenset()
    ended_by: str = ""  # an EndedBy

    repeatable = True
    frees = True

    def change(self, head: CompactorState, now_ms: int) -> Verdict:
        job = head.job(self.job)
        if job is None or not job.active:
            return Already(None)
        counts = sum((d.counts for d in job.done), start=MergeCounts())
        outputs = job.outputs()
        finished = replace(
            _end_attempts(job, now_ms, self.error),
            status=self.status,
            reason=self.reason,
            chosen=job.reason if self.reason != job.reason else "",
            ended_by=self.ended_by,
            error=self.error,
            completed_at_ms=now_ms,
            paced_to_ms=paced_to_ms(job.started_at_ms, counts.bytes_read, self.rate),
            counts=counts,
            peak_memory_bytes=max((d.peak_memory_bytes for d in job.done), default=0),
            output_segments=len(outputs),
            output_bytes=sum(ref.bytes for ref in outputs),
        )
        history = (*head.history, summed_up(finished))[-HISTORY_MAX:]
        jobs = tuple(j for j in head.jobs if j.id != job.id)
        if self.status == "completed":
            jobs = tuple(after_merge(each, job, self.divided) for each in jobs)
        failures = given_up_after(head, job, self.error, now_ms)
        if self.error is not None and self.ended_by == EndedBy.HOME:
            failures = away_after(head, job, self.error, now_ms)
        state = replace(head, jobs=jobs, history=history, failures=failures, planning=False, heartbeat_at_ms=now_ms)
        return Next(replace(state, format=state.format_needed), None)
