"""Tasks in a pool of threads, and the queue into which each puts what became of it as soon as it ends."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lithify.compactor.engine import STOP_MAX_MS, TaskFailure
from lithify.manifest.words import counted
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.errors import Unavailable

__all__ = ["RunTask", "Underway"]

RunTask = Callable[[MergeTask, Callable[[], bool]], TaskResult | TaskFailure]
"""Runs one task to its end, asking the second argument whether it was cancelled; then it raises TaskCancelled."""


class Underway:
    """`tasks` begin in their order, as far as `pool` has threads. Thread-safe.

    At most `width` of them, as many as the pool has threads, stand in its queue: the next one goes to its end when one
    has ended. So attempts take turns, and a small one does not wait for all tasks of a large one.
    """

    def __init__(self, pool: ThreadPoolExecutor, width: int, tasks: Sequence[MergeTask], run: RunTask) -> None:
        self._pool = pool
        self._run_task = run
        self._landed: queue.SimpleQueue[TaskResult | TaskFailure] = queue.SimpleQueue()
        self._withdrawn = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._left = deque(tasks)
        self._begun: list[Future[None]] = []  # those that may still wait in the pool's queue
        self._open = 0  # how many are in the pool
        self._shut = False  # the pool takes no more tasks
        self.hangs = False  # a task that was told to stop has not: it holds its thread, perhaps for ever
        with self._lock:
            for _ in range(width):
                self._begin_next()

    def _begin_next(self) -> None:
        if self._left and not self._withdrawn.is_set() and not self._shut:
            self._begun = [future for future in self._begun if not future.done()]
            try:
                self._begun.append(self._pool.submit(self._run, self._left[0]))
            except RuntimeError:  # the interpreter ends, or the engine was closed meanwhile
                self._shut = True
            else:
                self._left.popleft()
                self._open += 1
        if not self._open and (self._shut or self._withdrawn.is_set() or not self._left):
            self._ended.set()

    def _run(self, task: MergeTask) -> None:
        try:
            self._landed.put(self._run_task(task, self._withdrawn.is_set))
        except TaskCancelled:
            pass
        finally:
            with self._lock:
                self._open -= 1
                self._begin_next()

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """What has landed since the last call; waits up to `timeout_ms` for something, if something can still come.
        Raises Unavailable where nothing will, and tasks are left that were not withdrawn."""
        found: list[TaskResult | TaskFailure] = []
        over = self.ended(0)
        if not over:
            try:
                found.append(self._landed.get(timeout=timeout_ms / 1000))
            except queue.Empty:
                return found
        # All that had ended when it was asked has landed before, so nothing is left behind.
        while True:
            try:
                found.append(self._landed.get_nowait())
            except queue.Empty:
                break
        if over and not found and self._shut and not self._withdrawn.is_set():
            raise Unavailable(f"the engine was shut down with {counted(len(self._left), 'task')} to do")
        return found

    def withdraw(self) -> None:
        """Tasks that wait do not begin; those that run are told at the next block they ask."""
        with self._lock:
            self._withdrawn.set()
            self._open -= sum(future.cancel() for future in self._begun)
            self._begun = []
            self._begin_next()  # none: but it may have ended with this

    def ended(self, timeout_ms: int) -> bool:
        """Whether every task has ended; waits for it up to `timeout_ms`."""
        return self._ended.wait(timeout_ms / 1000)

    def stop(self) -> None:
        self.withdraw()
        self.give_up_after(STOP_MAX_MS)

    def give_up_after(self, timeout_ms: int) -> None:
        """Waits so long for the end, and not at all once it has been waited for in vain."""
        self.hangs = not self.ended(0 if self.hangs else timeout_ms)
