"""Tasks in a pool of threads, and the queue into which each puts what became of it as soon as it ends."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from lithify.compactor.engine import TaskFailure
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import MergeTask, TaskResult

__all__ = ["RunTask", "Underway"]

RunTask = Callable[[MergeTask, Callable[[], bool]], TaskResult | TaskFailure]
"""Runs one task to its end, asking the second argument whether it was cancelled; then it raises TaskCancelled."""


class Underway:
    """`tasks` begin at once, as far as `pool` has threads. Thread-safe."""

    def __init__(self, pool: ThreadPoolExecutor, tasks: Sequence[MergeTask], run: RunTask) -> None:
        self._landed: queue.SimpleQueue[TaskResult | TaskFailure] = queue.SimpleQueue()
        self._withdrawn = threading.Event()
        self._futures = [pool.submit(self._run, run, task) for task in tasks]

    def _run(self, run: RunTask, task: MergeTask) -> None:
        try:
            outcome = run(task, self._withdrawn.is_set)
        except TaskCancelled:
            return
        self._landed.put(outcome)

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """What has landed since the last call; waits up to `timeout_ms` for something, if something can still come."""
        found: list[TaskResult | TaskFailure] = []
        if not self.ended(0):
            try:
                found.append(self._landed.get(timeout=timeout_ms / 1000))
            except queue.Empty:
                return found
        # All that had ended when it was asked has landed before, so nothing is left behind.
        while True:
            try:
                found.append(self._landed.get_nowait())
            except queue.Empty:
                return found

    def withdraw(self) -> None:
        """Tasks that wait do not begin; those that run are told at the next block they ask."""
        self._withdrawn.set()
        for future in self._futures:
            future.cancel()

    def ended(self, timeout_ms: int | None) -> bool:
        """Whether every task has ended; waits for it up to `timeout_ms` (None: as long as it takes)."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        return not wait(self._futures, timeout=timeout_s).not_done

    def stop(self) -> None:
        self.withdraw()
        self.ended(None)
