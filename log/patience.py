"""How much longer a poll may wait."""

from lithify.store.driver import Driver
from lithify.store.port import Pause

__all__ = ["Patience"]


class Patience:
    """A time limit in milliseconds from now; None: no limit. Requests to the store count, and each pause counts with at
    least its intended length, whatever the clock shows."""

    def __init__(self, driver: Driver, timeout_ms: int | None) -> None:
        self._driver = driver
        self._timeout_ms = timeout_ms
        self._began_ms = driver.monotonic_ms() if timeout_ms else 0
        self._paused_ms = 0

    @property
    def is_over(self) -> bool:
        return self._left_ms(1) <= 0

    def wait(self, ms: int) -> None:
        """Wait `ms`, or as long as is left if that is less."""
        ms = max(0, self._left_ms(ms))
        self._driver.answer(Pause(ms))
        self._paused_ms += ms

    def _left_ms(self, ms: int) -> int:
        """What is left, at most `ms`."""
        if self._timeout_ms is None:
            return ms
        if not self._timeout_ms:
            return 0
        passed_ms = max(self._paused_ms, self._driver.monotonic_ms() - self._began_ms)
        return min(ms, self._timeout_ms - passed_ms)
