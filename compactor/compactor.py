"""The compactor's shell: every partition of every topic, with bounded concurrency; one pass, or for ever."""

import logging
import os
import queue
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

import structlog

from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.attempt import Outcome, Step
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import Engine
from lithify.compactor.info import MaintenanceReport, PartitionReport, compaction_info, nothing_done
from lithify.compactor.policy import URGENCY_NONE, urgency
from lithify.manifest.ages import young
from lithify.manifest.catalog import keep_bounds, live_topic, partition_keys, topic_lineage
from lithify.manifest.config import parse
from lithify.manifest.ended import Known
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import floor_at, logical_size
from lithify.store.apart import Failure, Told, attempt
from lithify.store.driver import Driver, drive
from lithify.store.errors import (
    EpochRegression,
    Fenced,
    InvalidRequest,
    LithifyError,
    NotFound,
)
from lithify.store.port import Now

__all__ = ["Compactor", "WarehouseLike", "make_engine"]

STEPS_MAX = 1_000  # of one partition in one pass; the policy converges long before
IDLE_MS = 15_000
CONFIG_FRESH_MS = 10_000
ENDS: "tuple[Outcome, ...]" = ("failed", "worked")  # what a pass came to that ends with nothing to do

log = structlog.wrap_logger(logging.getLogger("lithify.compactor"))


class WarehouseLike(Protocol):
    """What a compactor needs of a warehouse."""

    @property
    def driver(self) -> Driver: ...


def make_engine(engine: "str | Engine") -> Engine:
    """An engine by name ("spark", "local"), or the engine given. Raises InvalidRequest."""
    if not isinstance(engine, str):
        return engine
    if engine == "local":
        from lithify.compactor.engines.local import LocalEngine

        return LocalEngine()
    if engine == "spark":
        from lithify.compactor.engines.spark import SparkEngine

        return SparkEngine()
    raise InvalidRequest(f"no engine is named {engine!r}: use 'spark' or 'local', or give a SparkEngine")


