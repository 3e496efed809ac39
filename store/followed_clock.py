"""A clock that is costly to read: read now and then, and followed by this process's monotonic clock in between."""

from collections.abc import Callable
from typing import NamedTuple

from lithify.store.driver import machine_ms, monotonic_ms

__all__ = ["FollowedClock"]

SLEPT_MS = 1_000  # a machine that slept for less is not noticed


class _Reading(NamedTuple):
    told_ms: int
    monotonic_ms: int
    machine_ahead_ms: int  # this machine's clock - monotonic


class FollowedClock:
    """`read` reads the clock; it is called again after `kept_ms`, or sooner if this machine's own clock has advanced
    over a second more than the monotonic one, which stops while a machine sleeps. So `now` is at most that much behind.
    Threads may share it: a reading is replaced as a whole."""

    def __init__(
        self,
        read: Callable[[], int],
        kept_ms: int,
        monotonic: Callable[[], int] = monotonic_ms,
        machine: Callable[[], int] = machine_ms,
    ) -> None:
        self._read = read
        self._kept_ms = kept_ms
        self._monotonic = monotonic
        self._machine = machine
        self._known: _Reading | None = None

    def now(self) -> int:
        """Milliseconds since 1970."""
        known, monotonic = self._known, self._monotonic()
        if known is None or not self._holds(known, monotonic):
            told_ms, monotonic = self._read(), self._monotonic()
            self._known = known = _Reading(told_ms, monotonic, self._machine() - monotonic)
        return known.told_ms + monotonic - known.monotonic_ms

    def _holds(self, known: _Reading, monotonic: int) -> bool:
        slept_ms = abs(self._machine() - monotonic - known.machine_ahead_ms)
        return 0 <= monotonic - known.monotonic_ms < self._kept_ms and slept_ms <= SLEPT_MS
