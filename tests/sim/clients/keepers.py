"""Those who keep the topic: growth, deletion by hand, consumers that are reset or deleted, compaction, collection."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.coordinator import Coordinator
from lithify.gc.collector import Collector
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.config import parse
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.segment.execute import execute
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.driver import drive
from lithify.store.errors import CommitUnknown, Fenced, InvalidRequest, NotFound, OffsetOutOfRange, Unavailable
from lithify.store.homes import Homes
from lithify.work.outcome import outcome_of
from tests.sim.cast import Violation
from tests.sim.clients.site import TOPIC, Site
from tests.sim.clients.world import Process

__all__ = ["PARTITIONS_MAX", "collector", "compact", "compactor", "grower", "operator", "trimmer"]

Main = Callable[[Process], None]
PARTITIONS_MAX = 5
OUTAGES_OF_A_PARTITION = {each.kind for each in (Unavailable, CommitUnknown, NotFound)}


def grower(site: Site) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process, 12)
            with site.outages(), suppress(InvalidRequest):
                topic = site.open(process)
                if topic.partitions < PARTITIONS_MAX:
                    site.truth.grows(process.actor.name)
                    topic.alter(partitions=topic.partitions + process.actor.say.choice((1, 1, 2)))
                    site.world.counts["grown"] += 1

    return main


def trimmer(site: Site) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process, 10)
            with site.outages(), suppress(OffsetOutOfRange):
                topic = site.open(process)
                part = topic.partition(process.actor.say.randrange(topic.partitions))
                before = part.describe().log_start_offset + process.actor.say.randrange(4)
                site.truth.logs[part.number].delete_asked.add(before)
                part.delete_records(before)

    return main


def operator(site: Site, name: str) -> Main:
    """Puts the positions of a consumer elsewhere, and deletes them."""

    def main(process: Process) -> None:
        say = process.actor.say
        while True:
            site.rest(process, 10)
            with site.outages(), suppress(OffsetOutOfRange, NotFound):
                topic = site.open(process)
                part = topic.partition(say.randrange(topic.partitions))
                asked = site.groups.asked[name, part.number]
                if say.random() < 0.3:
                    asked.append("delete")
                    part.delete_consumer(name)
                    continue
                ways: tuple[int | Literal["earliest", "latest"], ...] = ("earliest", "latest", say.randrange(12))
                to = say.choice(ways)
                asked.append(to)
                part.reset_consumer(name, to)

    return main


class _Inline:
    """An engine that does its tasks at once, in the process that asks."""

    name = "inline"

    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> "_Done":
        return _Done([outcome_of(task, lambda task=task: execute(task, homes)) for task in tasks])

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
            with site.outages():
                topic = process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC))
                number = process.actor.say.randrange(topic.partitions)
                try:
                    compact(site, process, topic, number, known)
                except Fenced:
                    known.pop(number)

    return main


def compact(site: Site, process: Process, topic: TopicFile, number: int, known: dict[int, Coordinator]) -> None:
    """One step. `known` are the coordinators of this process, by partition."""
    if number not in known:
        known[number] = Coordinator(PartitionFiles(partition_keys(topic)[number]), process.actor.name)
    answers = CompactionAnswers(process.driver, _Inline(), Budget(), lambda: False, lambda: False)
    step = drive(known[number].step(parse(topic.config)), answers)
    site.world.counts[f"compactor: {step.outcome}"] += 1


def collector(site: Site) -> Main:
    def main(process: Process) -> None:
        collector = Collector(Warehouse(process.driver), grace_ms=site.grace_ms)
        while True:
            site.rest(process, 2)
            with site.outages():
                done = collector.run_once(sweep=process.actor.say.random() < 0.2)
                site.world.counts["object collected"] += len(done.deleted)
                for each in done.partitions:
                    if each.fault is not None and each.fault.kind not in OUTAGES_OF_A_PARTITION:
                        raise Violation(f"collecting partition {each.partition}: {each.fault}")

    return main
