"""Answering what a coordinator asks: the store's requests by the store, the engine's by the engine."""

from collections.abc import Callable
from typing import Any

from lithify.compactor.engine import (
    Engine,
    NextResults,
    Running,
    SplitRanges,
    StartTasks,
    StopAsked,
    StopTasks,
    VerifyOutputs,
)
from lithify.manifest.jobs import KeyRange
from lithify.segment.ranges import row_group_weights, split_ranges
from lithify.segment.read import SegmentReader
from lithify.segment.verify import verify, verify_quick
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import Request

__all__ = ["CompactionAnswers"]


class CompactionAnswers:
    """The answers for one partition's coordinator; `close` ends what it left running."""

    def __init__(self, driver: Driver, engine: Engine, stopping: Callable[[], bool]) -> None:
        self._driver = driver
        self._engine = engine
        self._stopping = stopping
        self._running: Running | None = None

    @property
    def stopping(self) -> bool:
        return self._stopping()

    def __call__(self, request: Request[Any]) -> Any:
        match request:
            case SplitRanges():
                return self._split(request)
            case VerifyOutputs():
                return self._verify(request)
            case StartTasks(tasks, label):
                self.close()
                self._running = self._engine.start(self._driver.store, tasks, label)
                return None
            case NextResults(timeout_ms):
                return () if self._running is None else tuple(self._running.results(timeout_ms))
            case StopTasks():
                return self.close()
            case StopAsked():
                return self.stopping
            case _:
                return self._driver.answer(request)

    def close(self) -> None:
        if self._running is not None:
            self._running.stop()

    def _split(self, request: SplitRanges) -> tuple[KeyRange, ...]:
        weights = [
            weight
            for ref in request.segments
            for weight in row_group_weights(SegmentReader(self._driver.store, request.keys.segment(ref.id), ref))
        ]
        return split_ranges(weights, request.target_bytes)

    def _verify(self, request: VerifyOutputs) -> frozenset[str]:
        check = verify if request.whole else verify_quick
        bad: set[str] = set()
        for ref in request.segments:
            try:
                check(self._driver.store, request.keys.segment(ref.id), ref)
            except (NotFound, Corrupt):
                bad.add(ref.id)
        return frozenset(bad)