class Compactor:
    """Compacts the partitions of a warehouse.

    `engine`: "spark" (the default; its session starts when the first job is due), "local", or an engine.
    `concurrency`: partitions worked on at once. `bytes_in_flight`: how much their jobs may read at once, None: any
    amount; a larger job runs alone. One Compactor is one owner: where it is fenced it never claims again.
    """

    def __init__(
        self,
        warehouse: WarehouseLike,
        engine: "str | Engine" = "spark",
        *,
        concurrency: int = 2,
        interval_ms: int = IDLE_MS,
        bytes_in_flight: int | None = None,
    ) -> None:
        self._driver = warehouse.driver
        self._engine = make_engine(engine)
        self._concurrency = concurrency
        self._interval_ms = interval_ms
        self._budget = Budget(bytes_in_flight)
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._stopping = False
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put is reentrant; no event's set is
        self._topics: dict[str, _Topic] = {}
        self._partitions: dict[PartitionKeys, _Partition] = {}
        self._known = Known()
        self._told = Told()

    def run_once(self, take_over: bool = False) -> MaintenanceReport:
        """One pass over all partitions, each until nothing is due: first a look at all, then those that need it most
        (docs/rfcs/0008). `take_over` claims partitions whose compactor is at work. A partition's failure is in its
        report and stops no other; one of a topic that cannot be read is under partition -1. Raises Fenced when others
        have taken over all that this compactor owned, EpochRegression when a store went back in time."""
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="lithify-compactor") as pool:
            partitions, unread = self._due_partitions()
            ranks = list(pool.map(self._look, partitions))
            ordered = [p for _, p in sorted(zip(ranks, partitions, strict=True), key=lambda pair: pair[0])]
            done: dict[PartitionKeys, PartitionReport] = {}
            while ordered:
                reports = pool.map(lambda partition: self._maintain(partition, take_over), ordered)
                done |= {partition.keys: report for partition, report in zip(ordered, reports, strict=True)}
                # Put off for want of room: by now the others are done, and whoever comes first has all of it.
                ordered = [p for p in ordered if done[p.keys].outcome == "deferred" and not self._stopping]
        lost = [p for p in self._partitions.values() if p.coordinator.fenced]
        for partition in lost:
            if isinstance(partition.lost, EpochRegression):
                raise partition.lost
        if lost and lost[0].lost and not any(p.coordinator.owns for p in self._partitions.values()):
            raise lost[0].lost
        reports = (*unread, *(done[partition.keys] for partition in partitions))
        more = any(r.outcome in ("failed", "waiting", "stopped", "standby", "deferred") for r in reports)
        return MaintenanceReport(partitions=reports, more_work=more)

    def run(self) -> None:
        """Passes until `stop` is called, with a rest between them. Raises as `run_once`."""
        while not self._stopping:
            self.run_once()
            with suppress(queue.Empty):
                self._woken.get(timeout=self._interval_ms / 1000)

    def stop(self) -> None:
        """Finish recording what has finished, and leave: `run` and `run_once` return soon. Safe in a signal handler."""
        self._stopping = True
        self._woken.put(None)

    def close(self) -> None:
        """Stop the engine (a session that was given stays)."""
        self._engine.close()

    def _due_partitions(self) -> "tuple[list[_Partition], list[PartitionReport]]":
        """All partitions of live topics, and a report for each topic that cannot be read."""
        partitions: list[_Partition] = []
        unread: list[PartitionReport] = []
        names, _ = self._driver.run(self._known.topics())
        kept: set[PartitionKeys] = set()
        for name in names:
            topic = self._topics.setdefault(name, _Topic(name, self._driver))
            found = attempt(topic.read)
            if isinstance(found, Failure):
                if not isinstance(found.error, NotFound):
                    kept |= {keys for keys in self._partitions if keys.topic == name}
                    self._told.tell(log, "topic skipped", name, -1, found.text)
                    unread.append(nothing_done(name, -1, found.kind, found.text))
                continue
            self._told.tell(log, "topic skipped", name, -1, None)
            partitions += [
                self._partitions.setdefault(keys, _Partition(keys, self._worker, topic))
                for keys in partition_keys(found)
            ]
        # Of a topic that was deleted nothing is remembered; a long life sees many of them.
        kept |= {partition.keys for partition in partitions}
        self._partitions = {keys: partition for keys, partition in self._partitions.items() if keys in kept}
        self._topics = {name: topic for name, topic in self._topics.items() if name in names}
        return partitions, unread

    def _look(self, partition: "_Partition") -> tuple[int, int]:
        def look() -> tuple[int, int]:
            with self._answers(partition) as answers:
                return partition.look(answers)

        rank = attempt(look)
        failure = rank if isinstance(rank, Failure) else None  # it comes last; what `maintain` meets, too, it reports
        where = partition.keys.topic, partition.keys.partition
        self._told.tell(log, "partition not ranked", *where, failure and failure.text)
        return (URGENCY_NONE, 0) if isinstance(rank, Failure) else rank

    def _maintain(self, partition: "_Partition", take_over: bool) -> PartitionReport:
        def maintain() -> PartitionReport:
            with self._answers(partition) as answers:
                return partition.maintain(answers, take_over, self._driver)

        keys = partition.keys
        report = attempt(maintain)
        if isinstance(report, Failure):
            if report.error is None:
                # In what state its coordinator was left is not known: a new one claims, and settles what was in flight.
                self._partitions.pop(keys, None)
            report = nothing_done(keys.topic, keys.partition, report.kind, report.text)
        failed = report.error is not None and partition.lost is None
        self._told.tell(log, "partition failed", keys.topic, keys.partition, report.detail if failed else None)
        return report

    def _answers(self, partition: "_Partition") -> "closing[CompactionAnswers]":
        paused = partition.topic.paused
        return closing(CompactionAnswers(self._driver, self._engine, self._budget, lambda: self._stopping, paused))


class _Topic:
    """A topic's configuration, read anew at every pass, before every step, and while a job runs every ten seconds.
    Thread-safe."""

    def __init__(self, name: str, driver: Driver) -> None:
        self._name = name
        self._driver = driver
        self._lineage = topic_lineage(name)
        self._lock = threading.Lock()
        self._read_at_ms = 0
        self.config = parse({})

    def read(self) -> TopicFile:
        """Raises NotFound where it was deleted."""
        with self._lock:
            topic = self._driver.run(live_topic(self._lineage, self._name))
            self.config, self._read_at_ms = parse(topic.config), self._driver.now_ms()
            return topic

    def paused(self) -> bool:
        """Whether a job that runs shall rest."""
        if not young(self._read_at_ms, self._driver.now_ms(), CONFIG_FRESH_MS):
            with suppress(LithifyError):  # the job's own next commit, or the next pass, tells of it
                self.read()
        return self.config.compaction_paused


