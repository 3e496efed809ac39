"""The answers of an engine to a coordinator. All is well as it stands; a test says what it wants to be otherwise."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lithify.compactor.engine import (
    NextResults,
    PrepareTasks,
    Reserve,
    SplitRanges,
    StartTasks,
    StopAsked,
    StopTasks,
    VerifyOutputs,
    WeighSegment,
)
from lithify.manifest.jobs import KeyRange
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.store.errors import LithifyError
from lithify.store.port import Request, Together

__all__ = ["RANGES", "Landed", "ScriptedEngine"]

RANGES = (KeyRange(None, b"k2"), KeyRange(b"k2", b"k4"), KeyRange(b"k4", None))
REQUESTS = (
    NextResults,
    PrepareTasks,
    Reserve,
    SplitRanges,
    StartTasks,
    StopAsked,
    StopTasks,
    VerifyOutputs,
    WeighSegment,
)
Landed = tuple[TaskResult | TaskFailure, ...]


def no_task(task: MergeTask) -> NoReturn:
    raise AssertionError(f"a task of {task.job} was begun")


class ScriptedEngine:
    """Of the tasks that it was given each look finds the next one done, as `lands` does it."""

    def __init__(
        self, lands: Callable[[MergeTask], TaskResult | TaskFailure] = no_task, ranges: Sequence[KeyRange] = RANGES
    ) -> None:
        self._lands = lands
        self._ranges = tuple(ranges)
        self.pending: deque[MergeTask] = deque()

    def knows(self, request: Request[Any] | None) -> bool:
        return isinstance(request, REQUESTS)

    def answer(self, request: Request[Any]) -> Any:
        match request:
            case SplitRanges():
                return self._ranges
            case WeighSegment():
                return self.weigh(request)
            case VerifyOutputs():
                return self.verify(request)
            case Reserve():
                return self.reserve(request)
            case PrepareTasks(tasks, _):
                return self.prepare(tasks)
            case StartTasks(tasks, _):
                return self.start(tasks)
            case NextResults(timeout_ms):
                return self.look(timeout_ms)
            case StopTasks():
                return self.stop()
            case StopAsked():
                return self.stop_asked()
            case _:
                raise TypeError(f"no answer for {type(request).__name__}")

    def advance(self, held: Any) -> None:
        """Answer what a coroutine waits for (`tests.protocol.scene.Held`), or let the store."""
        if isinstance(held.request, Together):
            held.answers(lambda request: self.answer(request) if self.knows(request) else None)
            return
        if not self.knows(held.request):
            held.go()
            return
        try:
            reply = self.answer(held.request)
        except LithifyError as error:
            held.fail(error)
        else:
            held.reply(reply)

    def weigh(self, request: WeighSegment) -> tuple[Any, ...]:
        return ()

    def verify(self, request: VerifyOutputs) -> frozenset[str]:
        return frozenset()

    def reserve(self, request: Reserve) -> bool:
        return True

    def prepare(self, tasks: Sequence[MergeTask]) -> None:
        """An engine need not."""

    def start(self, tasks: Sequence[MergeTask]) -> None:
        self.pending = deque(tasks)

    def look(self, timeout_ms: int) -> Landed:
        return (self._lands(self.pending.popleft()),) if self.pending else ()

    def stop(self) -> None:
        self.pending.clear()

    def stop_asked(self) -> bool:
        return False
