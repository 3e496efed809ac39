"""Answers a coordinator's requests: the store's from the store, the engine's from the engine."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from lithify.compactor.engine import (
    Engine,
    NextResults,
    Prepared,
    Prepares,
    PrepareTasks,
    Reserve,
    Running,
    SplitRanges,
    StartTasks,
    StopAsked,
    StopTasks,
    VerifyOutputs,
    WeighSegment,
)
from lithify.compactor.room import Load, has_room
from lithify.compactor.verification import Verification
from lithify.compactor.weighing import Weighing
from lithify.segment.ranges import split_ranges
from lithify.segment.segments import Segments
from lithify.segment.task import JobTask
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.port import Request, Together

__all__ = ["Budget", "CompactionAnswers"]


class Budget:
    """The bytes that the jobs of one process may read at once. `limit` None: any number. Thread-safe."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._taken: list[Load] = []
        self._lock = threading.Lock()

    def take(self, load: Load) -> bool:
        """Reserve room for `load`, if there is any; the answer says whether. `give_back` returns it."""
        with self._lock:
            if not has_room(load, self._taken, self._limit):
                return False
            self._taken.append(load)
            return True

    def give_back(self, load: Load) -> None:
        """Requires: it was taken."""
        with self._lock:
            self._taken.remove(load)


class CompactionAnswers:
    """The answers for one partition's coordinator. `close` ends what it left running. `jobs` False: no jobs."""

    def __init__(
        self,
        driver: Driver,
        engine: Engine,
        budget: Budget,
        stopping: Callable[[], bool],
        paused: Callable[[], bool],
        *,
        jobs: bool = True,
    ) -> None:
        self._driver = driver
        self._engine = engine
        self._budget = budget
        self._reserved: Load | None = None
        self._jobs = jobs
        self._stopping = stopping
        self._paused = paused
        self._running: Running | None = None
        self._prepared: tuple[tuple[JobTask, ...], Prepared | None] = (), None
        self._look: Verification | None = None  # a verification that has more to do
        self._weighing = Weighing(driver.homes)

    @property
    def stopping(self) -> bool:
        return self._stopping()

    def __call__(self, request: Request[Any]) -> Any:
        match request:
            case SplitRanges():
                return split_ranges(request.weights, request.target_bytes)
            case WeighSegment():
                return self._weighing.weigh(request)
            case VerifyOutputs():
                return self._verify(request)
            case PrepareTasks(tasks, label):
                return self._prepare(self._marked(tasks), label)
            case StartTasks(tasks, label):
                return self._start(self._marked(tasks), label)
            case NextResults(timeout_ms):
                return () if self._running is None else tuple(self._running.results(timeout_ms))
            case StopTasks():
                return self.close()
            case Reserve():
                return self._reserve(Load(request.input_bytes, request.short, request.alone))
            case StopAsked():
                return self.stopping or self._paused()
            case Together(requests) if any(isinstance(each, VerifyOutputs) for each in requests):
                return tuple(self._driver.homes.here.side_by_side([partial(self, each) for each in requests]))
            case _:
                return self._driver.answer(request)

    def step_ended(self) -> None:
        """Gives back what the step reserved, and forgets what it left unfinished."""
        self._look, self._weighing = None, Weighing(self._driver.homes)
        self._forget_prepared()
        self._give_back()

    def close(self) -> None:
        self._forget_prepared()
        self._stop_running()

    def _stop_running(self) -> None:
        if self._running is not None:
            self._running.stop()

    def _marked(self, tasks: tuple[JobTask, ...]) -> tuple[JobTask, ...]:
        if self._reserved is None or not self._reserved.short:
            return tasks
        return tuple(replace(task, short=True) for task in tasks)

    def _refuse_unreachable(self, tasks: Sequence[JobTask]) -> None:
        for task in tasks:  # before any worker begins
            Segments(task.keys, self._driver.homes).refuse_unreachable(task.segments)

    def _prepare(self, tasks: tuple[JobTask, ...], label: str) -> None:
        """Only where requests are waited for: elsewhere there is nothing to gain. What is wrong is told by `_start`."""
        engine = self._engine
        if not isinstance(engine, Prepares) or not self._driver.homes.here.far or self._prepared[0] == tasks:
            return
        self._forget_prepared()
        with suppress(InvalidRequest, Unavailable):
            self._refuse_unreachable(tasks)
            self._prepared = tasks, engine.prepare(self._driver.homes, tasks, label)

    def _start(self, tasks: tuple[JobTask, ...], label: str) -> None:
        self._refuse_unreachable(tasks)
        if self._prepared[0] != tasks:
            self._forget_prepared()
        self._stop_running()
        self._running = self._engine.start(self._driver.homes, tasks, label)
        self._prepared = (), None

    def _forget_prepared(self) -> None:
        (_, prepared), self._prepared = self._prepared, ((), None)
        if prepared is not None:
            prepared.stop()

    def _reserve(self, load: Load) -> bool:
        self._give_back()  # a step has at most one reservation: the new one replaces the old
        if not self._jobs or not self._budget.take(load):
            return False
        self._reserved = load
        return True

    def _give_back(self) -> None:
        if self._reserved is not None:
            self._budget.give_back(self._reserved)
            self._reserved = None

    def _verify(self, request: VerifyOutputs) -> frozenset[str] | None:
        look, self._look = self._look, None  # after an error the next request starts anew
        if look is None or look.request != request:
            look = Verification(self._driver, request)
        bad = look.go_on()
        self._look = look if bad is None and not request.once else None
        return bad
