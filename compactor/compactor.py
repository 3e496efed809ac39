"""The compactor: serves every partition of every topic, with bounded concurrency, once or until it is stopped."""

import os
import socket
import threading
from collections.abc import Collection
from typing import Protocol, Self

from lithify.compactor.engine import Engine
from lithify.compactor.info import MaintenanceReport
from lithify.compactor.scheduler import Scheduler
from lithify.compactor.service import Place, Service, Tell
from lithify.compactor.turns import Turns
from lithify.events.event_log import guarded, log_event
from lithify.events.types import Sink
from lithify.manifest.rests import Rests
from lithify.manifest.words import counted
from lithify.store.driver import Driver
from lithify.store.errors import EpochRegression, InvalidRequest
from lithify.store.short_repr import named_repr
from lithify.store.urls import shown

__all__ = ["Compactor", "WarehouseLike", "make_engine"]

IDLE_MS = 15_000
REST_MS = 300_000  # of a service


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
    raise InvalidRequest(f"unknown engine {engine!r}: use 'spark' or 'local', or give a SparkEngine")


class Compactor:
    """Compacts the partitions of a warehouse.

    >>> warehouse = lithify.open("memory://example")
    >>> topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"})
    >>> for plan in (b"free", b"team", b"pro"):
    ...     _ = topic.append([lithify.Record(b"ada", plan)])
    >>> with lithify.Compactor(warehouse, engine="local") as compactor:
    ...     [(job.kind, job.counts.rows_in, job.counts.rows_out) for job in compactor.run_once().jobs]
    [('clean', 3, 1)]

    - `engine`: "spark" (the default; its session starts when the first job is due), "local", or an engine.
    - `concurrency`: how many jobs run at once. If all of them are long, one short job and one requested by a person run
      besides (docs/rfcs/0014).
    - `interval_ms`: the pause between two rounds; each round looks at every partition that does not rest.
    - `rest_ms`: where nothing is due, what other processes append or request is noticed after this time at most; what
      this process does there, and what falls due by time, in the next round. The longer a partition has rested, the
      rarer it is asked for, from every round on (docs/rfcs/0026). 0 (the default; `lithify compactor run` has five
      minutes): every round, and every `run_once`, looks at every partition.
    - `bytes_in_flight`: how many bytes of Parquet all jobs together may read at once; None: any number. A larger job
      runs alone, except for one short job, which does not count.
    - `topics`: the names of the only topics to compact; None: all, also those that come.
    - `events`: a function that is called with each event (docs/rfcs/0015), in any thread. By default events are logged.

    One Compactor is one owner. If it is fenced in a partition it becomes a standby there, and claims it again only if
    no compactor serves it. If it is fenced in every partition that it owned, it ends.
    """

    def __init__(
        self,
        warehouse: WarehouseLike,
        engine: "str | Engine" = "spark",
        *,
        concurrency: int = 2,
        interval_ms: int = IDLE_MS,
        rest_ms: int = 0,
        bytes_in_flight: int | None = None,
        topics: Collection[str] | None = None,
        events: Sink = log_event,
    ) -> None:
        self._where = shown(warehouse.driver.store.url)
        self._engine = make_engine(engine)
        self._concurrency = concurrency
        self._interval_ms = interval_ms
        self._bytes_in_flight = bytes_in_flight
        self._stopping = False
        self._runs = self._closed = False
        self._lock = threading.RLock()  # of these two; a signal handler may close
        self._process = os.getpid()
        self._scheduler: Scheduler[Place] | None = None  # of the latest run
        worker = f"{socket.gethostname()}:{os.getpid()}"
        told = guarded(events)
        rests = Rests(rest_ms, interval_ms)
        only = None if topics is None else frozenset(topics)
        self._service = Service(
            *(warehouse.driver, self._engine, bytes_in_flight, worker, self._leaving, told), rests=rests, only=only
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{counted(self._concurrency, 'job')} at once"
        return named_repr(self, self._where, type(self._engine).__name__, state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run_once(self, take_over: bool = False) -> MaintenanceReport:
        """Look at all partitions, but for those that rest if `rest_ms` allows it, and work until nothing is due, the
        most urgent first.

        `take_over` also claims partitions whose compactor is at work. A failure in one partition is in its report and
        stops no other; a topic that cannot be read has one report, whose partition is None. Raises Fenced if others
        have taken over all that this compactor owned, EpochRegression if a store went back in time, InvalidRequest if
        this compactor is closed.
        """
        self._run(take_over, serves=False)
        self._raise_if_lost()
        reports = self._service.reports()
        more = any(report.outcome.leaves_work for report in reports)
        return MaintenanceReport(partitions=reports, more_work=more)

    def run(self, take_over: bool = False, tell: Tell | None = None) -> None:
        """As `run_once`, but until `stop` is called; raises what `run_once` raises, at once.

        `take_over` applies to the first round. `tell` gets a report, in any thread, each time a partition is found or
        left with nothing to do. Failures are logged. Where another compactor is the owner, this one is a standby from
        the start.
        """
        self._run(take_over, serves=True, tell=tell)

    def stop(self) -> None:
        """Make `run` or `run_once` record what has finished and return soon. Safe in a signal handler."""
        self._stopping = True
        scheduler = self._scheduler
        if scheduler is not None:
            scheduler.leave()

    def _run(self, take_over: bool, *, serves: bool, tell: Tell | None = None) -> None:
        with self._lock:
            if self._closed:
                raise InvalidRequest("this compactor is closed; make a new one")
            self._runs = True
        try:
            self._run_open(take_over, serves=serves, tell=tell)
        finally:
            self._runs = False

    def _run_open(self, take_over: bool, *, serves: bool, tell: Tell | None) -> None:
        turns: Turns[Place] = Turns(self._concurrency, self._bytes_in_flight, lambda place: place.waits_for)
        scheduler = self._scheduler = Scheduler(self._service, turns, self._concurrency, self._interval_ms)
        if self._stopping:  # `stop` came before there was a scheduler
            scheduler.leave()
        self._service.begin(take_over=take_over, serves=serves, tell=tell)
        scheduler.run(once=not serves)

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
        """Give up the partitions that it owns, and stop the engine. A Spark session that the caller gave to it stays
        open. In a forked child it does nothing: all of that is the parent's.

        While something runs, as when a second Ctrl-C ends the wait for it, nothing is given up."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._closed = True
            runs = self._runs or (self._scheduler is not None and self._scheduler.works)
        try:
            if not runs:
                self._service.leave()
        finally:
            self._engine.close()
