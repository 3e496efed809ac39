"""One partition as a compactor serves it, one look or one step at a time; and its topic's configuration."""

import threading
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from lithify.compactor.answers import CompactionAnswers
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.info import PartitionReport
from lithify.compactor.policy import URGENCY_NONE
from lithify.compactor.scheduler import Turned
from lithify.compactor.step import Step, StepEnd
from lithify.compactor.tally import TURNS_MAX, Tally, holdings
from lithify.compactor.turns import Want
from lithify.events.notices import Lost
from lithify.events.types import Sink
from lithify.manifest.ages import young
from lithify.manifest.catalog import keep_bounds, live_topic, topic_lineage
from lithify.manifest.config import parse
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Heads
from lithify.manifest.rests import Rest, Rests
from lithify.store.apart import Fault
from lithify.store.driver import Answer, Driver, drive
from lithify.store.errors import EpochRegression, Fenced, LithifyError, NotFound
from lithify.store.in_step import both
from lithify.store.port import Now, Request

__all__ = ["LOOK_AGAIN", "ServedPartition", "ServedTopic"]

T = TypeVar("T")
CONFIG_FRESH_MS = 10_000
LOOK_FRESH_MS = 1_000  # for so long the first claim of a partition without an owner goes by the look before it
TOLD_TO_STOP = Step(StepEnd.STOPPED, "told to stop")
LOOK_AGAIN = Want((URGENCY_NONE, 0))  # a turn that finds out whether there is anything to do


class ServedTopic:
    """A topic's configuration. It is read anew every round, before every step, and every ten seconds while a job runs.
    Thread-safe."""

    def __init__(self, name: str, driver: Driver) -> None:
        self._name = name
        self._driver = driver
        self._lineage = topic_lineage(name)
        self._lock = threading.Lock()
        self._read_at_ms = 0
        self._topic_id = ""  # of the live topic of this name; "": there is none
        self._read: TopicFile | None = None
        self._rest: Rest | None = None
        self.config = parse({})

    def read(self) -> TopicFile:
        """Read the configuration. Raises NotFound if the topic was deleted."""
        with self._lock:
            asked_ms = self._driver.now_ms()
            topic = self._driver.run(live_topic(self._lineage, self._name))
            self._take(topic, asked_ms)
            return topic

    def _take(self, topic: TopicFile, asked_ms: int) -> None:
        self.config, self._read_at_ms = parse(topic.config), asked_ms
        self._topic_id, self._read = topic.topic_id, topic

    async def _live(self) -> TopicFile | None:
        try:
            return await live_topic(self._lineage, self._name)
        except NotFound:
            return None

    def read_beside(self, other: Coroutine[Request[Any], Any, T], answer: Answer) -> tuple[TopicFile | None, T]:
        """As `read`, and what `other` returns, asked for in step. None: the topic was deleted."""
        with self._lock:
            asked_ms = self._driver.now_ms()
            read, beside = drive(both(self._live(), other), answer)
            if read is not None:
                self._take(read, asked_ms)
            return read, beside

    def read_lately(self, looked_ms: int) -> TopicFile | None:
        """As it was read, if that and `looked_ms` were within LOOK_FRESH_MS, and it is live. The clock is read under
        the lock, which may be held for as long as a request of another partition takes."""
        with self._lock:
            now_ms, known = self._driver.now_ms(), self._read
            if known is None or known.topic_id != self._topic_id:
                return None
            return known if all(young(each, now_ms, LOOK_FRESH_MS) for each in (looked_ms, self._read_at_ms)) else None

    def read_at_rest(self, rests: Rests, *, anew: bool) -> TopicFile:
        """As `read`; but as rarely as partitions at rest are looked at. `anew`: not all of its partitions rest."""
        now_ms, known = self._driver.now_ms(), self._read
        if anew or self._rest is None or known is None or known.topic_id != self._topic_id:
            self._rest = rests.begin(self._name, now_ms)
            return self.read()
        asks = self._rest.asks(now_ms)
        if not any(asks):
            return known
        topic = self.read()
        if topic.id != known.id:
            self._rest = None
        else:
            self._rest.asked(asks, now_ms)
        return topic

    def rests(self, topic_id: str) -> bool:
        """Whether a job that runs in this topic should stop: compaction was paused, or the topic deleted."""
        if not young(self._read_at_ms, self._driver.now_ms(), CONFIG_FRESH_MS):
            try:
                self.read()
            except NotFound:
                self._topic_id = ""
            except LithifyError:
                pass  # the job's next commit, or the next round, reports it
        return self.config.compaction_paused or self._topic_id != topic_id


