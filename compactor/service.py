"""What a compactor does in the threads of its pool: find the partitions, look at one, take a turn with one."""

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from typing import NamedTuple, TypeVar

from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.engine import Engine
from lithify.compactor.info import PartitionReport, unread_topic
from lithify.compactor.scheduler import Turned
from lithify.compactor.served import LOOK_AGAIN, ServedPartition, ServedTopic
from lithify.compactor.step import StepEnd
from lithify.compactor.tally import TURNS_MAX, Tally
from lithify.compactor.turns import Want
from lithify.events.changes import changes_to
from lithify.events.notices import Waits, What
from lithify.events.troubles import Troubles
from lithify.events.types import Sink
from lithify.manifest.ages import young
from lithify.manifest.catalog import partition_keys
from lithify.manifest.ended import Known
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.rests import EVERY_ROUND, Rests
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver
from lithify.store.errors import ErrorKind
from lithify.store.many import many
from lithify.store.stirred import Stirred

__all__ = ["WAITS_LONG_MS", "Place", "Service", "Tell", "kind_of_rest"]

T = TypeVar("T")
WAITS_LONG_MS = 300_000  # for a turn, before it is reported
_AWAY = (ErrorKind.UNAVAILABLE, ErrorKind.COMMIT_UNKNOWN)
Tell = Callable[[PartitionReport], None]


class Place(NamedTuple):
    """What gets looks and turns: a partition, or the relief `beside` a job of it."""

    keys: PartitionKeys
    beside: bool = False

    @property
    def waits_for(self) -> "Place | None":
        """A partition has no turn while it is being relieved."""
        return None if self.beside else Place(self.keys, beside=True)


