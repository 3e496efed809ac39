"""A topic's configuration for callers who must not wait for the store: the last known value, refreshed in the
background."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from lithify.log.producer_failure import Failure
from lithify.store.driver import Clock, monotonic_ms
from lithify.store.errors import LithifyError, Unavailable

__all__ = ["Latest"]

T = TypeVar("T")

WAIT_MS_MAX = 5_000  # for a store that answered the last time
AGAIN_MS = 1_000  # after the store did not answer


class Latest(Generic[T]):
    """While the store answers, `get` is fresh. During an outage callers get the last known value at once; only the
    first one waits for the timeout. Thread-safe."""

    def __init__(
        self,
        topic: str,
        known: Callable[[], T],
        is_fresh: Callable[[], bool],
        read: Callable[[], object],
        clock: Clock = monotonic_ms,
    ) -> None:
        """`known` does not ask the store. `read` does, and updates what `known` and `is_fresh` return."""
        self._topic = topic
        self._known = known
        self._is_fresh = is_fresh
        self._read = read
        self._clock = clock
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._reading = False
        self._answers = True
        self._again_at_ms: int | None = None
        self._refusal: Failure | None = None

    def known(self) -> T:
        """The last known value, however old."""
        return self._known()

    def get(self, wait_ms: int) -> T:
        """Raises a definite answer of the store, such as NotFound. If it does not answer: the last known value."""
        if self._fresh():
            return self._known()
        with self._lock:
            self._begin()
            if self._answers:
                wait_s = min(wait_ms, WAIT_MS_MAX) / 1000
                self._answers = self._changed.wait_for(lambda: not self._reading, wait_s) and self._answers
            refusal = self._refusal
        if refusal is not None:
            raise refusal.told()
        return self._known()

    def _fresh(self) -> bool:
        try:
            return self._is_fresh()
        except Unavailable:  # the store's clock cannot be read
            return False

    def _begin(self) -> None:
        """Start a read, unless one runs or failed just now. Requires: the lock is held."""
        if self._reading or (self._again_at_ms is not None and self._clock() < self._again_at_ms):
            return
        reader = threading.Thread(target=self._read_once, name=f"lithify-latest-{self._topic}", daemon=True)
        self._reading = True
        try:
            reader.start()
        except RuntimeError:  # no more threads can be started
            self._reading = self._answers = False

    def _read_once(self) -> None:
        refusal, answers = None, False
        try:
            self._read()
            answers = True
        except Unavailable:
            pass
        except LithifyError as error:
            refusal, answers = Failure(error), True
        finally:
            with self._lock:
                self._reading, self._answers = False, answers
                self._again_at_ms = None if answers else self._clock() + AGAIN_MS
                if answers:
                    self._refusal = refusal
                self._changed.notify_all()
