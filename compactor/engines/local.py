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
            if prepared is not None and not self._closed and prepared.begins(tasks):
                return prepared.attempt
            # Tasks that may write wait for none that may not.
            for other in (prepared, *self._prepared.values()):
                if other is not None:
                    other.stop()
            return self._begin(homes, tasks, label)

    def prepare(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> "_Prepared | None":
        """Only if no other attempt is under way. They hold threads of the engine until they are started, or something
        else is. Raises InvalidRequest once the engine is closed."""
        gate = threading.Event()
        with self._lock:
            if any(not attempt.ended(0) for attempt in self._attempts):
                return None
            prepared = _Prepared(tasks, gate)
            prepared.attempt = self._begin(homes, tasks, label, prepared)
            self._prepared[label] = prepared
        return prepared

    def _begin(
        self, homes: Homes, tasks: Sequence[JobTask], label: str, prepared: "_Prepared | None" = None
    ) -> Underway:
        """Requires: the lock."""
        may_write = None if prepared is None else prepared.may_write

        def run(task: JobTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
            outcome = outcome_of(task, lambda: execute(task, homes, cancelled, may_write))
            if prepared is not None and isinstance(outcome, TaskFailure):
                prepared.failed()
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


class _Prepared:
    """Tasks that read and merge, and write nothing yet."""

    attempt: Underway

    def __init__(self, tasks: Sequence[JobTask], may_write: threading.Event) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()
        self._over = False  # they never begin
        self.may_write = may_write

    def failed(self) -> None:
        """A task has. If that was before its attempt began, it is no failure of the attempt (P14)."""
        with self._lock:
            self._over = self._over or not self.may_write.is_set()

    def begins(self, tasks: Sequence[JobTask]) -> bool:
        """Let them write, if these are `tasks`, and nothing is against it."""
        with self._lock:
            if self._over or tuple(self._tasks) != tuple(tasks):
                return False
            self.may_write.set()
            return True

    def stop(self) -> None:
        """They are not wanted; harmless once they have begun. Nobody need wait for their end, for they cannot write."""
        with self._lock:
            if self.may_write.is_set():
                return
            self._over = True
        self.attempt.withdraw()
        self.attempt.give_up_after(0)
