"""The compaction protocol of one partition: claim, admit, work, record, commit. Coroutines (P5, P8-P14).

The order of writes is the protocol. Manifest before job state (P13); job before uploads (P10); progress before it
counts (P11). A coordinator acts only on what its own claim holds.
"""

from lithify.compactor import job_edits
from lithify.compactor.attempt import JobWork
from lithify.compactor.claim_edits import ClaimAndAdmit
from lithify.compactor.early import Early, foresee, planned
from lithify.compactor.engine import Reserve, StopTasks
from lithify.compactor.needs import Needs, needs, want
from lithify.compactor.own_home import home_refuses
from lithify.compactor.plan import Proposal
from lithify.compactor.policy import Action, Admit, Drop, Propose, Resume, Settle, Wait, decide
from lithify.compactor.relief import relief
from lithify.compactor.relocating import Ends, Moves, freeze_relocation, requested_moves
from lithify.compactor.requested import requested_merge
from lithify.compactor.split import Damaged, split
from lithify.compactor.standby import Watched, waits_for, watched
from lithify.compactor.step import Step, StepEnd, deferred, resting
from lithify.compactor.turns import Want
from lithify.compactor.wishes import Interrupted
from lithify.manifest.ages import young
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.categories import Category
from lithify.manifest.claims import Claim
from lithify.manifest.commit import FRESH_MS
from lithify.manifest.config import TopicConfig
from lithify.manifest.edits import Refused
from lithify.manifest.floor import DropSegments
from lithify.manifest.jobs import CompactorState, Job, JobError
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Heads, Reading, first_state, held_by
from lithify.manifest.words import counted
from lithify.store.errors import CommitUnknown, EpochRegression, Fenced, InvalidRequest, NotFound
from lithify.store.in_step import both
from lithify.store.port import NewId, Now

__all__ = ["Coordinator"]


