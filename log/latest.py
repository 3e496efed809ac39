"""What a topic says of itself, for those who must not wait for the store: the last that is known, read again beside."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from lithify.log.producer_failure import Failure
from lithify.store.driver import Clock, monotonic_ms
from lithify.store.errors import LithifyError, Unavailable

__all__ = ["Latest"]

T = TypeVar("T")

WAIT_MS_MAX = 5_000  # for a store that answered the last time
AGAIN_MS = 1_000  # after a store did not answer


class Latest(Generic[T]):
    """While the store answers, `get` is fresh. In an outage the last that was known serves, and one caller alone has
    waited for it: until the store answers again nobody else does. Thread-safe."""

    def __init__(
        self,
        topic: str,
        known: Callable[[], T],
        is_fresh: Callable[[], bool],
        read: Callable[[], object],
        clock: Clock = monotonic_ms,
    ) -> None:
        """`known` asks no store. `read` does, and makes `known` and `is_fresh` true to what it found."""
        self._topic = topic
        self._known = known
        self._is_fresh = is_fresh
        self._read = read
        self._clock = clock
        self._changed = threading.Condition()
        self._reading = False
        self._answers = True
        self._again_at_ms: int | None = None
        self._refusal: Failure | None = None

    def known(self) -> T:
        """Without a look at its age."""
        return self._known()

    def get(self, wait_ms: int) -> T:
        """Raises what the store says against it, such as NotFound; where it says nothing, the last known."""
        if self._fresh():
            return self._known()
        with self._changed:
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
        """Requires: the lock is held."""
        if self._reading or (self._again_at_ms is not None and self._clock() < self._again_at_ms):
            return
        reader = threading.Thread(target=self._read_once, name=f"lithify-latest-{self._topic}", daemon=True)
        self._reading = True
        try:
            reader.start()
        except RuntimeError:  # no more threads
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
            with self._changed:
                self._reading, self._answers = False, answers
                self._again_at_ms = None if answers else self._clock() + AGAIN_MS
                if answers:
                    self._refusal = refusal
                self._changed.notify_all()
