"""The store's clock, followed through the Date of its replies; no request is made for it."""

from email.utils import parsedate_to_datetime

from lithify.store.driver import monotonic_ms

__all__ = ["ReplyClock"]

_DATE_STEP_MS = 1000  # Date has whole seconds, rounded down


class ReplyClock:
    """`now` is the store's clock to within a second: never ahead of it, and not jumping with each reply.

    A reply of date D that arrived at monotonic M says that (store - monotonic) is in [D - M, D - M + 1 s). Within that
    step the largest lower bound seen stays; outside it the store's clock was set, or drifted, and the new one counts.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None  # store's clock minus this process's monotonic one

    def observe(self, date: str | None) -> None:
        """`date` is a reply's Date header (RFC 9110, 5.6.7). One without it, or with nonsense, tells nothing."""
        if not date:
            return
        try:
            ahead_ms = int(parsedate_to_datetime(date).timestamp() * 1000) - monotonic_ms()
        except ValueError:
            return
        known = self._ahead_ms
        if known is None or not known - _DATE_STEP_MS <= ahead_ms <= known:
            self._ahead_ms = ahead_ms

    def now(self) -> int | None:
        """Milliseconds since 1970; None before the first reply."""
        return None if self._ahead_ms is None else monotonic_ms() + self._ahead_ms
