"""The compaction protocol of one partition: claim, admit, work, record, commit. Coroutines; P5 and P8-P14.

The order of writes is the protocol. Manifest before job state (P13); job before uploads (P10); progress before it
counts (P11). A coordinator acts only on what its own claim holds.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lithify.compactor import jobs
from lithify.compactor.attempt import HEARTBEAT_MS, JobWork, Step
from lithify.compactor.damage import first_damaged
from lithify.compactor.engine import Reserve, SplitRanges, WeighSegment
from lithify.compactor.estimate import estimate, target_bytes
from lithify.compactor.failures import failure_of, is_in_vain, runs_alone
from lithify.compactor.plan import choose_requested, freeze, kind_of, offset_ranges
from lithify.compactor.policy import (
    Action,
    Admit,
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    decide,
    given_up_first,
    incumbent_lives,
    no_room,
    pinned_by,
    segments_of,
    tiered_first,
)
from lithify.manifest.ages import young
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.commit import FRESH_MS, Refused
from lithify.manifest.config import TopicConfig
from lithify.manifest.edits import Claim
from lithify.manifest.floor import DropSegments
from lithify.manifest.jobs import CompactorState, Job, JobError, KeyRange, Kind, Origin
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.units import Unit, units
from lithify.manifest.words import counted
from lithify.store.errors import CommitUnknown, Corrupt, Fenced, InvalidRequest, NotFound
from lithify.store.port import NewId, Now

if TYPE_CHECKING:
    from lithify.segment.ranges import Weight

__all__ = ["Coordinator", "first_state"]


class _Damaged(Exception):
    def __init__(self, segment: SegmentRef, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


class Coordinator:
    """Compacts one partition, as one owner. One coroutine at a time; `step` until it answers "idle"."""

    def __init__(self, files: PartitionFiles, worker: str) -> None:
        self.files = files
        self._worker = worker  # host:pid, for people
        self._topic = topic_lineage(files.keys.topic)
        self._epoch: int | None = None
        self._owner = ""
        self._boundary_seen_ms = 0
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
        now_ms, manifest, state = await self._look()
        action = decide(manifest, state, config, now_ms)
        if isinstance(action, Wait):
            return await self._rest(action)
        input_bytes = _input_bytes(action, manifest)
        if input_bytes and not await Reserve(input_bytes, self._runs_alone(action, state)):
            return Step("deferred", f"a job of {input_bytes} bytes waits until others of this compactor have finished")
        if self._epoch is None:
            theirs = state is not None and state.owner != self._owner
            if theirs and not take_over and incumbent_lives(state, now_ms):
                return Step("standby", f"{state.owner_name if state else ''} is at work here; waiting as a standby")
            await self._claim(manifest)
            now_ms, manifest, state = await self._look()
            action = decide(manifest, state, config, now_ms)
        match action:
            case Wait():
                return await self._rest(action)
            case Settle(job, status, reason, error):
                return await self._work(config).finish(job, status, reason, error)
            case Resume(job):
                return await self._work(config).run(manifest, job)
            case Admit(job):
                return await self._admit_requested(manifest, job, config, now_ms)
            case Drop():
                return await self._drop(state)
            case Propose(due):
                kind: Kind = "clean" if due.kind == "clean" else "tier"
                return await self._start(manifest, config, due.units, kind, "scheduler", due.reason, now_ms)

    async def _look(self) -> tuple[int, Manifest, CompactorState | None]:
        """The clock, and both heads.

        SUBTLE! One decision goes by one reading of the clock: what `decide` found old enough, a second reading that
        steps back finds too young, and a clean that drops nothing would stamp horizons all the same: deleted keys come
        back. And the clock is read before the head: a floor is one that this manifest had come to while it was the
        head (R3). Test: tests/compactor/test_one_reading.py
        """
        now_ms = self._boundary_seen_ms = await Now()
        return now_ms, await self.files.head(), await self.files.compactor_state()

    def _runs_alone(self, action: Action, state: CompactorState | None) -> bool:
        """Whether the job of `action` may be what killed the compactors before this one (P14)."""
        if state is None:
            return False
        match action:
            case Propose(due):
                return runs_alone(failure_of(state, segments_of(due.units)))
            case Resume(job):  # what its former owner left open is counted by the claim, which comes later
                return runs_alone(failure_of(state, job.segments), died=self._epoch is None and is_in_vain(job))
            case _:
                return False

    async def _rest(self, wait: Wait) -> Step:
        """There is nothing to do, or not yet: whoever waits for this owner need not wait any longer."""
        await self._end_planning()
        return _resting(wait)

    async def _show_planning(self) -> None:
        """A sign of life of an owner that plans a job, if its latest is older than a heartbeat's interval (P5)."""
        state = self.files.compactor.seen.value
        if state is None or not state.planning or not young(state.heartbeat_at_ms, await Now(), HEARTBEAT_MS):
            await self.files.compactor.commit(jobs.ShowPlanning(self._mine))

    async def _end_planning(self) -> None:
        state = self.files.compactor.seen.value
        if self._epoch is not None and state is not None and state.planning and state.owner == self._owner:
            await self.files.compactor.commit(jobs.EndPlanning(self._epoch))

    async def _drop(self, state: CompactorState | None) -> Step:
        edit = DropSegments(self._mine, pinned_by(state))
        gone = (await self.files.manifest.commit(edit)).result
        told = f"retired {counted(len(gone), 'segment')} below the log start offset"
        return Step("worked", told, dropped=gone)

    async def changed(self) -> bool:
        """Whether a new manifest or request may be there, for two GETs.

        Once a minute a third one looks at the boundary: a coordinator that slept through a collection finds no next
        number, but a boundary that moved.
        """
        if await self.files.manifest.moved() or await self.files.compactor.moved():
            return True
        now_ms = await Now()
        if young(self._boundary_seen_ms, now_ms, FRESH_MS):
            return False
        self._boundary_seen_ms = now_ms
        return await self.files.boundary.moved()

    async def still_waits(self, config: TopicConfig) -> Step | None:
        """What is known already still asks for nothing, at today's clock: idle. None: look again."""
        manifest, state = self.files.manifest.seen.value, self.files.compactor.seen.value
        if manifest is None:
            return None
        action = decide(manifest, state, config, await Now())
        return _resting(action) if isinstance(action, Wait) else None

    async def _claim(self, manifest: Manifest) -> None:
        """Manifest first, then `.compactor`. A crash between the two leaves an epoch nobody owns; the next claim
        takes the one after it."""
        epoch = (await self.files.manifest.commit(Claim())).result
        owner = await NewId()
        claim = jobs.ClaimState(first_state(manifest), epoch, owner, self._worker, before=self._owner)
        await self.files.compactor.commit(claim)
        self._epoch, self._owner = epoch, owner

    def _work(self, config: TopicConfig) -> JobWork:
        return JobWork(self.files, self._mine, self._worker, config, self._topic)

    @property
    def _mine(self) -> int:
        assert self._epoch is not None, "only a claimed partition is written to"
        return self._epoch

    async def _admit_requested(self, manifest: Manifest, request: Job, config: TopicConfig, now_ms: int) -> Step:
        """The compactor's last word on a manual request: run it, or end it with a status that says why."""
        try:
            chosen = choose_requested(manifest, request.requested, now_ms, config)
            self._are_here(chosen)
        except InvalidRequest as error:
            return await self._work(config).finish(request, "failed", str(error), JobError("invalid", str(error)))
        if not chosen:
            return await self._work(config).finish(request, "completed", "nothing to compact: no segment is old enough")
        refused = no_room(chosen, manifest)
        if refused is not None:
            return await self._work(config).finish(request, "failed", refused, JobError("unavailable", refused))
        first = tiered_first(chosen)
        if first is not None:
            held, reason = first
            state, most = self.files.compactor.seen.value, config.compaction_attempts_max
            given_up = given_up_first(chosen, held, state, most, now_ms)
            if given_up is not None:  # the request would wait for ever for a tier that ends at once
                return await self._work(config).finish(request, "failed", given_up, JobError("attempts", given_up))
            return await self._start(manifest, config, held, "tier", "scheduler", reason, now_ms)
        kind = kind_of(manifest, config, chosen, now_ms)
        reason = "asked for: full" if not request.requested else "asked for: by sources"
        return await self._start(manifest, config, chosen, kind, "manual", reason, now_ms, request)

    async def _start(
        self,
        manifest: Manifest,
        config: TopicConfig,
        chosen: Sequence[Unit],
        kind: Kind,
        origin: Origin,
        reason: str,
        now_ms: int,
        request: Job | None = None,
    ) -> Step:
        """Plan, admit and run a job over `chosen`, which one merge can hold. `now_ms`: what it was decided by."""
        try:
            ranges = await self._split(chosen, config)
        except _Damaged as found:
            error = JobError("corrupt", str(found))
            step = await self._work(config).quarantine(request, error.reason, found.segment.id, error)
            await self._end_planning()
            return step
        job = freeze(
            manifest,
            config,
            chosen,
            ranges,
            job_id=request.id if request else SegmentId.for_job(manifest.id, await NewId()),
            kind=kind,
            origin=origin,
            reason=reason,
            now_ms=now_ms,
        )
        assert job.plan is not None
        job = replace(
            job,
            estimate=estimate(
                chosen,
                config,
                job.kind or kind,
                self.files.compactor.seen.value,
                cleaned_to=manifest.cleaned_to,
                floor=job.plan.rules.floor,
            ),
        )
        admitted = await self.files.compactor.offer(jobs.Admit(self._mine, job))
        if isinstance(admitted, Refused):
            if isinstance(admitted.error, InvalidRequest):  # cancelled meanwhile: the next step settles it
                return Step("worked", str(admitted.error), job)
            raise admitted.error
        state = admitted.version.value
        job = (state.job(job.id) if state else None) or job
        return await self._work(config).run(manifest, job)

    def _are_here(self, chosen: Sequence[Unit]) -> None:
        """Raises InvalidRequest where a segment lies in another home, before a job is admitted that none can do."""
        for ref in (segment for unit in chosen for segment in unit.segments):
            self.files.keys.key_of(ref)

    async def _split(self, chosen: Sequence[Unit], config: TopicConfig) -> tuple[KeyRange, ...]:
        self._are_here(chosen)
        total_bytes = sum(unit.bytes for unit in chosen)
        target = target_bytes(config, total_bytes)
        segments = tuple(segment for unit in chosen for segment in unit.segments)
        if not config.compacted:
            return offset_ranges(segments, target)
        if total_bytes <= target:
            return (KeyRange(),)
        # A run of a terabyte has thousands of segments, and each is opened: longer than a lease.
        weights: list[Weight] = []
        for segment in segments:
            await self._show_planning()
            weights += await self._weigh(segment)
        return await SplitRanges(tuple(weights), target)

    async def _weigh(self, segment: SegmentRef) -> "tuple[Weight, ...]":
        """Raises _Damaged where the segment is not whole (R6). One that is, and yet is read damaged again, has no
        weight: the ranges are less even for it, and attempts that meet the same are counted (P14)."""
        try:
            return await WeighSegment(self.files.keys, segment)
        except (Corrupt, NotFound) as error:
            if await first_damaged(self.files.keys, (segment,), self._show_planning) is not None:
                raise _Damaged(segment, str(error)) from error
        try:
            return await WeighSegment(self.files.keys, segment)
        except (Corrupt, NotFound):
            return ()


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


def _resting(wait: Wait) -> Step:
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
