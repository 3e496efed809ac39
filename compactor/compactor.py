"""The compactor: every partition of every topic, with bounded concurrency; until nothing is due, or for ever."""

import os
import socket
from typing import Protocol

from lithify.compactor.engine import Engine
from lithify.compactor.info import MaintenanceReport, PartitionReport
from lithify.compactor.scheduler import Scheduler
from lithify.compactor.service import Place, Service, Tell
from lithify.compactor.turns import Turns
from lithify.manifest.event_log import guarded, log_event
from lithify.manifest.events import Sink
from lithify.store.driver import Driver
from lithify.store.errors import EpochRegression, InvalidRequest

__all__ = ["Compactor", "WarehouseLike", "make_engine"]

IDLE_MS = 15_000


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

    >>> warehouse = lithify.open("memory://example")
    >>> topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"})
    >>> for plan in (b"free", b"team", b"pro"):
    ...     _ = topic.append([lithify.Record(b"ada", plan)])
    >>> compactor = lithify.Compactor(warehouse, engine="local")
    >>> [(job.kind, job.counts.rows_in, job.counts.rows_out) for job in compactor.run_once().jobs]
    [('clean', 3, 1)]
    >>> compactor.close()

    - `engine`: "spark" (the default; its session starts when the first job is due), "local", or an engine.
    - `concurrency`: how many jobs run at once. If all are long, one short job and one that a person asked for run
      beside them (docs/rfcs/0014).
    - `interval_ms`: the rest between two rounds, in which every partition is looked at.
    - `bytes_in_flight`: how many bytes of Parquet the jobs may read at once; None: any number. A larger job runs alone,
      but for one short job, which is not counted.
    - `events`: a function that takes what happens (docs/rfcs/0015), called in any thread. Without it, events are
      logged.

    One Compactor is one owner. If it is fenced in a partition it stands by there, and claims it again only if nobody
    serves it; if it is fenced in everything that it owned, it ends.
    """

    def __init__(
        self,
        warehouse: WarehouseLike,
        engine: "str | Engine" = "spark",
        *,
        concurrency: int = 2,
        interval_ms: int = IDLE_MS,
        bytes_in_flight: int | None = None,
        events: Sink = log_event,
    ) -> None:
        self._engine = make_engine(engine)
        self._concurrency = concurrency
        self._interval_ms = interval_ms
        self._bytes_in_flight = bytes_in_flight
        self._stopping = False
        self._scheduler: Scheduler[Place] | None = None  # of the latest run
        worker = f"{socket.gethostname()}:{os.getpid()}"
        told = guarded(events)
        self._service = Service(warehouse.driver, self._engine, bytes_in_flight, worker, self._leaving, told)

    def run_once(self, take_over: bool = False) -> MaintenanceReport:
        """Looks at all partitions, and works until nothing is due: always on what needs it most. `take_over` claims
        partitions whose compactor is at work. A partition's failure is in its report and stops no other; one of a topic
        that cannot be read is under partition -1. Raises Fenced when others have taken over all that this compactor
        owned, EpochRegression when a store went back in time."""
        self._run(take_over, None)
        self._raise_if_lost()
        reports = self._service.reports()
        more = any(report.outcome.leaves_work for report in reports)
        return MaintenanceReport(partitions=reports, more_work=more)

    def run(self, take_over: bool = False, tell: Tell | None = None) -> None:
        """As `run_once`, until `stop` is called. `take_over` is for the first round. `tell` gets a report, in some
        thread, each time a partition is found or left with nothing to do. What fails is logged. Where another compactor
        is the owner this one stands by from the start. Raises as `run_once`, as soon as it is so."""
        self._run(take_over, tell or _nobody)

    def stop(self) -> None:
        """Finish recording what has finished, and leave: `run` and `run_once` return soon. Safe in a signal handler."""
        self._stopping = True
        scheduler = self._scheduler
        if scheduler is not None:
            scheduler.leave()

    def _run(self, take_over: bool, tell: Tell | None) -> None:
        turns: Turns[Place] = Turns(self._concurrency, self._bytes_in_flight, lambda place: place.waits_for)
        scheduler = self._scheduler = Scheduler(self._service, turns, self._concurrency, self._interval_ms)
        if self._stopping:  # `stop` came before, and did not find it
            scheduler.leave()
        self._service.begin(take_over=take_over, tell=tell)
        scheduler.run(once=tell is None)

    def _leaving(self) -> bool:
        return self._scheduler is None or self._scheduler.leaving

    def _raise_if_lost(self) -> None:
        partitions = tuple(self._service.partitions)
        lost = [partition.fenced for partition in partitions if partition.fenced is not None]
        back_in_time = next((error for error in lost if isinstance(error, EpochRegression)), None)
        if back_in_time is not None:
            raise back_in_time
        if lost and not any(partition.owned for partition in partitions):
            raise lost[0]

    def close(self) -> None:
        """Stop the engine (a session that was given stays)."""
        self._engine.close()


def _nobody(_: PartitionReport) -> None:
    """Nobody asked to be told."""
