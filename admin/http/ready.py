"""Whether the store answers: for probes, which ask often, and may ask without a token."""

import logging

import structlog

from lithify.store.driver import Driver
from lithify.store.errors import LithifyError
from lithify.store.own_lock import OwnLock

__all__ = ["FRESH_MS", "Ready"]

log = structlog.wrap_logger(logging.getLogger("lithify.http"))

FRESH_MS = 5_000
_KEY = ".ready"  # never there; whether it is must be answered


class Ready:
    """Raises what the store raised, when it was last asked. One GET each five seconds, however many ask; a failure
    is logged as often."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._store = driver.store.hasty()
        self._lock = OwnLock()
        self._asked_ms: int | None = None
        self._failure: LithifyError | None = None

    def __call__(self) -> None:
        with self._lock.mine():
            now_ms = self._driver.monotonic_ms()
            if self._asked_ms is None or now_ms - self._asked_ms >= FRESH_MS:
                self._failure = None
                try:
                    self._store.get(_KEY)
                except LithifyError as error:
                    log.warning("not ready", kind=error.kind, error=str(error))
                    self._failure = error
                self._asked_ms = self._driver.monotonic_ms()
            if self._failure is not None:
                raise self._failure.with_traceback(None)
