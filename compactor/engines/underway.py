"""Tasks in the threads of an engine, and the queue that receives each result as soon as its task ends."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lithify.compactor.engine import STOP_MAX_MS
from lithify.manifest.words import counted
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.errors import Unavailable

__all__ = ["RunTask", "Threads", "Underway"]

RunTask = Callable[[JobTask, Callable[[], bool]], TaskResult | TaskFailure]
"""Runs one task to its end. The second argument says whether it was cancelled; then it raises TaskCancelled."""


class Threads:
    """The threads of an engine: `width` for all tasks, and one more for tasks of short jobs. A task may take many
    minutes: without that thread, if all others have such tasks, work that relieves a partition would wait for the first
    of them to end."""

    def __init__(self, width: int, name: str) -> None:
        self.width = width
        self.common = ThreadPoolExecutor(width, thread_name_prefix=name)
        self.short = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-short")

    def shutdown(self, *, wait: bool) -> None:
        self.common.shutdown(wait=wait)
        self.short.shutdown(wait=wait)


class Underway:
    """Runs `tasks` in their order, as threads come free. Thread-safe.

    It has one place in the queue of `threads.common` for each thread. When one of its tasks has ended, the place goes
    to the end of the queue. So attempts take turns, and a small one does not wait for all tasks of a large one. Short
    ones also have a place in the queue of the short thread, where they take turns likewise.
    """

    def __init__(self, threads: Threads, tasks: Sequence[JobTask], run: RunTask) -> None:
        self._run_task = run
        self._landed: queue.SimpleQueue[TaskResult | TaskFailure] = queue.SimpleQueue()
        self._withdrawn = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._left = deque(tasks)
        self._places: list[Future[None]] = []  # in queues; finished ones are removed now and then
        self._waiting = self._running = 0  # places; tasks
        self._shut = False  # the engine takes no more tasks
        self.hangs = False  # a task did not stop when told to: it holds its thread, perhaps for ever
        with self._lock:
            for _ in range(min(threads.width, len(tasks))):
                self._queue_in(threads.common)
            if any(task.short for task in tasks):
                self._queue_in(threads.short)
            self._settle()

    def _queue_in(self, pool: ThreadPoolExecutor) -> None:
        self._places = [place for place in self._places if not place.done()]
        try:
            self._places.append(pool.submit(self._take_turn, pool))
        except RuntimeError:  # the interpreter is ending, or the engine was closed meanwhile
            self._shut = True
        else:
            self._waiting += 1

    def _take_turn(self, pool: ThreadPoolExecutor) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._left or self._withdrawn.is_set():
                self._settle()
                return
            task = self._left.popleft()
            self._running += 1
        try:
            self._landed.put(self._run_task(task, self._withdrawn.is_set))
        except TaskCancelled:
            pass
        finally:
            with self._lock:
                self._running -= 1
                if self._left and not self._withdrawn.is_set():
                    self._queue_in(pool)
                self._settle()

    def _settle(self) -> None:
        """If nothing is left to begin, give up the places; if nothing runs either, the attempt has ended."""
        none_begins = not self._left or self._withdrawn.is_set()
        if none_begins:
            self._waiting -= sum(place.cancel() for place in self._places)
            self._places = []
        if not self._running and (none_begins or (self._shut and not self._waiting)):
            self._ended.set()

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """What has landed since the last call; waits up to `timeout_ms` for something, if something can still come.
        Raises Unavailable if nothing will come although tasks are left that were not withdrawn."""
        found: list[TaskResult | TaskFailure] = []
        over = self.ended(0)
        if not over:
            try:
                found.append(self._landed.get(timeout=timeout_ms / 1000))
            except queue.Empty:
                return found
        # Everything that had ended at that check has landed already, so nothing is left behind.
        while True:
            try:
                found.append(self._landed.get_nowait())
            except queue.Empty:
                break
        if over and not found and self._shut and not self._withdrawn.is_set():
            raise Unavailable(f"the engine was shut down with {counted(len(self._left), 'task')} to do")
        return found

    def withdraw(self) -> None:
        """Waiting tasks do not begin; running ones learn it when they next ask, at their next block."""
        with self._lock:
            self._withdrawn.set()
            self._settle()

    def ended(self, timeout_ms: int) -> bool:
        """Whether every task has ended; waits up to `timeout_ms` for that."""
        return self._ended.wait(timeout_ms / 1000)

    def stop(self) -> None:
        self.withdraw()
        self.give_up_after(STOP_MAX_MS)

    def give_up_after(self, timeout_ms: int) -> None:
        """Wait up to `timeout_ms` for the end; not at all if an earlier wait was in vain."""
        self.hangs = not self.ended(0 if self.hangs else timeout_ms)