class Coordinator:
    """Compacts one partition, as one owner. One coroutine at a time; call `step` until it answers "idle"."""

    def __init__(self, files: PartitionFiles, worker: str, *, stands_by: bool = False) -> None:
        """`stands_by`: leave the partition to its owner, as long as that one begins within a lease when something is
        due (docs/rfcs/0014)."""
        self.files = files
        self._worker = worker  # host:pid, for people
        self._stands_by = stands_by
        self._watched: Watched | None = None  # the owner's signs of life, as seen while something was due
        self._topic = topic_lineage(files.keys.topic)
        self._epoch: int | None = None
        self._owner = ""  # our nonce in `.compactor`, the same at each claim
        self.claimed = False  # true once a claim of ours was written, even if it was lost later
        self._boundary_seen_ms = 0
        self._early = Early(files)
        self.at_work: str | None = None  # the running job: admitted, and the step does nothing else after it
        self._main: Coordinator | None = None  # the coordinator whose claim this one shares, to relieve it
        self.fenced = False  # another compactor took over; this one never claims the partition again (P5)

    @property
    def owns(self) -> bool:
        """Whether it claimed the partition and is not known to have lost it. After an unknown outcome it claims again,
        unless somebody else has."""
        if self._epoch is not None or self.fenced:
            return not self.fenced
        return self._owner != "" and self.is_owner(self._owner)

    @property
    def owner(self) -> str:
        """Its name in `.compactor`; "" before any claim."""
        return self._owner

    def is_owner(self, owner: str) -> bool:
        """Whether `.compactor`, as last read, names `owner`."""
        state = self.files.compactor.seen.value
        return state is None or state.owner == owner

    def relief(self) -> "Coordinator":
        """Another coordinator with the same claim, which relieves the partition while a job of this one runs
        (docs/rfcs/0014). Requires: this one begins its next step only after the other's has ended."""
        other = Coordinator(self.files.again(), self._worker)
        other._main, other._epoch, other._owner = self, self._epoch, self._owner
        return other

    def relieves(self, main: "Coordinator") -> bool:
        """Whether it still shares the claim of `main`."""
        return self._main is main and (self._epoch, self._owner) == (main._epoch, main._owner)

    async def step(self, config: TopicConfig, take_over: bool = False, heads: Heads | None = None) -> Step:
        """Do the next thing: one job at most. `heads`: as they were read just now; None: it reads them. Raises Fenced,
        CommitUnknown, Unavailable, Corrupt."""
        try:
            return await (self._step(config, take_over, heads) if self._main is None else self._relieve(config))
        except Fenced:
            self.fenced = True
            raise
        except CommitUnknown as error:
            if isinstance(error.__cause__, Fenced):
                self.fenced = True
                raise error.__cause__ from error
            # The next claim settles what was in flight: it reads both files anew under a new epoch (P14).
            self._epoch = None
            if self._main is not None:
                # SUBTLE! The main coordinator must also claim anew. 1. This one's commit is unknown: it may arrive
                # late. 2. The main one reads a manifest without it and cancels this one's job. 3. The commit arrives,
                # and the manifest names outputs that nothing protects. The main one's own job continues under the epoch
                # it began with; nothing is relieved until the next claim. Test: tests/compactor/test_relief.py
                self._main._epoch = None
            raise
        finally:
            self.at_work = None

    async def _step(self, config: TopicConfig, take_over: bool, heads: Heads | None) -> Step:
        reading = (heads or await self.heads()).reading(config)
        action = decide(reading)
        if isinstance(action, Wait):
            return await self._rest(action)
        if not take_over and (why := self._waits_for(reading)) is not None:
            self._watched = watched(self._watched, reading)
            return Step(StepEnd.STANDBY, f"{why}; waiting as a standby")
        needed = needs(action, reading, owned=self._epoch is not None)
        if needed.input_bytes and not await _room(needed):
            return deferred(needed.input_bytes)
        if self._epoch is not None:
            return await self._do(action, reading)
        foreseen = await foresee(self.files, action, reading)
        if foreseen is not None:
            await self._early.prepare(reading.manifest, foreseen, config)
        try:
            claimed = await self._claim(reading.manifest, take_over, foreseen)
        except NotFound as gone:  # the topic was deleted since it was read
            return Step(StepEnd.IDLE, str(gone))
        if claimed is None:
            self._watched = watched(self._watched, reading)
            return Step(StepEnd.STANDBY, "another compactor claimed this first; waiting as a standby")
        reading = claimed.reading(config)
        begun = foreseen and reading.state.job(foreseen.id)
        if begun is not None:
            return await self._begun(reading.manifest, begun, config)
        if foreseen is not None:
            await StopTasks()  # what was prepared; something else may come now, and long
        action = decide(reading)
        before, needed = needed, needs(action, reading, owned=True)
        if needed.input_bytes and needed != before and not await _room(needed):
            await self._end_planning()
            return deferred(needed.input_bytes)
        return await self._do(action, reading)

    async def _do(self, action: Action, reading: Reading) -> Step:
        match action:
            case Wait():
                return await self._rest(action)
            case Settle(job, status, reason, error, ended_by):
                return await self._work(reading.config).finish(job, status, reason, error, ended_by)
            case Resume(job):
                return await self._resume(reading, job)
            case Admit(job):
                return await self._admit_requested(reading, job)
            case Drop():
                return await self._drop(reading.state)
            case Propose(due) if due.kind == "relocate":
                return await self._relocate(reading, Moves(due.units, reading.config.cold_home, due.reason))
            case Propose(due):
                return await self._start(reading, Proposal(due.units, due.job_kind, due.reason))

    async def _relieve(self, config: TopicConfig) -> Step:
        """A step of the second coroutine of a claim: it never claims, and leaves to the main one what is the main
        one's.

        SUBTLE! It begins once a job of the main one is admitted: that job holds its sources, and the main one admits
        nothing else before both have ended. Otherwise a drop here could retire what the main one is about to take.
        Test: tests/compactor/test_relief.py
        """
        first = None if self._main is None else self._main.at_work
        reading = (await self.heads()).reading(config)
        if first is None or not self._holds(reading.state):
            return Step(StepEnd.IDLE, "no job is running under this claim")
        action = relief(reading, first)
        needed = needs(action, reading, owned=True)
        if needed.input_bytes and not await _room(needed):
            return deferred(needed.input_bytes)
        match action:
            case Wait():
                return resting(action)
            case Settle(job, status, reason, error, ended_by):
                return await self._work(config).finish(job, status, reason, error, ended_by)
            case Resume(job):
                return await self._resume(reading, job)
            case Drop():
                return await self._drop(reading.state)
            case Propose(due):
                return await self._start(reading, Proposal(due.units, "tier", due.reason))

    async def heads(self) -> Heads:
        """The clock is read before the heads: a floor must be one that this manifest had reached while it was the head
        (R3)."""
        now_ms = self._boundary_seen_ms = await Now()
        return Heads(*await self.files.heads(), now_ms)

    def _seen(self, config: TopicConfig, now_ms: int) -> Reading | None:
        """As far as the files were read before. None: they were not."""
        manifest = self.files.manifest.seen.value
        return None if manifest is None else Reading.of(manifest, self.files.compactor.seen.value, config, now_ms)

    def want(self, config: TopicConfig, now_ms: int, *, take_over: bool = False) -> Want | None:
        """What the next step is for, as far as the files were read. None: they were not."""
        reading = self._seen(config, now_ms)
        if reading is None:
            return None
        if self._main is not None:
            return self._wants_relief(reading)
        action = decide(reading)
        if not take_over and self._waits_for(reading) is not None:
            action = Wait("another compactor is at work")
        return want(action, reading, owned=self._epoch is not None)

    def _wants_relief(self, reading: Reading) -> Want | None:
        first = None if self._main is None else self._main.at_work
        if first is None or not self._holds(reading.state):
            return None
        action = relief(reading, first)
        return None if isinstance(action, Wait) else want(action, reading, owned=True)

    def _holds(self, state: CompactorState) -> bool:
        return (state.epoch, state.owner) == (self._epoch, self._owner)

    def _waits_for(self, reading: Reading) -> str | None:
        """Why this one waits as a standby (P5). None: it need not."""
        if self._epoch is not None or reading.state.owner in ("", self._owner):
            return None
        return waits_for(reading, watched(self._watched, reading) if self._stands_by else None)

    async def _rest(self, wait: Wait) -> Step:
        """Nothing to do, or not yet. Ends the planning mark, so that no standby waits for this owner."""
        self._watched = None
        await self._end_planning()
        return resting(wait)

    async def _end_planning(self) -> None:
        state = self.files.compactor.seen.value
        if self._epoch is not None and state is not None and state.planning and state.owner == self._owner:
            await self.files.compactor.commit(job_edits.EndPlanning(self._epoch))

    async def _drop(self, state: CompactorState) -> Step:
        edit = DropSegments(self._mine, held_by(state))
        gone = (await self.files.manifest.commit(edit)).result
        told = f"retired {counted(len(gone), 'segment')} below the log start offset"
        return Step(StepEnd.WORKED, told, dropped=gone)

    async def leave(self) -> None:
        """Give the partition up, so that whoever comes next need not wait for a lease (P5). A claim that another has
        followed, or whose outcome is unknown, is left as it is. Requires: no step runs. Raises LithifyError, but Fenced
        only if the store went back in time."""
        epoch, self._epoch = self._epoch, None
        if epoch is None or self.fenced or not self.is_owner(self._owner):
            return
        self._owner = ""
        try:
            await self.files.compactor.commit(job_edits.Leave(epoch))
        except Fenced as error:
            if isinstance(error, EpochRegression):
                raise

    async def changed(self) -> bool:
        """Whether there may be a new manifest or request. Costs two GETs, made together.

        Once a minute a third GET looks at the boundary: if this coordinator slept through a collection, it finds no
        next number, but the boundary has moved.
        """
        if any(await both(self.files.manifest.moved(), self.files.compactor.moved())):
            return True
        now_ms = await Now()
        if young(self._boundary_seen_ms, now_ms, FRESH_MS):
            return False
        self._boundary_seen_ms = now_ms
        return await self.files.boundary.moved()

    async def still_waits(self, config: TopicConfig) -> Step | None:
        """A resting step if what is known asks for nothing at this time either. None: look again."""
        if self.files.manifest.seen.value is None:
            return None
        reading = self._seen(config, await Now())
        action = None if reading is None else decide(reading)
        return resting(action) if isinstance(action, Wait) else None

    async def _claim(self, manifest: Manifest, take_over: bool, foreseen: Job | None) -> Heads | None:
        """Claim the partition; answers with the two heads that did it, None: another one claimed it. Manifest first,
        then `.compactor`. A crash between the two leaves an epoch without an owner; the next claim takes the one after
        it. If the claim is the only thing that was committed to the `manifest`, `foreseen` is admitted with it.

        SUBTLE! What was committed was the head, so it need not be read again. But the clock is read before, for the
        same reason as in `heads`: by that clock, the claim has not yet ended the former owner's attempts. So where
        there are jobs, everything is read anew. Test: tests/protocol/test_p05_fencing.py
        """
        now_ms = await Now()
        claimed = await self.files.manifest.commit(Claim(None if take_over else manifest.compactor_epoch))
        epoch = claimed.result
        if epoch is None:
            return None
        # SUBTLE! Remember our nonce before writing the claim. If the reply is lost the claim may still have landed;
        # without the nonce we would take our own claim for a rival's and wait for ourselves. Test:
        # tests/protocol/test_p05_fencing.py
        self._owner = self._owner or await NewId()
        claim = job_edits.ClaimState(first_state(manifest), epoch, self._owner, self._worker)
        admitted = False
        if foreseen is not None and not claimed.repeated and claimed.version.number == manifest.id + 1:
            both = ClaimAndAdmit(claim, job_edits.Admit(epoch, foreseen, self._worker))
            admitted = (await self.files.compactor.commit(both)).result
        else:
            await self.files.compactor.commit(claim)
        self._epoch, self.claimed = epoch, True
        self._early.went_well()
        manifest, state = claimed.version.value or manifest, self.files.compactor.seen.value
        if not admitted and (claimed.repeated or state is None or state.jobs or state.failures):
            return await self.heads()
        return Heads(manifest, state, now_ms)

    def _work(self, config: TopicConfig) -> JobWork:
        return JobWork(self.files, self._mine, self._worker, config, self._topic)

    @property
    def _mine(self) -> int:
        assert self._epoch is not None, "only a claimed partition is written to"
        return self._epoch

    async def _admit_requested(self, reading: Reading, request: Job) -> Step:
        """The compactor's decision on a manual request: run it, or end it with a status that says why."""
        if request.relocates:
            return await self._relocate(reading, requested_moves(reading, request), request)
        decided = requested_merge(reading, request, self.files)
        if isinstance(decided, Ends):
            return await self._work(reading.config).finish(request, *decided)
        return await self._start(reading, decided)

    async def _relocate(self, reading: Reading, moves: Moves | Ends, request: Job | None = None) -> Step:
        """Admit a relocation, and do it. There is no job if its home does not answer: it would keep cleans waiting.

        SUBTLE! Nor does a request wait for a home, because it comes before all that is due. 1. The home is away, and a
        request wants it. 2. Each step is about the request, and fails. 3. L0 is not merged, and fills up: now appends
        wait for that home. Therefore the request ends. Test: tests/e2e/test_relocation_ends.py
        """
        if isinstance(moves, Moves):
            fresh = moves.home not in reading.manifest.homes
            refused = await home_refuses(self.files.keys, moves.home, claims=fresh, renews=True)
            if refused is not None:
                moves = Ends("failed", f"{moves.reason}; but {refused.reason}", refused)
        if isinstance(moves, Ends):
            ends = self._work(reading.config).finish
            return Step(StepEnd.FAILED, moves.reason) if request is None else await ends(request, *moves)
        job_id = moves.request.id if moves.request else SegmentId.for_job(reading.manifest.id, await NewId())
        return await self._begin(reading, freeze_relocation(moves, job_id, reading.config, reading.now_ms))

    async def _start(self, reading: Reading, proposal: Proposal) -> Step:
        """Plan, admit and run a job. `reading`: that of the decision."""
        config, request = reading.config, proposal.request
        try:
            ranges = await split(self.files, self._mine, proposal.units, config, request)
        except Damaged as found:
            error = JobError(Category.CORRUPT, str(found))
            step = await self._work(config).quarantine(request, error.reason, found.segment.id, error)
            await self._end_planning()
            return step
        except Interrupted as wish:
            await self._end_planning()
            outcome = StepEnd.WORKED if wish.cancelled else StepEnd.STOPPED
            return Step(outcome, f"{wish} during planning: {proposal.reason}")
        return await self._begin(reading, await planned(reading, proposal, ranges))

    async def _begin(self, reading: Reading, job: Job) -> Step:
        """Admit a planned job, and do its first attempt. Its tasks read meanwhile (docs/rfcs/0033)."""
        await self._early.prepare(reading.manifest, job, reading.config)
        admitted = await self.files.compactor.offer(job_edits.Admit(self._mine, job, self._worker))
        if isinstance(admitted, Refused):
            if isinstance(admitted.error, InvalidRequest):  # cancelled meanwhile: the next step settles it
                return Step(StepEnd.WORKED, str(admitted.error), job)
            raise admitted.error
        state = admitted.version.value
        return await self._begun(reading.manifest, (state.job(job.id) if state else None) or job, reading.config)

    async def _begun(self, manifest: Manifest, job: Job, config: TopicConfig) -> Step:
        self.at_work = job.id
        self._early.went_well()
        return await self._work(config).begun(manifest, job)

    async def _resume(self, reading: Reading, job: Job) -> Step:
        self.at_work = job.id
        return await self._work(reading.config).run(reading.manifest, job)


def _room(needed: Needs) -> Reserve:
    return Reserve(needed.input_bytes, needed.alone, needed.short)