class ServedPartition:
    """A coordinator, what it found last, and what was done since the last report. One thread at a time."""

    def __init__(
        self, files: PartitionFiles, worker: str, topic: ServedTopic, events: Sink, *, stands_by: bool, rests: Rests
    ) -> None:
        self.keys = files.keys
        self._rests_by = rests
        self._rest: Rest | None = None  # None: it does not rest, and each look asks everything
        self.stirred = False  # this process has written here since the last look
        self.topic = topic
        self._files = files
        self._events = events
        # Cleared at the first rest, so that we do not take back what another compactor claims later.
        self.take_over = False
        self.fenced: Fenced | None = None  # another took over
        self.done = Tally()
        self.waits_since_ms: int | None = None  # with a job to do: for a worker, or for room
        self._worker = worker
        self._stands_by = stands_by
        self._coordinator = Coordinator(files, worker, stands_by=stands_by)
        self._given_up = ""  # our owner name in `.compactor`, from a coordinator that failed
        self._relief: Coordinator | None = None
        self._beside: deque[Step] = deque()  # done by the relief, not yet in the tally
        self._manifest: Manifest | None = None  # the newest seen
        self._known = False  # both files have been read
        self._looked: Heads | None = None  # by the last look, if no turn came after it
        self._resting = False  # as far as known, there is nothing to do

    @property
    def rests(self) -> bool:
        """Whether, as far as known, there is nothing to do until the files change or time passes."""
        return self._resting and not self.stirred

    @property
    def owned(self) -> bool:
        """Claimed, and not known to have been taken over."""
        return self._coordinator.owns or (self._given_up != "" and self._coordinator.is_owner(self._given_up))

    @property
    def at_work(self) -> bool:
        """Whether a job runs here, so that the partition may be relieved."""
        return self._coordinator.at_work is not None

    def job_rests(self) -> bool:
        """Whether a job that runs here should stop."""
        return self.topic.rests(self.keys.topic_id)

    @property
    def regressed(self) -> bool:
        """The store went back in time: nothing is done here any more."""
        return isinstance(self.fenced, EpochRegression)

    def look(self, answers: CompactionAnswers) -> Want | None:
        """What it wants a turn for; None: it rests. If nothing has changed since the last read, this costs two GETs, or
        one or none if it has rested for long."""
        if self.regressed:
            return self._rests(Step(StepEnd.FAILED, str(self.fenced)))
        coordinator = self._coordinator
        try:
            if self._known and not self._changed(answers):
                still = drive(coordinator.still_waits(self.topic.config), answers) if self._resting else None
                if still is not None:
                    return self._rests(still)
            else:
                self._known, self._looked = False, None
                self._looked = drive(coordinator.heads(), answers)
                self._known = True
        except LithifyError:
            self._known = False
            return LOOK_AGAIN  # its turn will meet the same error and report it
        self._resting, self._rest = False, None
        self._see()
        return self._wants(answers)

    def _changed(self, answers: CompactionAnswers) -> bool:
        # SUBTLE! 1. A look asks for a next manifest, and finds none. 2. An append of this process stirs the partition.
        # 3. The look forgets that, and the partition rests for minutes. So it is forgotten before anything is asked.
        # Test: tests/compactor/test_resting.py
        if not self._resting or self.stirred:
            self._rest = None
        self.stirred = False
        asked_ms = answers(Now())
        if self._rest is None:
            changed = drive(self._coordinator.changed(), answers)
            self._rest = self._rests_by.begin(self.keys.root, asked_ms)
            return changed
        asks = self._rest.asks(asked_ms)
        if drive(self._coordinator.files.moved(asks), answers):
            return True
        self._rest.asked(asks, asked_ms)
        return False

    def turn(self, want: Want, answers: CompactionAnswers) -> Turned:
        """One step, and so one job at most. A LithifyError makes it a failed step."""
        if self.done.before is None and self._manifest is not None:
            self.done.before = holdings(self._manifest, answers(Now()))
        self._known, error = True, None
        try:
            step = self._step(answers)
        except LithifyError as raised:
            step, error = Step(StepEnd.FAILED, str(raised)), raised
            self._known = False
        self._relief = None  # the next job gets a new relief coordinator; one that is running keeps its own reference
        self._see()
        self.done.add(step, None if error is None else Fault.of(error))
        if isinstance(error, Fenced):
            self._lost(error)
        if step.outcome is StepEnd.DEFERRED:
            return Turned(self._wants(answers), deferred=want.bytes > 0)
        ended = step.job is not None and not step.job.active
        tried = step.outcome is StepEnd.FAILED and step.job is not None
        if step.outcome is StepEnd.WORKED or ended or (tried and self._may_do_more(answers)):
            still = self._still_waits(answers) if step.completed else None
            if still is None:
                return Turned(self._wants(answers))
            self.done.rests(still)
            step = still
        self._resting, self._rest, self.take_over = step.outcome.rests, None, False
        return Turned(None)

    def look_beside(self, answers: CompactionAnswers) -> Want | None:
        """As `look`, for the coordinator that relieves a running job. It runs in another thread than that job."""
        main = self._coordinator
        if main.at_work is None:
            return None
        relief = self._relief
        if relief is None or not relief.relieves(main):
            relief = self._relief = main.relief()
        drive(relief.files.heads(), answers)
        return relief.want(self.topic.config, answers(Now()))

    def turn_beside(self, want: Want, answers: CompactionAnswers) -> Turned:
        """As `turn`, for the relief. Raises LithifyError; the job's own next step settles what is left."""
        relief = self._relief
        if relief is None or answers.stopping:
            return Turned(None)
        try:
            with suppress(NotFound):  # deleted: the partition itself reports it
                self.topic.read()
            step = drive(relief.step(self.topic.config), answers)
        finally:
            answers.step_ended()
        if step.job is not None or step.dropped:
            self._beside.append(step)
        if not step.outcome.goes_on:
            return Turned(None)
        again = relief.want(self.topic.config, answers(Now()))
        return Turned(again, deferred=step.outcome is StepEnd.DEFERRED and want.bytes > 0 and again is not None)

    def end_relief(self) -> None:
        """Forget a relief that failed: the job's own next step meets the same error, and settles what is left."""
        self._relief = None

    def failed(self, fault: Fault) -> None:
        """A fault of ours: the coordinator's state is unknown. A new one claims, and settles what was in flight."""
        self.done.add(Step(StepEnd.FAILED, fault.text), fault)
        owned, former = self.owned, self._coordinator.owner if self._coordinator.owns else self._given_up
        self._given_up = former if owned else ""
        self._replace(stands_by=self._stands_by and not owned)

    def leave(self, driver: Driver) -> None:
        """Requires: no turn is under way. Raises LithifyError."""
        driver.run(self._coordinator.leave())

    def report(self, now_ms: int) -> PartitionReport:
        """What was done since the last report."""
        while self._beside:
            self.done.note(self._beside.popleft())
        last = self.done.last
        if last is None or (last.outcome.goes_on and self.done.turns < TURNS_MAX):
            self.done.rests(TOLD_TO_STOP)  # it was about to continue
        return self.done.report(self.keys, self._manifest, now_ms)

    def _step(self, answers: CompactionAnswers) -> Step:
        if answers.stopping:
            return TOLD_TO_STOP
        owned = self.owned
        try:
            topic, heads = self._read(answers)
            if topic is not None and drive(keep_bounds(self._coordinator.files, topic), answers):
                heads = None
            return drive(self._coordinator.step(self.topic.config, self.take_over, heads), answers)
        except Fenced as error:
            if owned or self._coordinator.claimed or isinstance(error, EpochRegression):
                raise
            self._stand_by()  # it never owned this partition and lost the race for it: nothing was taken from it
            return Step(StepEnd.STANDBY, f"{error}; waiting as a standby")
        finally:
            answers.step_ended()

    def _read(self, answers: CompactionAnswers) -> tuple[TopicFile | None, Heads]:
        """The topic and both heads. What was altered while others had their turn applies to the next step already: a
        job keeps to it until its end.

        SUBTLE! Where a look of a moment ago found no owner, its reading will do: it decides whether to claim. The claim
        is refused if another came first, and the job is planned by what the claim found. Where there is an owner, it
        will not do: 1. B looks; A, the owner, rests. 2. A begins a job, which leaves no trace in the manifest. 3. B
        claims, and A is fenced in the middle of its work. Nor will it where A was about to become the owner: its claim
        was in the manifest, and not yet in `.compactor`. Tests: tests/compactor/test_claims_after_looks.py
        """
        looked, self._looked = self._looked, None
        if looked is not None and looked.unowned and (topic := self.topic.read_lately(looked.now_ms)) is not None:
            return topic, looked
        return self.topic.read_beside(self._coordinator.heads(), answers)

    def _may_do_more(self, answers: CompactionAnswers) -> bool:
        """Whether there is something else to do while a job waits for its next attempt."""
        return not answers.stopping and self._still_waits(answers) is None

    def _still_waits(self, answers: CompactionAnswers) -> Step | None:
        """How a step would end that finds what this one left behind: after a commit both files were the heads, and need
        not be read again just to find that nothing is due. None: there is more to do."""
        return drive(self._coordinator.still_waits(self.topic.config), answers)

    def _see(self) -> None:
        self._manifest = self._coordinator.files.manifest.seen.value or self._manifest

    def _wants(self, answers: CompactionAnswers) -> Want:
        """What its next turn is for, as far as known."""
        return self._coordinator.want(self.topic.config, answers(Now()), take_over=self.take_over) or LOOK_AGAIN

    def _rests(self, step: Step) -> None:
        """A look found that a step would come to `step`: there is nothing to do until something changes."""
        self.done.rests(step)
        self._resting, self.take_over = step.outcome.rests, False

    def _lost(self, error: Fenced) -> None:
        """A fenced coordinator never claims again (P5): a new one stands by. If the store went back in time there is
        none."""
        self.fenced, self._given_up = error, ""
        keys = self.keys
        lost = Lost(topic=keys.topic, topic_id=keys.topic_id, partition=keys.partition, fault=Fault.of(error))
        self._events(lost)
        if not self.regressed:
            self._stand_by()

    def _stand_by(self) -> None:
        self._stands_by = True
        self._replace(stands_by=True)

    def _replace(self, *, stands_by: bool) -> None:
        self._coordinator = Coordinator(self._files.again(), self._worker, stands_by=stands_by)
        self._looked = None
        self._known = self._resting = self.take_over = False
