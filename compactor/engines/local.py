"""The local engine: tasks run in threads of this process, for tests and for machines without Java.

pyarrow releases the interpreter's lock in what costs time (decoding, sorting, encoding), so threads do scale.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence

from lithify.compactor.engines.underway import Threads, Underway
from lithify.segment.execute import execute
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.errors import InvalidRequest
from lithify.store.homes import Homes
from lithify.work.outcome import outcome_of

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs at most `parallelism` tasks at a time (default: one per processor), whatever the number of attempts, and one
    task of a short job besides (docs/rfcs/0014). The peak memory in results is that of the whole process."""

    def __init__(self, parallelism: int | None = None) -> None:
        if parallelism is not None and parallelism < 1:
            raise InvalidRequest(f"parallelism is {parallelism}: it must be at least 1")
        self._width = parallelism or os.cpu_count() or 1
        self._threads = Threads(self._width, "lithify-merge")
        self._lock = threading.Lock()
        self._attempts: weakref.WeakSet[Underway] = weakref.WeakSet()
        self._prepared: weakref.WeakValueDictionary[str, _Prepared] = weakref.WeakValueDictionary()  # by label
        self._closed = False

    @property
    def name(self) -> str:
        return "local"

    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> Underway:
        """Raises InvalidRequest once the engine is closed."""
        with self._lock:
            prepared = self._prepared.pop(label, None)
        if prepared is not None and not prepared.may_begin(tasks):
            prepared.stop()
            prepared = None
        with self._lock:
            if prepared is not None and not self._closed:
                return prepared.begin()
            return self._begin(homes, tasks, label)

    def prepare(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> "_Prepared":
        """They hold threads of the engine while they wait to be started. Raises InvalidRequest once it is closed."""
        gate = _Gate()
        with self._lock:
            prepared = _Prepared(tasks, self._begin(homes, tasks, label, gate), gate)
            self._prepared[label] = prepared
        return prepared

    def _begin(self, homes: Homes, tasks: Sequence[JobTask], label: str, gate: "_Gate | None" = None) -> Underway:
        """Requires: the lock."""

        def run(task: JobTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
            outcome = outcome_of(task, lambda: execute(task, homes, cancelled, gate and gate.may_write))
            if gate is not None and isinstance(outcome, TaskFailure) and not gate.may_write.is_set():
                gate.failed = True
            return outcome

        if self._closed:
            raise InvalidRequest(f"{label}: this engine is closed; make a new one")
        if any(attempt.hangs for attempt in self._attempts):
            # Hanging tasks never give their threads back. The other attempts finish in the old pool; new ones get a
            # new pool.
            self._attempts = weakref.WeakSet(attempt for attempt in self._attempts if not attempt.hangs)
            self._threads = Threads(self._width, "lithify-merge")
        attempt = Underway(self._threads, tasks, run)
        self._attempts.add(attempt)
        return attempt

    def close(self) -> None:
        """Stop all running tasks."""
        with self._lock:
            self._closed = True
            attempts = list(self._attempts)
        for attempt in attempts:
            attempt.stop()
        self._threads.shutdown(wait=not any(attempt.hangs for attempt in attempts))


class _Gate:
    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.failed = False  # a task, before it might write


class _Prepared:
    """Tasks that read and merge, and write nothing yet."""

    def __init__(self, tasks: Sequence[JobTask], attempt: Underway, gate: _Gate) -> None:
        self._tasks = tasks
        self._attempt = attempt
        self._gate = gate

    def may_begin(self, tasks: Sequence[JobTask]) -> bool:
        """Whether these are `tasks`, and none has failed: it did so before its attempt began, which is no failure of
        the attempt (P14)."""
        return not self._gate.failed and tuple(self._tasks) == tuple(tasks)

    def begin(self) -> Underway:
        self._gate.may_write.set()
        return self._attempt

    def stop(self) -> None:
        """They are not wanted; harmless once they have begun."""
        if not self._gate.may_write.is_set():
            self._attempt.stop()
