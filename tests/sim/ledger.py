"""What is true of a partition's `.compactor` files, and the rules that jobs keep (P5, P8-P15, R6)."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from lithify.manifest.jobs import CompactorState, Job, JobError
from lithify.manifest.model import SegmentRef
from lithify.segment.task import JobTask, MoveTask
from tests.sim.cast import WORKER, Author, process_of
from tests.sim.frames import unwarranted_of_compactor

if TYPE_CHECKING:
    from tests.sim.truth import Truth

__all__ = ["Ledger"]

# As RFC 0003 has them.
ALONE_AFTER = 2  # attempts that died without a word
ENGINE_LOST_MAX = 30
GIVEN_UP_MS = 86_400_000
ENGINE_DOWN, STORE_DENIED, UNAVAILABLE = "engine_down", "store_denied", "unavailable"

_state = msgspec.json.Decoder(CompactorState).decode


class Ledger:
    """`truth` is that of the partition."""

    def __init__(self, truth: "Truth") -> None:
        self._truth = truth
        self.state: CompactorState | None = None
        self.committed: set[str] = set()  # jobs that a manifest has
        self.quarantined = False  # the partition was, once
        self._started: dict[tuple[str, int], Author] = {}  # attempts
        self._in_vain: dict[frozenset[str], int] = {}  # failed attempts on a set of sources since its latest progress
        self._in_vain_ms: dict[frozenset[str], int] = {}  # when the latest of them ended
        self._lost: dict[frozenset[str], int] = {}  # those that ended with the engine
        self.denied_at: dict[str, int] = {}  # the step at which the store last refused an actor, or a worker of his
        self._began: dict[tuple[str, int], Author] = {}  # attempts, by coordinators that live
        self._engine_gone: dict[Author, bool] = {}  # whose attempt under way met that; and whether it died under it
        self._own_failure: set[Author] = set()  # whose attempt under way met what is the job's own
        self.looked: dict[tuple[Author, str], int] = {}  # who found which output to be as recorded, at which step
        self.began: dict[str, int] = {}  # the step at which the latest attempt of a job did
        self.prepared: dict[Author, int] = {}  # and at which tasks began to read for it, if they did so before
        self.landed: dict[str, int] = {}  # the step at which a coordinator was told of an output
        self._recorded: dict[str, int] = {}  # and at which it was first recorded
        self.recorded_at: dict[str, int] = {}  # and at which the outputs of a job last changed
        self._compactor_author: dict[str, Author] = {}  # claim's nonce -> who
        self._failures: Counter[str] = Counter()  # attempts of a job that failed, in all
        self._too_often_ms: dict[frozenset[str], int] = {}  # when a job ended that had failed too often
        self._heard: set[tuple[Author, str]] = set()  # who wrote, of which job, that it is to be cancelled
        self._void: dict[Author, int] = {}  # the epoch under which the outcome of a step is unknown

    def recorded(self) -> list[str]:
        """Outputs of jobs under way."""
        jobs = () if self.state is None else self.state.jobs
        return [ref.id for job in jobs for ref in job.outputs() if job.id not in self.committed]

    def commits(self, author: Author, job_id: str, made: Iterable[SegmentRef]) -> None:
        """Whoever commits has looked at each output since the last of them was recorded, and at those that were
        recorded last since they landed, whatever became of them. What is damaged now was not when the attempt began."""
        if (author, job_id) in self._heard:
            self._truth.fail(f"job {job_id} is committed, and {author} had read that it is to be cancelled (P15)")
        for ref in made:
            harm = self._truth.harms.now.get(ref.id)
            if harm is not None and harm.step < self.began[job_id]:
                self._truth.fail(
                    f"output {ref.id} was damaged when the attempt began, and job {job_id} commits it (P12)"
                )
            last = self.recorded_at[job_id]
            since = self.landed.get(ref.id, last + 1) - 1 if self._recorded.get(ref.id) == last else last
            if self.looked.get((author, ref.id), 0) <= since:
                what = "" if harm is None or not harm.shows else ", which is damaged,"
                self._truth.fail(f"job {job_id} commits output {ref.id}{what} without a look at it (P13)")

    def created(self, author: Author, number: int, body: bytes) -> None:
        dead = 0 if self._truth.boundary is None else self._truth.boundary.compactor
        if number <= dead:
            return
        previous, state = self.state, _state(body)
        if number != (0 if previous is None else previous.id) + 1:
            self._truth.fail(f".compactor {number} comes after {previous and previous.id} (P3, P4)")
        if previous is not None and state.epoch < previous.epoch:
            self._truth.fail(f".compactor {number} falls back to epoch {state.epoch} (P5)")
        self._held("P3", "P5")
        wrong = self._truth.followed.jobs(previous, state) or self._truth.housed.all_covered(self._truth.head, state)
        if wrong is not None:
            self._truth.fail(f".compactor {number}: {wrong}")
        self.state = state
        claims = previous is None or (previous.epoch, previous.owner) != (state.epoch, state.owner)
        if state.owner and claims:
            self._compactor_author[state.owner] = process_of(author)
        elif not state.owner or self._compactor_author.get(state.owner) != process_of(author):
            self._only_asks(author, previous, state)
            return
        before = {} if previous is None else {job.id: job for job in previous.jobs + previous.history}
        if previous is not None:
            wrong = unwarranted_of_compactor(previous, state, claims=claims)
            wrong = wrong or (self._blames_its_own(author, previous, state) if claims else None)
            if wrong is not None:
                self._truth.fail(f".compactor {state.id} {wrong}")
        for job in state.jobs + state.history:
            known = before.get(job.id)
            if job != known:
                self._job(author, known, job, claims=claims)
        if self._truth.world.when_recorded is not None and any(
            len(job.done) > len(before[job.id].done) for job in state.jobs if job.id in before
        ):
            self._truth.world.when_recorded()

    def _blames_its_own(self, author: Author, previous: CompactorState, state: CompactorState) -> str | None:
        """A claim counts attempts whose compactor died. What the claiming coordinator began itself is none of them: it
        lives, and does not know what became of a write."""
        left = [(job.id, a.number) for job in previous.jobs for a in job.attempts if a.ended_at_ms is None]
        if not left or any(self._began.get(attempt) != process_of(author) for attempt in left):
            return None
        before, now = (sum(f.count + f.lost for f in one.failures) for one in (previous, state))
        self._truth.world.counts["claimed again by who is at work"] += 1
        return f"counts a failure of {left[0][0]}, which who claims began itself (P14)" if now > before else None

    def _only_asks(self, author: Author, previous: CompactorState | None, state: CompactorState) -> None:
        """A request adds a submitted job, or asks for a cancellation; nothing else is anybody's but the owner's."""
        before = () if previous is None else previous.jobs
        same = all(
            msgspec.structs.replace(now, cancel_requested=then.cancel_requested) == then
            for then, now in zip(before, state.jobs, strict=False)
        )
        added = state.jobs[len(before) :]
        kept = previous is None or (previous.history, previous.failures) == (state.history, state.failures)
        if not same or len(state.jobs) < len(before) or not kept or any(job.status != "submitted" for job in added):
            self._truth.fail(f"{author} changes .compactor {state.id}, whose owner is another (P5, P15)")
        self._truth.world.counts["request"] += 1
        self._held("P5", "P15")

    def _job(self, author: Author, known: Job | None, job: Job, *, claims: bool) -> None:
        if known is not None and known.plan is not None and job.active:
            if job.plan != known.plan:
                self._truth.fail(f"job {job.id} has another plan than at its admission (P9)")
            self._held("P9")
        if job.plan is not None and (known is None or known.plan is None):
            self._admitted(job)
        if job.active:
            self._mark(author, known, job)
            self._discarded(known, job)
            self._attempts(author, known, job, claims=claims)
        elif known is None or known.active:
            self._truth.world.counts[f"job {job.status}"] += 1
            if job.error is not None:
                self._truth.world.counts[f"job ended: {job.error.category}"] += 1
            if known is not None and known.plan is not None:
                self._given_up(known, job)
            if job.plan is not None or job.done or job.segments:
                self._truth.fail(f"job {job.id} is {job.status}, and keeps its plan or outputs in the history (P14)")
            if (
                job.status == "completed"
                and known is not None
                and known.plan is not None
                and job.id not in self.committed
            ):
                self._truth.fail(f"job {job.id} is completed, no manifest has it (P13)")
            if job.status != "completed" and job.id in self.committed:
                self._truth.fail(f"job {job.id} is {job.status}, a manifest has it (P13, P15)")
            self._held("P13", *(("P15",) if job.status == "cancelled" else ()))
            if job.error is not None and job.error.category == "corrupt" and not self.quarantined:
                self._truth.fail(f"job {job.id} met a damaged segment, and the partition is not quarantined (R6)")

    def _mark(self, author: Author, known: Job | None, job: Job) -> None:
        if job.cancel_requested:
            self._heard.add((author, job.id))
        if known is None or known.done != job.done:
            self.recorded_at[job.id] = self._truth.world.steps
            for ref in job.outputs():
                self._recorded.setdefault(ref.id, self._truth.world.steps)
        if known is None or [a.number for a in known.attempts] != [a.number for a in job.attempts]:
            self.began[job.id] = self._truth.world.steps

    def _admitted(self, job: Job) -> None:
        assert job.plan is not None
        assert self.state is not None
        assert self._truth.head is not None
        self._truth.world.counts["job admitted"] += 1
        live = {ref.id for ref in self._truth.head.segments()}
        if not live.issuperset(job.segments) and not self._truth.head.sealed:
            self._truth.fail(f"job {job.id} is admitted with segments that are not live (P8)")
        elsewhere = {s for other in self.state.jobs if other.id != job.id and other.plan for s in other.segments}
        if elsewhere & set(job.segments):
            self._truth.fail(f"job {job.id} takes what another active job holds (P8)")
        self._held("P8", "P9")
        sources = frozenset(job.segments)
        if job.origin == "manual":
            self._in_vain[sources] = self._lost[sources] = 0
        elif sources in self._too_often_ms:
            if self._truth.world.now_ms - self._too_often_ms[sources] < GIVEN_UP_MS - self._truth.error_ms:
                self._truth.fail(f"job {job.id} begins on sources that were given up within a day (P14)")
            self._truth.world.counts["given up, and begun a day later"] += 1

    def _discarded(self, known: Job | None, job: Job) -> None:
        left = {done.index for done in job.done}
        for done in () if known is None else known.done:
            whole = all(self._truth.present(ref.id) and ref.id not in self._truth.harms.ever for ref in done.outputs)
            if whole and done.index not in left:
                self._truth.fail(f"range {done.index} of job {job.id} is recorded and whole, and is given up (P12)")
            self._held("P12")

    def _attempts(self, author: Author, known: Job | None, job: Job, *, claims: bool) -> None:
        sources = frozenset(job.segments)
        was = known.attempts[-1] if known is not None and known.attempts else None
        now = job.attempts[-1] if job.attempts else None
        if known is not None and len(job.done) > len(known.done):
            self._in_vain[sources] = self._lost[sources] = 0
        begins = now is not None and (was is None or now.number > was.number)
        ends = was is not None and was.ended_at_ms is None
        if was is not None and ends and (begins or claims):  # nobody had ended it
            if self._began.get((job.id, was.number)) != process_of(author):  # and who began it is gone
                self._failures[job.id] += 1
                if was.ranges_done == 0:
                    self._died(sources)
        elif now is not None and ends and now.ended_at_ms is not None and now.error is not None:
            self._ended(author, job, now.error)
        if now is not None and begins:
            self._began[job.id, now.number] = process_of(author)
            self._engine_gone.pop(author, None)
            self._own_failure.discard(author)
            count = self._in_vain.get(sources, 0)
            most = max(c.attempts_max for c in self._truth.configs)
            rested_ms = self._truth.world.now_ms - self._in_vain_ms.get(sources, 0)
            if count > most and rested_ms < GIVEN_UP_MS - self._truth.error_ms:
                self._truth.fail(f"after {count} attempts in vain on one set of sources another begins (P14)")
            self._held("P14")
        met = next((a for a in job.attempts if a.error is not None and a.error.category == "corrupt"), None)
        if met is not None and not self.quarantined:
            self._truth.fail(f"job {job.id} met a damaged segment, and the partition is not quarantined (R6)")

    def _ended(self, author: Author, job: Job, error: JobError) -> None:
        """Its coordinator says of what: of the engine, of the store, or of what the job itself met."""
        sources = frozenset(job.segments)
        if job.relocates and error.category in (STORE_DENIED, UNAVAILABLE):
            self._truth.fail(f"relocation {job.id} met a store that is away, and keeps its segments (RFC 0031)")
        self._failures[job.id] += error.category not in (ENGINE_DOWN, STORE_DENIED, UNAVAILABLE)
        if author in self._engine_gone:
            self._lost[sources] = self._lost.get(sources, 0) + self._engine_gone[author]
        elif error.category == STORE_DENIED:
            since = min(self.began[job.id], self.prepared.get(author, self.began[job.id]))
            if self.denied_at.get(process_of(author)[0], 0) < since:
                self._truth.fail(f"job {job.id}: an attempt ends as denied, and nobody was (P14)")
            self._truth.world.counts["attempt denied"] += 1
        elif error.category == UNAVAILABLE:
            self._truth.world.counts["attempt ended: the store was away"] += 1
        elif author not in self._own_failure:
            self._truth.fail(f"an attempt at job {job.id} met nothing of its own, and failed by {error.category} (P14)")
        else:
            self._failed(sources)

    def _failed(self, sources: frozenset[str]) -> None:
        self._in_vain[sources] = self._in_vain.get(sources, 0) + 1
        self._in_vain_ms[sources] = self._truth.world.now_ms

    def _died(self, sources: frozenset[str]) -> None:
        """Its process was killed, perhaps by the job of another partition, until this one ran alone."""
        if self._lost.get(sources, 0) < ALONE_AFTER:
            self._lost[sources] = self._lost.get(sources, 0) + 1
        else:
            self._failed(sources)

    def _given_up(self, known: Job, job: Job) -> None:
        """A job is given up for what it did, and not because the engine or the store was away."""
        self._thrown_away(known, job)
        if job.error is None or job.error.category != "attempts":
            return
        sources = frozenset(known.segments)
        count, least = self._in_vain.get(sources, 0), min(c.attempts_max for c in self._truth.configs)
        too_often = self._failures[job.id] >= self._truth.world.failed_attempts_max
        if count < least and self._lost.get(sources, 0) < ENGINE_LOST_MAX and not too_often:
            self._truth.fail(f"job {job.id} is given up after {count} attempts in vain, {least} are its right (P14)")
        if too_often:
            self._too_often_ms[sources] = self._truth.world.now_ms
            self._in_vain[sources] = self._lost[sources] = 0  # the plan of a day later counts anew
        self._truth.world.counts["job given up"] += 1

    def _thrown_away(self, known: Job, job: Job) -> None:
        """What was recorded is given up for what the job did, or because of its sources."""
        assert self._truth.head is not None
        live = {ref.id for ref in self._truth.head.segments()}
        good = known.done and not self._truth.head.sealed and live.issuperset(known.segments)
        if good and job.error is not None and job.error.category == "invalid":
            self._truth.fail(f"job {job.id} gives up what it has recorded, and its sources are live (P12)")
        self._held("P12")

    def access_denied(self, author: Author) -> None:
        """The store refused who asked; a worker asks for its compactor."""
        self.denied_at[process_of(author)[0].partition(WORKER)[0]] = self._truth.world.steps

    def engine_gone(self, author: Author, *, died: bool) -> None:
        """The engine of a compactor takes no task, or died over those it had."""
        self._engine_gone[author] = died

    def own_failure(self, author: Author) -> None:
        """A task of a compactor failed by what is the job's own, or its outputs are not as they were recorded."""
        self._own_failure.add(author)

    def unanswered(self, author: Author) -> None:
        """What was in flight is settled by the next claim alone."""
        if self.state is not None and self._compactor_author.get(self.state.owner) == process_of(author):
            self._void[author] = self.state.epoch

    def anew(self, author: Author) -> None:
        """A compactor goes on as another coordinator, which knows nothing of what it has begun."""
        self._began = {attempt: by for attempt, by in self._began.items() if by != process_of(author)}

    def _held(self, *rules: str) -> None:
        self._truth.world.held(*rules)

    def _moves(self, task: MoveTask, job: Job) -> None:
        head = self._truth.head
        if (task.segment.id, task.home) != (job.segments[task.range_index], job.home):
            self._truth.fail(f"a task of job {job.id} moves another segment than was admitted (P9)")
        if task.home and (head is None or task.home not in head.homes) and not (head is None or head.sealed):
            self._truth.fail(f"work on job {job.id} starts, and its home {task.home} is not noted (P18)")

    def starts(self, author: Author, tasks: tuple[JobTask, ...]) -> None:
        """A coordinator gives its workers their tasks. One that was replaced may act on what it knew."""
        state = self.state
        if state is None or self._compactor_author.get(state.owner) != process_of(author):
            return
        if self._void.get(author) == state.epoch:
            self._truth.fail(f"{author} goes on under epoch {state.epoch}, and an outcome of it is unknown (P14)")
        for task in tasks:
            job = state.job(task.job)
            if job is None or job.plan is None:
                self._truth.fail(f"work on job {task.job} starts before it is recorded (P10)")
            if (author, job.id) in self._heard:
                self._truth.fail(f"{author} has read that job {job.id} is to be cancelled, and begins tasks (P15)")
            if self._started.setdefault((job.id, task.attempt), process_of(author)) != process_of(author) or all(
                a.number != task.attempt for a in job.attempts
            ):
                self._truth.fail(f"attempt {task.attempt} of job {job.id} is not new (P10)")
            if isinstance(task, MoveTask):
                self._moves(task, job)
            elif task.rules != job.plan.rules or task.bounds != job.plan.ranges[task.range_index].bounds:
                self._truth.fail(f"a task of job {job.id} goes by another plan than was admitted (P9)")
            done = next((d for d in job.done if d.index == task.range_index), None)
            if done is not None and all(
                self._truth.present(ref.id) and ref.id not in self._truth.harms.now for ref in done.outputs
            ):
                self._truth.fail(f"range {done.index} of job {job.id} is recorded and whole, and is done again (P12)")
            if done is not None:
                self._truth.world.counts["recorded range done again"] += 1
            self._held("P9", "P10", *(("P12",) if job.done else ()))