class _Partition:
    """One partition across passes: its coordinator, and what it last found."""

    def __init__(self, keys: PartitionKeys, worker: str, topic: _Topic) -> None:
        self.keys = keys
        self.topic = topic
        self.coordinator = Coordinator(PartitionFiles(keys), worker)
        self.lost: Fenced | None = None
        self._resting = False  # the last pass found nothing to do

    def look(self, answers: CompactionAnswers) -> tuple[int, int]:
        """How urgent its work is (`urgency`). One that rests is asked with two GETs whether anything is new."""
        files = self.coordinator.files
        try:
            if self.lost is not None:
                return URGENCY_NONE, 0
            if not self._resting or drive(self.coordinator.changed(), answers):
                self._resting = False
                drive(files.head(), answers)
                drive(files.compactor_state(), answers)
        except LithifyError:
            self._resting = False  # `maintain` meets it again, and reports it
        manifest = self._head()
        if manifest is None:
            return URGENCY_NONE, 0
        return urgency(manifest, files.compactor.seen.value, self.topic.config, answers(Now()))

    def maintain(self, answers: CompactionAnswers, take_over: bool, driver: Driver) -> PartitionReport:
        before = self._holdings(driver)
        if self.lost is not None:
            return self._report(Step("standby", str(self.lost)), [], before, driver)
        steps: list[Step] = []
        try:
            for _ in range(STEPS_MAX):
                if answers.stopping:
                    steps.append(Step("stopped", "told to stop"))
                    break
                try:
                    step = self._next(answers, take_over)
                finally:
                    answers.step_ended()
                steps.append(step)
                if step.job is not None or step.dropped:
                    _tell(self.keys, step)
                ended = step.job is not None and not step.job.active
                if step.outcome != "worked" and not ended:
                    break
        except Fenced as error:
            self.lost = error
            log.warning("fenced", topic=self.keys.topic, partition=self.keys.partition, error=str(error))
            return self._report(Step("failed", str(error)), steps, before, driver, error)
        except LithifyError as error:
            self._resting = False
            return self._report(Step("failed", str(error)), steps, before, driver, error)
        last = steps[-1]
        self._resting = last.outcome in ("idle", "waiting")
        outcomes = [step.outcome for step in steps]
        if last.outcome == "idle":
            last = next((replace(last, outcome=o) for o in ENDS if o in outcomes), last)
        return self._report(last, steps, before, driver)

    def _next(self, answers: CompactionAnswers, take_over: bool) -> Step:
        if self._resting:
            waiting = drive(self.coordinator.still_waits(self.topic.config), answers)
            if waiting is not None:
                return waiting
        self._resting = False
        # What was altered while other partitions had their turn holds for this step, too: a job goes by it to its end.
        with suppress(NotFound):  # deleted: the partition itself says so
            drive(keep_bounds(self.coordinator.files, self.topic.read()), answers)
        return drive(self.coordinator.step(self.topic.config, take_over), answers)

    def _head(self) -> Manifest | None:
        return self.coordinator.files.manifest.seen.value

    def _holdings(self, driver: Driver) -> "_Holdings":
        manifest = self._head()
        if manifest is None:
            return _Holdings(0, 0, 0, 0, 0)
        floor = floor_at(manifest, driver.now_ms())
        size = sum(segment.bytes for segment in manifest.segments())
        return _Holdings(floor, manifest.rows, size, *logical_size(manifest, floor))

    def _report(
        self,
        last: Step,
        steps: list[Step],
        before: "_Holdings",
        driver: Driver,
        error: LithifyError | None = None,
    ) -> PartitionReport:
        jobs = {step.job.id: step.job for step in steps if step.job is not None}
        now_ms = driver.now_ms() if jobs else 0
        where = self.keys.topic, self.keys.partition
        after = self._holdings(driver) if steps else before
        return PartitionReport(
            topic=self.keys.topic,
            partition=self.keys.partition,
            outcome=last.outcome,
            detail=last.detail,
            error=None if error is None else type(error).__name__,
            jobs=tuple(compaction_info(*where, job, now_ms) for job in jobs.values()),
            log_start_offset=after.log_start_offset,
            records_before=before.records,
            records_after=after.records,
            bytes_before=before.bytes,
            bytes_after=after.bytes,
            logical_records_before=before.logical_records,
            logical_records_after=after.logical_records,
            logical_bytes_before=before.logical_bytes,
            logical_bytes_after=after.logical_bytes,
            dropped_segments=sum(len(step.dropped) for step in steps),
            dropped_bytes=sum(segment.bytes for step in steps for segment in step.dropped),
        )


class _Holdings(NamedTuple):
    """What a partition holds in live segments, and of that what readers see."""

    log_start_offset: int
    records: int
    bytes: int
    logical_records: int
    logical_bytes: int


def _tell(keys: PartitionKeys, step: Step) -> None:
    where = {"topic": keys.topic, "partition": keys.partition, "reason": step.detail}
    job = step.job
    if job is None:
        size = sum(segment.bytes for segment in step.dropped)
        log.info("segments dropped", **where, segments=len(step.dropped), bytes=size)
        return
    tell = log.error if step.outcome == "failed" else log.info
    tell(
        f"compaction {job.status}",
        **where,
        job=job.id,
        kind=job.kind,
        rows_in=job.counts.rows_in,
        rows_out=job.counts.rows_out,
        bytes_read=job.counts.bytes_read,
        bytes_written=job.counts.bytes_written,
        attempts=len(job.attempts),
    )
