"""Asks many partitions side by side; one that has too much to do for that is asked alone afterwards
(docs/rfcs/0030)."""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from lithify.log.small_partitions import TOGETHER_MAX
from lithify.store.driver import Driver
from lithify.store.port import Store
from lithify.store.side_by_side import result

__all__ = ["AskAlone", "Beside", "beside_or_alone"]

R = TypeVar("R")
T = TypeVar("T")
Each = Callable[[Callable[[R], T], Sequence[R]], Sequence[T | Exception]]


class AskAlone(Exception):
    """A reader that is asked beside others has more to do than it may there: ask it alone."""


def beside_or_alone(
    store: Store,
    readers: Iterable[tuple[int, R]],
    alone: Callable[[R], T],
    beside: Callable[[R], T],
    each: Each[R, T] | None = None,
) -> Iterator[tuple[int, Callable[[], T]]]:
    """Yields each reader's number, and a call that returns its answer or raises. Make the call before taking the next
    pair.

    Readers of a far store have been asked by then, TOGETHER_MAX of them side by side. Threads of the warehouse's
    `store` ask them, by `beside`; where that raises AskAlone, the call asks `alone`. `each`: who asks them instead, as
    `Beside.each`.
    """
    left = list(readers)
    while left:
        together, left = left[:TOGETHER_MAX], left[TOGETHER_MAX:]
        outcomes: Sequence[T | Exception] = [AskAlone()] * len(together)
        if store.far and len(together) > 1:
            asked = [reader for _, reader in together]
            outcomes = (
                each(beside, asked) if each else store.side_by_side([partial(beside, reader) for reader in asked])
            )
        for (number, reader), outcome in zip(together, outcomes, strict=True):
            yield number, partial(alone, reader) if isinstance(outcome, AskAlone) else partial(result, outcome)


class Beside:
    """Asks readers side by side for a caller that outlives an interruption. For one calling thread.

    SUBTLE! 1. Threads look at partitions; Ctrl-C ends the wait for them. 2. The caller is handed records by its next
    poll, or closes. 3. A thread that was late counts these records as processed, or reads from what is being closed. So
    whoever goes on calls `settle` first. Test: tests/log/test_consumers_far_away.py
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pid = os.getpid()
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._asks = False  # `each` has begun, and was perhaps interrupted
        self._round = 0
        self._busy = 0  # threads that ask
        self._begun: set[Any] = set()

    @property
    def busy(self) -> bool:
        return self._busy > 0

    def each(self, ask: Callable[[R], T], readers: Sequence[R]) -> Sequence[T | Exception]:
        """As `Driver.each`. Once the caller goes on without it, no thread begins anything: it answers AskAlone."""
        self._asks, self._begun = True, set()
        outcomes = self._driver.each(partial(self._ask, ask, threading.get_ident(), self._round), readers)
        self._asks = False
        return outcomes

    def begin_no_other(self) -> Collection[Any]:
        """After an interruption. Returns the readers that are being asked, or were."""
        with self._lock:
            self._round += 1
            return self._begun

    def settle(self) -> None:
        """Begin no other, and wait until no thread asks any more. In a forked process there are none."""
        if self._asks and self._pid == os.getpid():
            with self._lock:
                self._round += 1
                self._changed.wait_for(lambda: not self._busy)
            self._asks = False

    def _ask(self, ask: Callable[[R], T], caller: int, asked_in: int, reader: R) -> T:
        with self._lock:
            if asked_in != self._round:
                raise AskAlone
            self._begun.add(reader)
            self._busy += (is_other := threading.get_ident() != caller)
        try:
            return ask(reader)
        finally:
            with self._lock:
                self._busy -= is_other
                self._changed.notify_all()
