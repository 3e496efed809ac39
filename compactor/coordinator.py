"""The compaction protocol of one partition: claim, admit, work, record, commit. Coroutines; P5 and P8-P14.

The order of writes is the protocol. Manifest before job state (P13); job before uploads (P10); progress before it
counts (P11). A coordinator acts only on what its own claim holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from lithify.compactor import jobs
from lithify.compactor.engine import (
    NextResults,
    Reserve,
    SplitRanges,
    StartTasks,
    StopAsked,
    StopTasks,
    TaskFailure,
    VerifyOutputs,
)
from lithify.compactor.estimate import estimate, target_bytes
from lithify.compactor.plan import choose_requested, fan_in, freeze, kind_of, offset_ranges, tasks
from lithify.compactor.policy import (
    Action,
    Admit,
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    decide,
    incumbent_lives,
    pinned_by,
)
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import Due, Unit, units
from lithify.manifest.edits import Claim, CommitCompaction, SetQuarantine
from lithify.manifest.floor import DropSegments
from lithify.manifest.jobs import CompactorState, Job, JobError, KeyRange, Kind, Origin, RangeDone, Status
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import retention_of
from lithify.segment.task import TaskResult
from lithify.store.errors import CommitUnknown, Corrupt, Fenced, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.port import NewId, Now, Pause

__all__ = ["Coordinator", "Outcome", "Step", "first_state"]

HEARTBEAT_MS = 10_000  # a third of the lease
PACE_MS = 1_000  # how often a throttled job looks whether it shall stop


Outcome = Literal["idle", "waiting", "standby", "worked", "failed", "stopped", "deferred"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step came to."""

    outcome: Outcome
    detail: str
    job: Job | None = None
    dropped: tuple[SegmentRef, ...] = ()  # retired without a job: they lay below the floor


