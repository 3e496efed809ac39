"""Tells once if a store leaves its requests without an answer, so that nobody wonders what a program waits for."""

import threading
from collections.abc import Callable

from lithify.store.driver import Clock, monotonic_ms

__all__ = ["SILENCE_MS", "Silence"]

SILENCE_MS = 2_000


class Silence:
    """`tell` is called, in a thread of its own, once requests have waited or failed for SILENCE_MS and none has been
    answered meanwhile; only once. A refusal is an answer. Thread-safe."""

    def __init__(
        self,
        tell: Callable[[], object],
        clock: Clock = monotonic_ms,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._wait = wait
        self._lock = threading.Lock()
        self._over = threading.Event()  # it was told, or nobody listens any more
        self._thread: threading.Thread | None = None
        self._waiting = 0  # requests
        self.since_ms: int | None = None  # since when an answer is owed; None: none is

    def asked(self) -> None:
        """A request is sent."""
        with self._lock:
            self._waiting += 1
            if self.since_ms is None:
                self.since_ms = self._clock()
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._watch, name="lithify-silence", daemon=True)
                self._thread.start()

    def answered(self, *, well: bool) -> None:
        """It has ended, `well` or without an answer."""
        with self._lock:
            self._waiting -= 1
            if well:
                self.since_ms = self._clock() if self._waiting else None

    def close(self) -> None:
        self._over.set()

    def join(self) -> None:
        """Wait until the thread has ended. Requires: it was closed, or it has told."""
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        left_ms = SILENCE_MS
        while not self._wait(self._over, left_ms / 1_000):
            with self._lock:
                silent_ms = 0 if self.since_ms is None else self._clock() - self.since_ms
            if silent_ms >= SILENCE_MS:
                self._over.set()
                self._tell()
            left_ms = max(SILENCE_MS - silent_ms, 1)
