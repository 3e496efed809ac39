"""Repeats reads and writes that are safe to repeat, within limits. `create` never is (P1)."""

from collections.abc import Callable
from typing import TypeVar

from lithify.store import driver
from lithify.store.driver import monotonic_ms
from lithify.store.s3_errors import ARCHIVED, FAILURES, IN_BODY, error_code, explain

__all__ = ["Repeats"]

T = TypeVar("T")
_PAUSES_MS = (50, 200, 800)
_BUDGET_MS = 15_000


class Repeats:
    """At most four attempts; none begins after `budget_ms`. Raises what the last one raised."""

    def __init__(
        self, pause: Callable[[int], None] = driver.pause, budget_ms: int = _BUDGET_MS, bulk_repeats: bool = True
    ) -> None:
        """`bulk_repeats`: whether the bulk client retries by itself."""
        self._pause = pause
        self._budget_ms = budget_ms
        self._bulk_repeats = bulk_repeats

    def of_bulk(self, attempt: Callable[[], T]) -> T:
        """For the client that retries by itself: repeats only what that does not."""
        if not self._bulk_repeats:
            return self.of_single(attempt)
        return self._repeated(attempt, lambda error: isinstance(error, IN_BODY))

    def of_single(self, attempt: Callable[[], T]) -> T:
        """For the client that sends each request once: repeats everything that may pass."""
        return self._repeated(attempt, _may_pass)

    def _repeated(self, attempt: Callable[[], T], passing: Callable[[BaseException], bool]) -> T:
        deadline_ms = monotonic_ms() + self._budget_ms
        for pause_ms in _PAUSES_MS:
            try:
                return attempt()
            except FAILURES as error:
                if not passing(error) or monotonic_ms() > deadline_ms:
                    raise
            self._pause(pause_ms)
        return attempt()


def _may_pass(error: BaseException) -> bool:
    return explain(error, "").retryable and error_code(error) != ARCHIVED
