"""One collection of garbage at a time, for whoever asks."""

from lithify.events.event_log import log_event
from lithify.events.types import Sink
from lithify.gc.collector import GRACE_MS, GRACE_MS_MIN, Collector, GcReport
from lithify.manifest.words import span_text
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.own_lock import OwnLock

__all__ = ["GRACE_MS", "Garbage", "check_grace"]


def check_grace(grace_ms: int, named: str) -> None:
    """Raises InvalidRequest if the grace period is shorter than writers need. 0 states that nobody else uses the
    warehouse."""
    if 0 < grace_ms < GRACE_MS_MIN:
        raise InvalidRequest(
            f"{named} is {grace_ms}; it must be at least {GRACE_MS_MIN} ({span_text(GRACE_MS_MIN)}), because "
            "writers build on manifests that they read up to a minute ago. Use 0 only if nothing else uses the "
            "warehouse"
        )


class Garbage:
    """A collector that remembers what it has read from pass to pass. Thread-safe: passes take turns."""

    def __init__(self, driver: Driver, events: Sink = log_event) -> None:
        self.driver = driver
        self._events = events
        self._lock = OwnLock()
        self._collector: tuple[int, Collector] | None = None

    def collect(self, dry_run: bool, sweep: bool, grace_ms: int) -> GcReport:
        check_grace(grace_ms, "grace_ms")
        with self._lock.mine():
            if self._collector is None or self._collector[0] != grace_ms:
                self._collector = grace_ms, Collector(self, grace_ms=grace_ms, events=self._events)
            collector = self._collector[1]
            return collector.with_times(collector.run_once(dry_run, sweep))
