"""The compactor's shell: every partition of every topic, with bounded concurrency; one pass, or for ever."""

import logging
import os
import queue
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

import structlog

from lithify.compactor.answers import CompactionAnswers
from lithify.compactor.coordinator import Coordinator, Step
from lithify.compactor.engine import Engine
from lithify.compactor.info import CompactionInfo, MaintenanceReport, PartitionReport, compaction_info
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage, topic_names
from lithify.manifest.commit import Lineage
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver, drive
from lithify.store.errors import (
    CommitUnknown,
    EpochRegression,
    Fenced,
    InvalidRequest,
    LithifyError,
    NotFound,
)

__all__ = ["Compactor", "WarehouseLike", "make_engine"]

STEPS_MAX = 1_000  # of one partition in one pass; the policy converges long before
IDLE_MS = 15_000

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
    `concurrency`: partitions worked on at once. One Compactor is one owner: where it is fenced it never claims again.
    """

    def __init__(
        self,
        warehouse: WarehouseLike,
        engine: "str | Engine" = "spark",
        *,
        concurrency: int = 2,
        interval_ms: int = IDLE_MS,
    ) -> None:
        self._driver = warehouse.driver
        self._engine = make_engine(engine)
        self._concurrency = concurrency
        self._interval_ms = interval_ms
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._stopping = False
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put is reentrant; no event's set is
        self._topics: dict[str, Lineage[TopicFile]] = {}
        self._partitions: dict[PartitionKeys, _Partition] = {}

    def run_once(self, take_over: bool = False) -> MaintenanceReport:
        """One pass over all partitions, each until nothing is due. `take_over` claims partitions whose compactor is
        at work. A partition's failure is in its report and stops no other; raises Fenced when others have taken
        over all that this compactor owned, EpochRegression when a store went back in time."""
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="lithify-compactor") as pool:
            reports = list(
                pool.map(lambda due: self._maintain(due[0], due[1], take_over), list(self._due_partitions()))
            )
        done = tuple(reports)
        lost = [p for p in self._partitions.values() if p.coordinator.fenced]
        for partition in lost:
            if isinstance(partition.lost, EpochRegression):
                raise partition.lost
        if lost and lost[0].lost and not any(p.coordinator.owns for p in self._partitions.values()):
            raise lost[0].lost
        more = any(r.outcome in ("failed", "waiting", "stopped", "standby") for r in done)
        return MaintenanceReport(partitions=done, more_work=more)

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

    def _due_partitions(self) -> Iterator[tuple[PartitionKeys, TopicConfig]]:
        for name in self._driver.run(topic_names()):
            lineage = self._topics.setdefault(name, topic_lineage(name))
            try:
                topic = self._driver.run(live_topic(lineage, name))
            except NotFound:
                continue
            except LithifyError as error:
                log.error("topic skipped", topic=name, error=str(error))
                continue
            config = parse(topic.config)
            for keys in partition_keys(topic):
                yield keys, config

    def _maintain(self, keys: PartitionKeys, config: TopicConfig, take_over: bool) -> PartitionReport:
        partition = self._partitions.setdefault(keys, _Partition(keys, self._worker))
        answers = CompactionAnswers(self._driver, self._engine, lambda: self._stopping)
        try:
            return partition.maintain(answers, config, take_over, self._driver)
        finally:
            answers.close()


class _Partition:
    """One partition across passes: its coordinator, and what it last found."""

    def __init__(self, keys: PartitionKeys, worker: str) -> None:
        self.keys = keys
        self.coordinator = Coordinator(PartitionFiles(keys), worker)
        self.lost: Fenced | None = None
        self._resting = False  # the last pass found nothing to do

    def maintain(
        self, answers: CompactionAnswers, config: TopicConfig, take_over: bool, driver: Driver
    ) -> PartitionReport:
        if self.lost is not None:
            return self._report("standby", str(self.lost), [], None)
        steps: list[Step] = []
        before = self._head()
        try:
            if not self._resting:
                before = drive(self.coordinator.files.head(), answers)
            for _ in range(STEPS_MAX):
                if answers.stopping:
                    steps.append(Step("stopped", "told to stop"))
                    break
                step = drive(self._next(config, take_over), answers)
                steps.append(step)
                if step.job is not None:
                    _tell(self.keys, step)
                ended = step.job is not None and not step.job.active
                if step.outcome != "worked" and not ended:
                    break
        except Fenced as error:
            self.lost = error
            log.warning("fenced", topic=self.keys.topic, partition=self.keys.partition, error=str(error))
            return self._report("failed", str(error), self._infos(steps, driver), before)
        except LithifyError as error:
            kind = "commit unknown" if isinstance(error, CommitUnknown) else "partition failed"
            log.error(kind, topic=self.keys.topic, partition=self.keys.partition, error=str(error))
            self._resting = False
            return self._report("failed", str(error), self._infos(steps, driver), before)
        last = steps[-1]
        self._resting = last.outcome in ("idle", "waiting")
        outcomes = [step.outcome for step in steps]
        outcome = next((o for o in ("failed", "worked") if last.outcome == "idle" and o in outcomes), last.outcome)
        return self._report(outcome, last.detail, self._infos(steps, driver), before)

    async def _next(self, config: TopicConfig, take_over: bool) -> Step:
        """The next step; a partition that rests is asked with two GETs whether anything is new."""
        if self._resting and not await self.coordinator.changed():
            waiting = await self.coordinator.still_waits(config)
            if waiting is not None:
                return waiting
        self._resting = False
        return await self.coordinator.step(config, take_over)

    def _head(self) -> Manifest | None:
        return self.coordinator.files.manifest.seen.value

    def _infos(self, steps: list[Step], driver: Driver) -> list[CompactionInfo]:
        latest = {step.job.id: step.job for step in steps if step.job is not None}
        now_ms = driver.now_ms() if latest else 0
        return [compaction_info(self.keys.topic, self.keys.partition, job, now_ms) for job in latest.values()]

    def _report(
        self, outcome: str, detail: str, infos: list[CompactionInfo], before: Manifest | None
    ) -> PartitionReport:
        after = self._head()
        before = before or after
        return PartitionReport(
            topic=self.keys.topic,
            partition=self.keys.partition,
            outcome=outcome,
            detail=detail,
            jobs=tuple(infos),
            records_before=_records(before),
            records_after=_records(after),
            bytes_before=_bytes(before),
            bytes_after=_bytes(after),
        )


def _records(manifest: Manifest | None) -> int:
    return 0 if manifest is None else sum(segment.rows for segment in manifest.segments())


def _bytes(manifest: Manifest | None) -> int:
    return 0 if manifest is None else sum(segment.bytes for segment in manifest.segments())


def _tell(keys: PartitionKeys, step: Step) -> None:
    job = step.job
    assert job is not None
    tell = log.error if step.outcome == "failed" else log.info
    tell(
        f"compaction {job.status}",
        topic=keys.topic,
        partition=keys.partition,
        job=job.id,
        kind=job.kind,
        reason=step.detail,
        rows_in=job.counts.rows_in,
        rows_out=job.counts.rows_out,
        bytes_read=job.counts.bytes_read,
        bytes_written=job.counts.bytes_written,
        attempts=len(job.attempts),
    )