class Service:
    """The partitions of a warehouse as one compactor serves them, over all its runs."""

    def __init__(
        self,
        driver: Driver,
        engine: Engine,
        bytes_in_flight: int | None,
        worker: str,
        stopping: Callable[[], bool],
        events: Sink,
        rests: Rests = EVERY_ROUND,
        only: Collection[str] | None = None,
    ) -> None:
        self._driver = driver
        self._only = only  # topics; None: all
        self._rests_by = rests
        self._stirred = Stirred(driver.store.url, driver.store.endpoint_url)
        self._engine = engine
        self._budget = Budget(bytes_in_flight)
        self._worker = worker
        self._stopping = stopping
        self._known = Known()
        self._events = events
        self._troubles = Troubles(events)
        self._topics: dict[str, ServedTopic] = {}
        self._partitions: dict[PartitionKeys, ServedPartition] = {}
        self._found: dict[PartitionKeys, ServedPartition] = {}  # found in this run, in topics that can be read
        self._unread: tuple[PartitionReport, ...] = ()  # a report for each topic that cannot be read
        self._serves = False  # until it is stopped, beside others; else one pass
        self._tell: Tell | None = None
        self._take_over = False

    @property
    def partitions(self) -> Iterable[ServedPartition]:
        """All that are known, by topic and number."""
        return self._partitions.values()

    def begin(self, *, take_over: bool, serves: bool, tell: Tell | None = None) -> None:
        """Begin a run. `take_over`: partitions found in the first round are claimed even if another compactor is at
        work there. `serves`: this run goes on beside others until it is stopped, so it leaves alone partitions that
        another compactor owns; otherwise it is one pass, and `reports` is called at its end. `tell` is called with a
        report each time a partition of a run that serves rests.
        """
        self._take_over, self._serves, self._tell, self._found = take_over, serves, tell, {}
        for partition in self._partitions.values():
            partition.done = Tally()
            partition.fenced = partition.fenced if partition.regressed else None

    def reports(self) -> tuple[PartitionReport, ...]:
        now_ms = self._driver.now_ms()
        return (*self._unread, *(partition.report(now_ms) for partition in self._found.values()))

    def find(self) -> tuple[Place, ...]:
        """All partitions of live topics, and for each with a running job its relief. If topics cannot be listed: raises
        LithifyError, or if it serves continues with those it knows."""
        if not self._serves:
            self._find()
        else:
            self._troubles.tell("topics not listed", attempt(self._find))
        at_work = [keys for keys, partition in self._found.items() if partition.at_work]
        return (*map(Place, self._found), *(Place(keys, beside=True) for keys in at_work))

    def look(self, key: Place) -> Want | None:
        partition = self._partitions.get(key.keys)
        if partition is not None and key.beside:
            return self._beside(partition, partition.look_beside, jobs=False)
        if partition is None or (not self._serves and partition.done.turns >= TURNS_MAX):
            return None
        found = attempt(lambda: self._with_answers(partition, partition.look, jobs=False))
        fault = found if isinstance(found, Fault) else None  # it gets the lowest rank; its turn reports the error
        self._tell_of_trouble("partition not ranked", fault, key.keys)
        if isinstance(found, Fault):
            return LOOK_AGAIN
        self._tell_of_waiting(partition, found)
        if found is None:
            self._raise_if_regressed(partition)
            self._rests(partition)
        return found

    def turn(self, key: Place, want: Want) -> Turned:
        partition = self._partitions.get(key.keys)
        if partition is None:  # its topic is gone
            return Turned(None)
        before = partition.fenced
        if key.beside:
            turned = self._beside(partition, lambda answers: partition.turn_beside(want, answers), jobs=want.bytes > 0)
            return turned or Turned(None)
        turned = attempt(
            lambda: self._with_answers(partition, lambda answers: partition.turn(want, answers), jobs=want.bytes > 0)
        )
        if isinstance(turned, Fault):
            partition.failed(turned)
            turned = Turned(None)
        if not turned.deferred:
            partition.waits_since_ms = None
        if partition.done.turns >= TURNS_MAX and not self._serves:
            turned = Turned(None)
        self._raise_if_regressed(partition)
        if partition.fenced is not before:
            self._raise_if_all_was_lost(partition)
        fault = None if partition.regressed else partition.done.fault
        self._tell_of_trouble("partition failed", fault, key.keys)
        if turned.want is None or partition.done.turns >= TURNS_MAX:
            self._rests(partition)
        return turned

    def _beside(
        self, partition: ServedPartition, do: Callable[[CompactionAnswers], T | None], *, jobs: bool
    ) -> T | None:
        """Run `do` for the relief of `partition`. An error ends the relief; the partition settles the rest itself."""
        done = attempt(lambda: self._with_answers(partition, do, jobs=jobs))
        self._tell_of_trouble("partition not relieved", done, partition.keys)
        if isinstance(done, Fault):
            partition.end_relief()
            return None
        return done

    def _tell_of_waiting(self, partition: ServedPartition, want: Want | None) -> None:
        """Report a partition that has waited long for its turn, once. Every round looks at those that wait."""
        if want is None or not want.bytes:
            partition.waits_since_ms = None
            return
        now_ms = self._driver.now_ms()
        since_ms = partition.waits_since_ms = min(partition.waits_since_ms or now_ms, now_ms)  # clocks step back
        if young(since_ms, now_ms, WAITS_LONG_MS):
            return
        keys = partition.keys
        if self._troubles.waits(keys.topic, keys.partition, since_ms):
            waits = Waits(
                topic=keys.topic,
                topic_id=keys.topic_id,
                partition=keys.partition,
                bytes=want.bytes,
                since_ms=since_ms,
            )
            self._events(waits)

    def _tell_of_trouble(self, what: What, outcome: object, keys: PartitionKeys) -> None:
        self._troubles.tell(what, outcome, keys.topic, keys.partition, keys.topic_id)

    def _raise_if_regressed(self, partition: ServedPartition) -> None:
        if partition.regressed and partition.fenced is not None and self._serves:
            raise partition.fenced  # raised at once (P5); `run_once` raises it at its end

    def _raise_if_all_was_lost(self, partition: ServedPartition) -> None:
        """Two threads may lose the last two partitions at once: the later one finds nothing owned, and raises."""
        if not self._serves or partition.fenced is None:
            return  # `run_once` raises at its end
        if not any(each.owned for each in tuple(self.partitions)):
            raise partition.fenced

    def _rests(self, partition: ServedPartition) -> None:
        if not self._serves:
            return
        report = partition.report(self._driver.now_ms())
        partition.done = Tally()
        self._troubles.rests(partition.keys, kind_of_rest(report), report.outcome, report.detail)
        if self._tell is not None:
            self._tell(report)

    def leave(self) -> None:
        """Give up all that is owned, so that a successor need not wait for a lease (P5). That is a courtesy: nothing is
        asked twice, and a store that does not answer is not asked for the next partition. Requires: no turn is under
        way."""
        driver = self._driver.hasty()
        away: list[Fault] = []

        def leave(partition: ServedPartition) -> None:
            left = None if away else attempt(lambda: partition.leave(driver))
            if isinstance(left, Fault) and left.kind in _AWAY:
                away.append(left)
            else:
                self._tell_of_trouble("partition not left", left, partition.keys)

        many(leave, [partition for partition in tuple(self.partitions) if partition.owned])
        self._troubles.tell("partitions not left", away[0] if away else None)

    def _find(self) -> None:
        unread: list[PartitionReport] = []
        found: list[PartitionKeys] = []
        kept: set[PartitionKeys] = set()
        # What this process writes while we look is told in the next round.
        stirred = frozenset(self._stirred.taken())
        names, _ = self._driver.run(self._known.topics())
        names = names if self._only is None else [name for name in names if name in self._only]
        topics = [self._topics.setdefault(name, ServedTopic(name, self._driver)) for name in names]
        restless = {keys.topic for keys, partition in self._partitions.items() if not partition.rests}

        def read_topic(name: str) -> TopicFile | Fault:
            topic, anew = self._topics[name], name in restless or f"{name}/" in stirred
            return attempt(lambda: topic.read_at_rest(self._rests_by, anew=anew))

        reads = many(read_topic, names)
        for name, topic, read in zip(names, topics, reads, strict=True):
            if isinstance(read, Fault) and read.kind is ErrorKind.NOT_FOUND:
                continue
            self._troubles.tell("topic skipped", read, name)
            if isinstance(read, Fault):
                kept |= {keys for keys in self._partitions if keys.topic == name}
                unread.append(unread_topic(name, read))
                continue
            for keys in partition_keys(read):
                partition = self._partitions.get(keys) or ServedPartition(
                    PartitionFiles(keys, changes_to(self._events), self._driver.homes.names),
                    self._worker,
                    topic,
                    self._events,
                    stands_by=self._serves,
                    rests=self._rests_by,
                )
                self._partitions[keys] = partition
                partition.stirred |= keys.root in stirred
                partition.take_over |= self._take_over
                found.append(keys)
        # Deleted topics are forgotten: a long-running service sees many of them.
        kept.update(found)
        self._partitions = {keys: partition for keys, partition in self._partitions.items() if keys in kept}
        self._topics = {name: topic for name, topic in self._topics.items() if name in names}
        self._troubles.keep({*(keys.topic for keys in kept), *(each.topic for each in unread)})
        before = {} if self._serves else self._found
        self._found = before | {keys: self._partitions[keys] for keys in found}
        self._unread, self._take_over = tuple(unread), False

    def _with_answers(self, partition: ServedPartition, do: Callable[[CompactionAnswers], T], *, jobs: bool) -> T:
        rests = partition.job_rests
        answers = CompactionAnswers(self._driver, self._engine, self._budget, self._stopping, rests, jobs=jobs)
        with closing(answers):
            return do(answers)


def kind_of_rest(report: PartitionReport) -> str | None:
    """What makes one rest differ from another: a rest is logged only if this changes. None: nothing is due, or a
    failure, which is reported each time. While a partition waits, its text contains a countdown, so the text is not
    compared."""
    match report.outcome:
        case StepEnd.FAILED | StepEnd.WORKED:
            return None
        case StepEnd.IDLE:
            return None if report.nothing_due else report.detail
        case StepEnd.WAITING | StepEnd.STANDBY | StepEnd.STOPPED | StepEnd.DEFERRED:
            return report.outcome
