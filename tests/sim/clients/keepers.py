"""Those who write plainly, and those who keep the topic: growth, deletion by hand, compaction, collection."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import TaskFailure
from lithify.compactor.engines.outcome import outcome_of
from lithify.gc.collector import Collector
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.config import parse
from lithify.manifest.partition import PartitionFiles
from lithify.segment.execute import execute
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.driver import drive
from lithify.store.errors import CommitUnknown, Fenced, InvalidRequest, OffsetOutOfRange, Unavailable
from lithify.store.port import Store
from tests.sim.cast import Violation
from tests.sim.clients.site import TOPIC, TRANSIENT, Site
from tests.sim.clients.truth import KEYS, Row
from tests.sim.clients.world import Process

__all__ = ["PARTITIONS_MAX", "collector", "compactor", "grower", "trimmer", "writer"]

Main = Callable[[Process], None]
PARTITIONS_MAX = 4


def writer(site: Site, appends: int) -> Main:
    """Each append is of one key, and so of one partition."""
    left = appends

    def main(process: Process) -> None:
        nonlocal left
        say = process.actor.say
        topic = None
        while left > 0:
            site.rest(process)
            with suppress(*TRANSIENT):
                topic = topic if topic is not None and say.random() < 0.7 else site.open(process)
                left -= 1
                _append(site, process, topic, f"{process.actor.name}.{left}")

    return main


def _append(site: Site, process: Process, topic: Topic, value: str) -> None:
    say = process.actor.say
    key = say.choice(KEYS)
    values = [f"{value}.{n}".encode() for n in range(say.choice((1, 1, 2, 4)))]
    rows = [Row(key, None if say.random() < 0.15 else each) for each in values]
    site.truth.known.update(row.value for row in rows if row.value is not None)
    try:
        (told,) = topic.append([Record(row.key, row.value) for row in rows]).items()
    except CommitUnknown:
        raise
    except Unavailable:
        site.truth.refused.update(row.value for row in rows if row.value is not None)
        raise
    number, offsets = told
    site.world.counts["append acknowledged"] += 1
    for offset, row in zip(offsets, rows, strict=True):
        site.told(number, offset, row)


def grower(site: Site) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process, 12)
            with suppress(*TRANSIENT, InvalidRequest):
                topic = site.open(process)
                if topic.partitions < PARTITIONS_MAX:
                    topic.alter(partitions=topic.partitions + process.actor.say.choice((1, 1, 2)))
                    site.world.counts["grown"] += 1

    return main


def trimmer(site: Site) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process, 10)
            with suppress(*TRANSIENT, OffsetOutOfRange):
                topic = site.open(process)
                part = topic.partition(process.actor.say.randrange(topic.partitions))
                part.delete_records(part.describe().log_start_offset + process.actor.say.randrange(4))

    return main


class _Inline:
    """An engine that does its tasks at once, in the process that asks."""

    name = "inline"

    def start(self, store: Store, tasks: Sequence[MergeTask], label: str) -> "_Done":
        return _Done([outcome_of(task, lambda task=task: execute(task, store)) for task in tasks])

    def close(self) -> None:
        """Nothing runs."""


class _Done:
    def __init__(self, results: list[TaskResult | TaskFailure]) -> None:
        self._results = results

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        found, self._results = self._results, []
        return found

    def stop(self) -> None:
        """Nothing runs."""


def compactor(site: Site) -> Main:
    def main(process: Process) -> None:
        known: dict[int, Coordinator] = {}
        while True:
            site.rest(process)
            number = -1
            try:
                topic = process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC))
                keys = partition_keys(topic)
                number = process.actor.say.randrange(len(keys))
                if number not in known:
                    known[number] = Coordinator(PartitionFiles(keys[number]), process.actor.name)
                answers = CompactionAnswers(process.driver, _Inline(), Budget(), lambda: False, lambda: False)
                step = drive(known[number].step(parse(topic.config)), answers)
                site.world.counts[f"compactor: {step.outcome}"] += 1
            except Fenced:
                known.pop(number)
            except TRANSIENT:
                continue

    return main


def collector(site: Site) -> Main:
    def main(process: Process) -> None:
        collector = Collector(Warehouse(process.driver), grace_ms=site.grace_ms)
        while True:
            site.rest(process, 2)
            with suppress(*TRANSIENT):
                done = collector.run_once(sweep=process.actor.say.random() < 0.2)
                site.world.counts["object collected"] += len(done.deleted)
                for each in done.partitions:
                    if each.error_kind not in (None, "Unavailable", "CommitUnknown", "AccessDenied", "NotFound"):
                        raise Violation(f"collecting partition {each.partition}: {each.error}")

    return main
