"""Threads of one process that make several calls side by side, for stores that answer after a while."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from lithify.store.own_lock import OwnLock

__all__ = ["THREADS_MAX", "SideBySide", "one_after_the_other", "result", "results"]

T = TypeVar("T")

THREADS_MAX = 32  # of one store in one process; the callers' own threads come on top


class SideBySide:
    """A pool whose threads begin when they are first needed, in each process anew. Thread-safe.

    SUBTLE! The caller makes calls too, and waits only for those that a thread has begun. Otherwise: 1. As many calls as
    there are threads take them all. 2. Each of them makes calls side by side, which wait for a thread. 3. None ends.
    Test: tests/store/test_side_by_side.py
    """

    def __init__(self) -> None:
        self._lock = OwnLock()
        self._opened: tuple[int, ThreadPoolExecutor] | None = None  # process, its threads

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """What each call returns or raises, in the order of `calls`. All have ended on return; an interrupt (Ctrl-C)
        does not wait for those that have begun, and begins no other."""
        batch = _Batch(calls)
        try:
            with suppress(RuntimeError):  # it is being closed, or Python ends: then the caller makes all calls
                for _ in range(min(len(calls) - 1, THREADS_MAX)):
                    self._pool().submit(batch.work)
            batch.work()
            batch.wait()
        finally:
            batch.begin_no_other()
        return batch.outcomes()

    def close(self) -> None:
        """End the threads, each after the call that it makes. The next `run` begins others."""
        with self._lock.mine():
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock.mine():
            if self._opened is None or self._opened[0] != os.getpid():  # forked: the threads are the parent's
                self._opened = os.getpid(), ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="lithify-request")
            return self._opened[1]


class _Batch(Generic[T]):
    def __init__(self, calls: Sequence[Callable[[], T]]) -> None:
        self._calls: Sequence[Callable[[], T]] = calls
        self._outcomes: dict[int, T | Exception] = {}
        self._failure: BaseException | None = None  # Ctrl-C and the like, which end the whole batch
        self._next = 0
        self._running = 0
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)

    def work(self) -> None:
        """Make calls until all have begun."""
        while (index := self._begin()) is not None:
            try:
                outcome = self._calls[index]()
            except Exception as error:  # noqa: BLE001 - handed to the caller
                self._end(index, error)
            except BaseException as error:
                self._break(error)
                raise
            else:
                self._end(index, outcome)

    def wait(self) -> None:
        with self._lock:
            self._changed.wait_for(lambda: not self._running)

    def begin_no_other(self) -> None:
        """SUBTLE! Let go of the calls, too: 1. All threads wait for a stalled store. 2. Others make their calls
        themselves. 3. What they have submitted stays in the pool's queue, with all that was answered. Test:
        tests/store/test_side_by_side.py"""
        with self._lock:
            self._calls, self._next = (), 0

    def outcomes(self) -> list[T | Exception]:
        if self._failure is not None:
            raise self._failure
        outcomes, self._outcomes = self._outcomes, {}
        return [outcomes[index] for index in range(len(outcomes))]

    def _begin(self) -> int | None:
        with self._lock:
            if self._next >= len(self._calls):
                return None
            self._next += 1
            self._running += 1
            return self._next - 1

    def _end(self, index: int, outcome: T | Exception) -> None:
        with self._lock:
            self._outcomes[index] = outcome
            self._running -= 1
            self._changed.notify_all()

    def _break(self, failure: BaseException) -> None:
        with self._lock:
            self._failure, self._next = failure, len(self._calls)
            self._running -= 1
            self._changed.notify_all()


def one_after_the_other(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """As `SideBySide.run`, for stores that answer at once."""
    outcomes: list[T | Exception] = []
    for call in calls:
        try:
            outcomes.append(call())
        except Exception as error:  # noqa: BLE001 - handed to the caller
            outcomes.append(error)
    return outcomes


def result(outcome: T | Exception) -> T:
    """What a call returned. Raises what it raised."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def results(outcomes: Iterable[T | Exception]) -> list[T]:
    """What each call returned. Raises the first failure."""
    return [result(outcome) for outcome in outcomes]
