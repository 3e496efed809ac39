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
        self._closed = False

    @property
    def name(self) -> str:
        return "local"

    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> Underway:
        """Raises InvalidRequest once the engine is closed."""

        def run(task: JobTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
            return outcome_of(task, lambda: execute(task, homes, cancelled))

        with self._lock:
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
