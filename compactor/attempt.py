"""One attempt at an admitted job: keep what is recorded and intact, do the rest, then commit (P10-P14).

The order of writes is the protocol. Manifest before job state (P13); progress before it counts (P11).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lithify.compactor import job_edits
from lithify.compactor.altered import outdated
from lithify.compactor.damage import first_damaged
from lithify.compactor.engine import NextResults, NoWorkers, StartTasks, StopAsked, StopTasks
from lithify.compactor.failures import failure_of, met
from lithify.compactor.look import OUTPUTS_A_LOOK, Found, bad_outputs, look
from lithify.compactor.own_home import home_refuses
from lithify.compactor.patience import patience_ms, stalled_text
from lithify.compactor.plan import sources_of, tasks, tasks_label
from lithify.compactor.progress import HEARTBEAT_MS, may_wait, record, record_last
from lithify.compactor.relocating import gives_way
from lithify.compactor.step import Step, StepEnd
from lithify.compactor.waves import wave_bytes, waves
from lithify.compactor.wishes import Interrupted, heed, heed_cancel
from lithify.manifest.ages import young
from lithify.manifest.categories import Category, EndedBy
from lithify.manifest.commit import Lineage
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.config import LONG_MAX, TopicConfig, parse
from lithify.manifest.edits import Refused
from lithify.manifest.homes import where
from lithify.manifest.jobs import Ended, Job, JobError
from lithify.manifest.model import Manifest, SegmentRef, SortedRun, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import SetQuarantine
from lithify.manifest.relocations import CommitRelocation, UseHome
from lithify.segment.task import TaskFailure, TaskResult
from lithify.store.errors import CommitUnknown, Fenced, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.port import Now, Pause

__all__ = ["JobWork"]

ALTERATIONS_MAX = 10  # alterations of the topic during one commit; after that the job is tried again later
PACE_MS = 1_000  # how often a throttled job checks whether it should stop


@dataclass(frozen=True, slots=True)
class JobWork:
    """What the holder of `epoch` does with jobs of a partition."""

    files: PartitionFiles
    epoch: int
    worker: str  # host:pid, for people
    config: TopicConfig  # as read at the beginning of the step
    topic: Lineage[TopicFile]  # to see whether it was altered meanwhile

    async def run(self, manifest: Manifest, job: Job) -> Step:
        """One attempt at an admitted job: what is recorded and intact is kept, the rest is done (P12)."""
        assert job.plan is not None
        live = {segment.id for segment in manifest.segments()}
        gone = [segment for segment in job.segments if segment not in live]
        if gone:
            text = f"{len(gone)} of its sources are no longer live ({gone[0]})"
            return await self.finish(job, "failed", text, JobError(Category.INVALID, text))
        altered = outdated(job, sources_of(manifest, job), self.config, await Now())
        if altered is not None:
            return await self._end_altered(job, altered)
        number = job.last_attempt + 1
        await self.files.compactor.commit(job_edits.StartAttempt(self.epoch, job.id, number, self.worker))
        return await self._tried(manifest, job, number)

    async def begun(self, manifest: Manifest, job: Job) -> Step:
        """The first attempt at a job, which was begun by the write that admitted it."""
        return await self._tried(manifest, job, job.last_attempt)

    async def _tried(self, manifest: Manifest, job: Job, number: int) -> Step:
        try:
            return await self._attempt(manifest, job, number)
        except (Fenced, CommitUnknown):
            raise
        except Unavailable as error:
            # SUBTLE! One of our own requests was not answered, or refused. End the attempt: an open one looks as if it
            # had killed its compactor. Ten such minutes, and a healthy job would be given up with all that it has
            # recorded (P14).
            # Test: tests/protocol/test_p14_attempts.py
            return await self._retry_later(job, met(error))
        except LithifyError as error:
            # A numbered file is damaged, or written by a later release. A person must look; the job is not to blame.
            await self._retry_later(job, met(error))
            raise

    async def _attempt(self, manifest: Manifest, job: Job, number: int) -> Step:
        try:
            return await self._do(manifest, job, number)
        except Interrupted as wish:
            return await (self._cancel(job) if wish.cancelled else self._rest_job(job))

    async def _do(self, manifest: Manifest, job: Job, number: int) -> Step:
        """Raises Interrupted."""
        assert job.plan is not None
        keep = await self._intact(job)
        if len(keep) < len(job.done):
            await self.files.compactor.commit(job_edits.Discard(self.epoch, job.id, keep))
        pending = [index for index in range(len(job.plan.ranges)) if index not in keep]
        if pending and job.relocates:
            if number > 1:  # since it was planned, the home may have been unmounted, or adopted by another
                refused = await home_refuses(self.files.keys, job.home)
                if refused is not None:
                    return await self._retry_later(job, refused)
            noted = await self.files.manifest.offer(UseHome(self.epoch, job.home))
            if isinstance(noted, Refused):
                return await self._refused(job, noted.error)
        rate = self.config.compaction_throttle_bytes_per_second
        found = Found()
        for wave in waves(job, pending, rate):
            await heed(self.files, job.id)
            started_ms = await Now()
            ended = await self._run_tasks(manifest, job, number, wave)
            if isinstance(ended, Step):
                return ended
            found = ended
            if rate > 0 and wave[-1] != pending[-1]:
                await self._pace(job, started_ms, wave_bytes(job, wave) * 1000 // rate)
        return await self._complete(manifest, job, found, topic_read=bool(pending))

    async def _end_altered(self, job: Job, why: str) -> Step:
        """Cancel the job; it has not failed. What is due is planned anew, by today's rules (P9, P14)."""
        text = f"the topic was altered: {why}; what is due will be planned again"
        return await self.finish(job, "cancelled", text, JobError(Category.ALTERED, text), EndedBy.ALTERATION)

    async def _end_deleted(self, job: Job, text: str = "the topic was deleted") -> Step:
        return await self.finish(job, "cancelled", text, ended_by=EndedBy.DELETION)

    async def _run_tasks(self, manifest: Manifest, job: Job, number: int, indexes: Sequence[int]) -> Step | Found:
        """Run the tasks of these ranges to their end. Returns a Step if that ended the attempt, else those
        outputs that were looked at beside their record, and are whole."""
        try:
            await StartTasks(tasks(manifest, job, number, indexes), tasks_label(self.files.name, job))
        except (InvalidRequest, Unavailable) as error:  # whatever is wrong there, it is not the job (P14)
            return await self._retry_later(job, met(error, "engine"))
        try:
            return await self._gather(job, number, set(indexes))
        except LithifyError:
            await StopTasks()
            raise

    async def _show_life(self) -> None:
        """Write a heartbeat if the latest sign of life is an interval old, or from a clock that was ahead (P5)."""
        state = self.files.compactor.seen.value
        if state is None or not young(state.heartbeat_at_ms, await Now(), HEARTBEAT_MS):
            await self.files.compactor.commit(job_edits.Heartbeat(self.epoch))

    async def _go_on(self, job: Job) -> None:
        """Called between the steps of long work: show life, and heed requests to stop. Raises Interrupted."""
        await self._show_life()
        await heed(self.files, job.id)

    async def _pace(self, job: Job, started_ms: int, span_ms: int) -> None:
        """Let `span_ms` pass after `started_ms`, under a throttle."""
        while young(started_ms, now_ms := await Now(), span_ms):
            await self._go_on(job)
            await Pause(min(PACE_MS, started_ms + span_ms - now_ms))

    async def _rest_job(self, job: Job) -> Step:
        state = (await self.files.compactor.commit(job_edits.EndAttempt(self.epoch, job.id, None))).version.value
        return Step(
            StepEnd.STOPPED, f"job {job.id} rests; it resumes from what is recorded", state and state.job(job.id)
        )

    async def _cancel(self, job: Job) -> Step:
        return await self.finish(job, "cancelled", "cancelled on request", ended_by=EndedBy.REQUEST)

    async def _intact(self, job: Job) -> frozenset[int]:
        """The recorded ranges whose outputs are whole, by size and checksum. Shows life while it reads."""
        intact: set[int] = set()
        for done in job.done:
            if not await look(self.files.keys, done.outputs, lambda: self._go_on(job), whole=True):
                intact.add(done.index)
            await self._go_on(job)
        return frozenset(intact)

    async def _gather(self, job: Job, attempt: int, pending: set[int]) -> Step | Found:
        """Record results as they land. A Step: the attempt ended before all had. Else as `_run_tasks`."""
        patience = self._patience_ms(job) // HEARTBEAT_MS
        waited = 0  # counted in looks, so that a clock jump cannot end the attempt
        held: list[TaskResult] = []  # landed, not recorded yet
        while pending:
            stop = await StopAsked()
            if stop:
                await StopTasks()
            try:
                results = await NextResults(0 if stop else HEARTBEAT_MS)
            except Unavailable as error:
                await StopTasks()
                if held:
                    await record(self.files, self.epoch, job, attempt, held)
                away = isinstance(error, NoWorkers)  # nothing died with it
                category = Category.ENGINE_DOWN if away else Category.ENGINE_LOST
                return await self._retry_later(job, JobError(category, str(error)))
            failures = [r for r in results if isinstance(r, TaskFailure)]
            held += [r for r in results if isinstance(r, TaskResult)]
            waited = 0 if results else waited + 1
            ends = stop or failures or len(held) == len(pending)
            if not ends and results and may_wait(self.files.compactor.seen.value, job, len(held), await Now()):
                continue
            if len(held) == len(pending):
                return await record_last(self.files, self.topic, self.epoch, job, attempt, held)
            state = await record(self.files, self.epoch, job, attempt, held)
            pending -= {r.range_index for r in held}
            held = []
            current = state.job(job.id) if state else None
            ended = await self._ended(job, current, len(pending), failures, stop=stop, stalled=waited >= patience)
            if ended is not None:
                return ended
        return Found()

    async def _ended(
        self, job: Job, current: Job | None, pending: int, failures: Sequence[TaskFailure], *, stop: bool, stalled: bool
    ) -> Step | None:
        """How the attempt ends while `pending` ranges are left to do. None: it continues."""
        if stop:
            return await self._rest_job(job)
        if failures:
            await StopTasks()
            # A failure of the job's own says more than the death of the engine, which it may have caused.
            own = (f for f in failures if f.category.blames_job and f.category != Category.ENGINE_LOST)
            return await self._failed(job, next(own, failures[0]))
        if current is not None and current.cancel_requested:
            await StopTasks()
            return await self._cancel(job)
        if stalled:
            await StopTasks()
            text = stalled_text(job, pending, self._patience_ms(job))
            return await self._retry_later(job, JobError(Category.STALLED, text))
        return None

    def _patience_ms(self, job: Job) -> int:
        state = self.files.compactor.seen.value
        return patience_ms(job, None if state is None else failure_of(state, job.segments))

    async def _failed(self, job: Job, failure: TaskFailure) -> Step:
        if failure.category.damage:
            return await self._read_damaged(job, failure)
        return await self._retry_later(job, JobError(failure.category, failure.reason))

    async def _read_damaged(self, job: Job, failure: TaskFailure) -> Step:
        """A worker found a source damaged or missing. Reads it again from the store before anything follows (R6)."""
        head = self.files.manifest.seen.value
        held = {failure.segment} if failure.segment else set(job.segments)
        suspects = tuple(s for s in (() if head is None else head.segments()) if s.id in held)
        damaged = await first_damaged(self.files.keys, suspects, lambda: self._go_on(job))
        if damaged is None:
            text = f"{failure.reason}; but it was read again and is whole, so the reply was damaged on its way"
            return await self._retry_later(job, JobError(Category.ENGINE, text))
        key, missing = where(self.files.keys, damaged).key, failure.category == Category.MISSING
        reason = f"segment {key} is missing: restore the object from a copy" if missing else failure.reason
        return await self.quarantine(job, reason, damaged.id, JobError(failure.category, reason))

    async def _retry_later(self, job: Job, error: JobError) -> Step:
        """End the attempt as a failure; the policy tries again after a pause, or gives up (P14). Or end the job."""
        if gives_way(job, self.files.manifest.seen.value, self.files.compactor.seen.value, error):
            return await self.finish(job, "failed", f"{error.reason}; it will be planned again", error, EndedBy.HOME)
        state = (await self.files.compactor.commit(job_edits.EndAttempt(self.epoch, job.id, error))).version.value
        told = f"job {job.id}: {error.reason}; it will be tried again"
        return Step(StepEnd.FAILED, told, state and state.job(job.id))

    async def _complete(self, merged: Manifest, job: Job, found: Found, *, topic_read: bool) -> Step:
        """Verify the outputs, commit the manifest, then mark the job completed, in this order (P13). `merged`: the
        manifest that the tasks read. `found`: outputs that were looked at beside their record. `topic_read`:
        just now, so it is read again only after a long verification.

        SUBTLE! 1. This attempt reads the topic's configuration, version 5. 2. A client alters the topic: version 6. 3.
        The commit would drop by the rules of 5, or move to its cold home. Therefore the commit names the version that
        it read, and a manifest that is at a later one refuses it; then the configuration is read again. Tests:
        tests/protocol/test_p09_frozen_plan.py, tests/compactor/test_altered_beside_a_commit.py
        """
        state = self.files.compactor.seen.value
        current = state.job(job.id) if state else None
        assert state is not None
        assert current is not None
        assert current.plan is not None
        outputs = current.outputs()
        whole = found.lately(await Now())
        unseen = [output for output in outputs if output.id not in whole]
        if unseen:
            await self._go_on(job)
        bad = await bad_outputs(self.files.keys, unseen, lambda: self._go_on(job))
        heed_cancel(self.files, job.id)
        if bad:
            text = f"{len(bad)} recorded outputs are missing or damaged ({min(bad)})"
            return await self._retry_later(job, JobError(Category.OUTPUT_LOST, text))
        active = {j.id for j in state.jobs}
        manifest = self.files.manifest.seen.value
        completed = () if manifest is None else manifest.completed_jobs
        forget = tuple(d.id for d in completed if d.id not in active)
        sources, known = sources_of(merged, current), topic_read and len(unseen) <= OUTPUTS_A_LOOK
        if current.relocates:
            refused = await self._home_refuses(current)
            if refused is not None:
                return await self._retry_later(current, refused)
            copies = tuple((current.segments[done.index], done.outputs[0]) for done in current.done)
            move = CommitRelocation(self.epoch, current.id, copies, forget)
            return await self._commit(current, move, sources, known=known)
        commit = CommitCompaction(
            epoch=self.epoch,
            job=job.id,
            segments=current.segments,
            run=SortedRun(id=current.destination, segments=outputs),
            coverage_offset=current.plan.rules.coverage_offset,
            clean=current.plan.rules.cleans,
            forget=forget,
            floor=current.plan.rules.floor,
            lost=current.lost(),
            sizes=current.sizes(),
            dropped_to=max((done.dropped_to for done in current.done), default=0),
        )
        return await self._commit(current, commit, sources, known=known)

    async def _home_refuses(self, job: Job) -> JobError | None:
        """SUBTLE! 1. The home is asked whose it is. 2. Its disk is unmounted. 3. A worker copies into the empty mount
        point, where the copies are found again. 4. They are committed, and the originals collected: all is lost once
        the disk is back. Therefore the home is asked again. Test: tests/e2e/test_unmounted_home.py
        """
        return await home_refuses(self.files.keys, job.home)

    async def _commit(
        self, job: Job, commit: CommitCompaction | CommitRelocation, sources: Sequence[SegmentRef], *, known: bool
    ) -> Step:
        for left in reversed(range(ALTERATIONS_MAX)):
            in_force = self._config_in_force((self.topic.seen if known else await self.topic.refresh()).value)
            known = False
            if in_force is None:
                return await self._end_deleted(job)
            config, config_at = in_force
            altered = outdated(job, sources, config, await Now())
            if altered is not None:
                return await self._end_altered(job, altered)
            committed = await self.files.manifest.offer(replace(commit, config_at=config_at))
            if not isinstance(committed, Refused):
                return await self.finish(job, "completed", job.reason)
            head = self.files.manifest.seen.value
            if head is None or head.config_at <= config_at or not left:
                return await self._refused(job, committed.error)
        raise AssertionError("it ended at the last check")

    async def _refused(self, job: Job, refusal: LithifyError) -> Step:
        if isinstance(refusal, NotFound):
            return await self._end_deleted(job)
        # Give up what was recorded only for a final refusal by the edit itself, not because the store refused.
        if isinstance(refusal, InvalidRequest):
            return await self.finish(job, "failed", str(refusal), JobError(Category.INVALID, str(refusal)))
        raise refusal

    def _config_in_force(self, topic: TopicFile | None) -> tuple[TopicConfig, int] | None:
        """The configuration and its version. None: the topic was deleted, and another one has its name."""
        if topic is None:
            return self.config, LONG_MAX
        return (parse(topic.config), topic.id) if topic.topic_id == self.files.keys.topic_id else None

    async def quarantine(self, job: Job | None, reason: str, segment: str, error: JobError) -> Step:
        """A source is corrupt or missing: report it, never skip it (R6). The job ends; its sources stay as they are
        until a person has looked.

        The edit checks the epoch: a compactor that lost its sources to another one is fenced here instead. If the topic
        was deleted, the sources were collected and nothing is wrong.
        """
        try:
            await self.files.manifest.commit(SetQuarantine(self.epoch, reason, segment))
        except NotFound as gone:
            return Step(StepEnd.IDLE, str(gone)) if job is None else await self._end_deleted(job, str(gone))
        if job is None:
            return Step(StepEnd.FAILED, f"quarantined: {reason}")
        return await self.finish(job, "failed", reason, error)

    async def finish(
        self, job: Job, status: Ended, reason: str, error: JobError | None = None, ended_by: str = ""
    ) -> Step:
        rate = self.config.compaction_throttle_bytes_per_second
        head = self.files.manifest.seen.value
        left = frozenset(run.id for run in (() if head is None else head.runs)).intersection(job.sources)
        edit = job_edits.Finish(self.epoch, job.id, status, reason, error, rate, left, ended_by)
        committed = await self.files.compactor.commit(edit)
        state = committed.version.value
        outcome = StepEnd.FAILED if status == "failed" else StepEnd.WORKED
        return Step(outcome, f"job {job.id} {status}: {reason}", state.job(job.id) if state else None)