class Coordinator:
    """Compacts one partition, as one owner. One coroutine at a time; `step` until it answers "idle"."""

    def __init__(self, files: PartitionFiles, worker: str) -> None:
        self.files = files
        self._worker = worker  # host:pid, for people
        self._epoch: int | None = None
        self._owner = ""
        self._polls = 0
        self.fenced = False  # another compactor took over; this one never claims the partition again (P5)

    @property
    def owns(self) -> bool:
        return self._epoch is not None and not self.fenced

    async def step(self, config: TopicConfig, take_over: bool = False) -> Step:
        """Do the next thing there is to do: one job at most. Raises Fenced, CommitUnknown, Unavailable, Corrupt."""
        try:
            return await self._step(config, take_over)
        except Fenced:
            self.fenced = True
            raise
        except CommitUnknown as error:
            if isinstance(error.__cause__, Fenced):
                self.fenced = True
                raise error.__cause__ from error
            # What was in flight is settled by the next claim: it reads both files anew under a new epoch (P14).
            self._epoch = None
            raise

    async def _step(self, config: TopicConfig, take_over: bool) -> Step:
        manifest, state = await self.files.head(), await self.files.compactor_state()
        now_ms = await Now()
        action = decide(manifest, state, config, now_ms)
        if isinstance(action, Wait):
            return _rest(action)
        input_bytes = _input_bytes(action, manifest)
        if input_bytes and not await Reserve(input_bytes):
            return Step("deferred", f"a job of {input_bytes} bytes waits until others of this compactor have finished")
        if self._epoch is None:
            theirs = state is not None and state.owner != self._owner
            if theirs and not take_over and incumbent_lives(state, now_ms):
                return Step("standby", f"{state.owner_name if state else ''} is at work here; waiting as a standby")
            await self._claim(manifest)
            manifest, state = await self.files.head(), await self.files.compactor_state()
            action = decide(manifest, state, config, await Now())
        match action:
            case Wait():
                return _rest(action)
            case Settle(job, status, reason, error):
                return await self._finish(job, status, reason, error)
            case Resume(job):
                return await self._work(manifest, job, config)
            case Admit(job):
                return await self._admit_requested(manifest, job, config)
            case Drop(due):
                return await self._drop(state, config, due)
            case Propose(due):
                kind: Kind = "clean" if due.kind == "clean" else "tier"
                return await self._start(manifest, config, due.units, kind, "scheduler", due.reason)

    async def _drop(self, state: CompactorState | None, config: TopicConfig, due: Due) -> Step:
        edit = DropSegments(self._mine, retention_of(config), pinned_by(state))
        gone = (await self.files.manifest.commit(edit)).result
        return Step("worked", f"retired {len(gone)} segments below the log start offset", dropped=gone)

    async def changed(self) -> bool:
        """Whether a new manifest, request or boundary may be there, for two GETs.

        Every second call looks at the boundary instead of the compactor's file: a coordinator that slept through a
        collection finds no next number, but a boundary that moved.
        """
        self._polls += 1
        other = self.files.boundary if self._polls % 2 else self.files.compactor
        return await self.files.manifest.moved() or await other.moved()

    async def still_waits(self, config: TopicConfig) -> Step | None:
        """What is known already still asks for nothing, at today's clock: idle. None: look again."""
        manifest, state = self.files.manifest.seen.value, self.files.compactor.seen.value
        if manifest is None:
            return None
        action = decide(manifest, state, config, await Now())
        return _rest(action) if isinstance(action, Wait) else None

    async def _claim(self, manifest: Manifest) -> None:
        """Manifest first, then `.compactor`. A crash between the two leaves an epoch nobody owns; the next claim
        takes the one after it."""
        epoch = (await self.files.manifest.commit(Claim())).result
        owner = await NewId()
        claim = jobs.ClaimState(first_state(manifest), epoch, owner, self._worker)
        await self.files.compactor.commit(claim)
        self._epoch, self._owner = epoch, owner

    @property
    def _mine(self) -> int:
        assert self._epoch is not None, "only a claimed partition is written to"
        return self._epoch

    async def _finish(self, job: Job, status: Status, reason: str, error: JobError | None = None) -> Step:
        committed = await self.files.compactor.commit(jobs.Finish(self._mine, job.id, status, reason, error))
        state = committed.version.value
        outcome = "failed" if status == "failed" else "worked"
        return Step(outcome, f"job {job.id} {status}: {reason}", state.job(job.id) if state else None)

    async def _admit_requested(self, manifest: Manifest, request: Job, config: TopicConfig) -> Step:
        """The compactor's last word on a manual request: run it, or end it with a status that says why."""
        try:
            chosen = choose_requested(manifest, request.requested, await Now(), config)
        except InvalidRequest as error:
            return await self._finish(request, "failed", str(error), JobError("invalid", str(error)))
        if not chosen:
            return await self._finish(request, "completed", "nothing to compact: no segment is old enough")
        kind = kind_of(manifest, config, chosen, await Now())
        reason = "asked for: full" if not request.requested else "asked for: by sources"
        return await self._start(manifest, config, chosen, kind, "manual", reason, request)

    async def _start(
        self,
        manifest: Manifest,
        config: TopicConfig,
        chosen: Sequence[Unit],
        kind: Kind,
        origin: Origin,
        reason: str,
        request: Job | None = None,
    ) -> Step:
        """Plan, admit and run a job over `chosen`; more inputs than one merge can hold are tiered first."""
        held = fan_in(chosen)
        if len(held) < len(chosen):
            reason = f"{len(chosen)} inputs are too many for one merge: the oldest {len(held)} are tiered first"
            chosen, kind, origin, request = held, "tier", "scheduler", None
        try:
            ranges = await self._split(chosen, config)
        except (Corrupt, NotFound) as error:
            return await self._quarantine(request, str(error), "", JobError("corrupt", str(error)))
        job = freeze(
            manifest,
            config,
            chosen,
            ranges,
            job_id=request.id if request else SegmentId.for_job(manifest.id, await NewId()),
            kind=kind,
            origin=origin,
            reason=reason,
            now_ms=await Now(),
        )
        job = replace(job, estimate=estimate(chosen, config, kind, self.files.compactor.seen.value))
        try:
            admitted = await self.files.compactor.commit(jobs.Admit(self._mine, job))
        except InvalidRequest as error:  # cancelled meanwhile: the next step settles it
            return Step("worked", str(error), job)
        state = admitted.version.value
        job = (state.job(job.id) if state else None) or job
        return await self._work(manifest, job, config)

    async def _split(self, chosen: Sequence[Unit], config: TopicConfig) -> tuple[KeyRange, ...]:
        total_bytes = sum(unit.bytes for unit in chosen)
        target = target_bytes(config, total_bytes)
        segments = tuple(segment for unit in chosen for segment in unit.segments)
        if not config.compacted:
            return offset_ranges(segments, target)
        if total_bytes <= target:
            return (KeyRange(),)
        return await SplitRanges(self.files.keys, segments, target)

    async def _work(self, manifest: Manifest, job: Job, config: TopicConfig) -> Step:
        """One attempt at an admitted job: what is recorded and intact is kept, the rest is done (P12)."""
        assert job.plan is not None
        live = {segment.id for segment in manifest.segments()}
        gone = [segment for segment in job.segments if segment not in live]
        if gone:
            text = f"{len(gone)} of its sources are no longer live ({gone[0]})"
            return await self._finish(job, "failed", text, JobError("invalid", text))
        number = max((a.number for a in job.attempts), default=0) + 1
        await self.files.compactor.commit(jobs.StartAttempt(self._mine, job.id, number, self._worker))
        keep = await self._intact(job)
        if len(keep) < len(job.done):
            await self.files.compactor.commit(jobs.Discard(self._mine, job.id, keep))
        pending = [index for index in range(len(job.plan.ranges)) if index not in keep]
        rate = config.compaction_throttle_bytes_per_second
        for wave in _waves(job, pending, rate):
            started_ms = await Now()
            ended = await self._run_tasks(manifest, job, number, wave)
            if ended is None and rate > 0 and wave[-1] != pending[-1]:
                ended = await self._pace(job, started_ms + _wave_bytes(job, wave) * 1000 // rate)
            if ended is not None:
                return ended
        return await self._complete(job, config)

    async def _run_tasks(self, manifest: Manifest, job: Job, number: int, indexes: Sequence[int]) -> Step | None:
        """The tasks of these ranges, to their end; a Step where the attempt ended with them."""
        await StartTasks(tasks(manifest, job, number, indexes), f"lithify {self.files.name} {job.kind} {job.id}")
        try:
            return await self._gather(job, number, set(indexes))
        except LithifyError:
            await StopTasks()
            raise

    async def _pace(self, job: Job, until_ms: int) -> Step | None:
        """Let time pass under a throttle, with signs of life; a Step where it is told to stop meanwhile."""
        beat_ms = await Now()
        while (now_ms := await Now()) < until_ms:
            if await StopAsked():
                return await self._rest_job(job, "is throttled")
            if now_ms - beat_ms >= HEARTBEAT_MS:
                await self.files.compactor.commit(jobs.Heartbeat(self._mine))
                beat_ms = now_ms
            await Pause(min(PACE_MS, until_ms - now_ms))
        return None

    async def _rest_job(self, job: Job, why: str) -> Step:
        state = (await self.files.compactor.commit(jobs.EndAttempt(self._mine, job.id, None))).version.value
        return Step("stopped", f"job {job.id} {why}; it goes on from what is recorded", state and state.job(job.id))

    async def _intact(self, job: Job) -> frozenset[int]:
        """The recorded ranges whose outputs are whole, by size and checksum; a long look shows signs of life."""
        intact: set[int] = set()
        beat_ms = await Now()
        for done in job.done:
            if not await VerifyOutputs(self.files.keys, done.outputs, whole=True):
                intact.add(done.index)
            if await Now() - beat_ms >= HEARTBEAT_MS:
                await self.files.compactor.commit(jobs.Heartbeat(self._mine))
                beat_ms = await Now()
        return frozenset(intact)

    async def _gather(self, job: Job, attempt: int, pending: set[int]) -> Step | None:
        """Record results as they land, until all have (None), or the attempt ends otherwise."""
        while pending:
            stop = await StopAsked()
            if stop:
                await StopTasks()
            results = await NextResults(0 if stop else HEARTBEAT_MS)
            failures = [r for r in results if isinstance(r, TaskFailure)]
            landed = [r for r in results if isinstance(r, TaskResult)]
            state = await self._record(job, attempt, landed)
            pending -= {r.range_index for r in landed}
            current = state.job(job.id) if state else None
            if not pending:
                return None
            if stop:
                return await self._rest_job(job, f"rests with {len(pending)} ranges to do")
            if failures:
                await StopTasks()
                return await self._failed(job, failures[0])
            if current is not None and current.cancel_requested:
                await StopTasks()
                return await self._finish(job, "cancelled", "cancelled on request")
        return None

    async def _record(self, job: Job, attempt: int, landed: list[TaskResult]) -> CompactorState | None:
        """Outputs that landed together share one write; with none, a heartbeat shows that the work goes on (P11)."""
        done = tuple(
            RangeDone(
                index=r.range_index,
                attempt=attempt,
                outputs=r.outputs,
                counts=r.counts,
                lost=r.lost,
                dropped_to=r.dropped_to,
                peak_memory_bytes=r.peak_memory_bytes,
            )
            for r in landed
        )
        edit = jobs.Record(self._mine, job.id, done) if done else jobs.Heartbeat(self._mine)
        return (await self.files.compactor.commit(edit)).version.value

    async def _failed(self, job: Job, failure: TaskFailure) -> Step:
        error = JobError(failure.category, failure.reason)
        if failure.category in ("corrupt", "missing"):
            return await self._quarantine(job, failure.reason, failure.segment, error)
        return await self._retry_later(job, error)

    async def _retry_later(self, job: Job, error: JobError) -> Step:
        """End the attempt as a failure; the policy tries the job again after a pause, or gives it up (P14)."""
        committed = await self.files.compactor.commit(jobs.EndAttempt(self._mine, job.id, error))
        state = committed.version.value
        return Step("failed", f"job {job.id}: {error.reason}; it will be tried again", state and state.job(job.id))

    async def _quarantine(self, job: Job | None, reason: str, segment: str, error: JobError) -> Step:
        """A source is corrupt or missing: surfaced, never skipped (R6). The job ends; its sources stay as they are
        until a person looked. The edit checks the epoch, so a compactor that lost its sources to another is fenced
        here instead."""
        await self.files.manifest.commit(SetQuarantine(self._mine, reason, segment))
        if job is None:
            return Step("failed", f"quarantined: {reason}")
        return await self._finish(job, "failed", reason, error)

    async def _complete(self, job: Job, config: TopicConfig) -> Step:
        """Verify, commit the manifest, then mark the job completed: in this order (P13)."""
        state = self.files.compactor.seen.value
        current = state.job(job.id) if state else None
        assert state is not None
        assert current is not None
        assert current.plan is not None
        outputs = current.outputs()
        bad = await VerifyOutputs(self.files.keys, outputs, whole=False)
        if bad:
            text = f"{len(bad)} recorded outputs are missing or damaged ({min(bad)})"
            return await self._retry_later(job, JobError("missing", text))
        active = {j.id for j in state.jobs}
        manifest = self.files.manifest.seen.value
        completed = () if manifest is None else manifest.completed_jobs
        commit = CommitCompaction(
            epoch=self._mine,
            job=job.id,
            segments=current.segments,
            run=SortedRun(id=current.destination, segments=outputs),
            coverage_offset=current.plan.rules.coverage_offset,
            clean=current.kind == "clean",
            forget=tuple(d.id for d in completed if d.id not in active),
            at_ms=await Now(),
            floor=current.plan.rules.floor,
            retention=retention_of(config),
            lost=current.lost(),
            dropped_to=max((done.dropped_to for done in current.done), default=0),
        )
        try:
            await self.files.manifest.commit(commit)
        except (InvalidRequest, NotFound) as error:
            return await self._finish(job, "failed", str(error), JobError("invalid", str(error)))
        except Unavailable as error:
            return await self._retry_later(job, JobError("unavailable", str(error)))
        return await self._finish(job, "completed", current.reason)


def _input_bytes(action: Action, manifest: Manifest) -> int:
    """What the job of `action` reads, 0 where it is none; of a request, all that it could name."""
    match action:
        case Propose(due):
            return sum(unit.bytes for unit in due.units)
        case Resume(job):
            return 0 if job.plan is None else job.plan.input_bytes
        case Admit(request):
            named = set(request.requested)
            return sum(u.bytes for u in units(manifest) if not named or u.id in named)
        case _:
            return 0


def _wave_bytes(job: Job, indexes: Sequence[int]) -> int:
    assert job.plan is not None
    return job.plan.input_bytes * len(indexes) // len(job.plan.ranges)


def _waves(job: Job, pending: Sequence[int], rate: int) -> list[Sequence[int]]:
    """All ranges at once; under a throttle as many at a time as take about ten seconds of it."""
    if rate <= 0 or not pending:
        return [pending] if pending else []
    size = max(rate * HEARTBEAT_MS // 1000 // max(_wave_bytes(job, pending[:1]), 1), 1)
    return [pending[at : at + size] for at in range(0, len(pending), size)]


def _rest(wait: Wait) -> Step:
    return Step("idle" if wait.until_ms is None else "waiting", wait.reason)


def first_state(manifest: Manifest) -> CompactorState:
    """The state before any: at the manifest's epoch, owned by nobody (P15)."""
    return CompactorState(
        format=FORMAT,
        topic=manifest.topic,
        topic_id=manifest.topic_id,
        partition=manifest.partition,
        epoch=manifest.compactor_epoch,
    )
