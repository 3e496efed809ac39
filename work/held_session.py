"""The one Spark session that orders travel over: when it is opened, reopened and closed."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from lithify.store.errors import Unavailable
from lithify.work.spark_jobs import SparkJobs
from lithify.work.spark_session import Health

__all__ = ["HeldSession", "Known", "Opened", "next_use"]

_REMEDIES = {
    Health.STOPPED: "start a new session, and pass that one",
    Health.LOST: "restart this process, because PySpark cannot start a second JVM in it; or give a master "
    "instead, so that lithify opens sessions itself",
}

Known = Literal["nothing", "opening", "failed"] | Health
"""The state of the session; "nothing": none was ever opened."""


def next_use(known: Known, *, given: bool) -> Literal["use", "open", "refuse"]:
    """What an attempt does about the session. A session of ours that died, was stopped or is deserted is opened again.
    One that was
    given is not: its owner may have stopped it on purpose, and another session is not the one that was asked for."""
    match known:
        case "opening" | Health.WORKS:
            return "use"
        case Health.DESERTED if given:
            return "use"  # its owner may have a master that recovers; whoever waits in vain says so
        case Health.STOPPED | Health.LOST if given:
            return "refuse"
        case _:
            return "open"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open session. `close` closes it if it is ours, and never raises."""

    jobs: SparkJobs
    close: Callable[[], None] | None = None


class HeldSession:
    """`given`: a session that the caller opened. Otherwise `open_new` opens one, in a thread of `pool`. Thread-safe."""

    def __init__(self, pool: ThreadPoolExecutor, open_new: Callable[[], Opened], given: Opened | None = None) -> None:
        self._pool = pool
        self._open_new = open_new
        self._given = given is not None
        self._lock = threading.Lock()
        self._opening: Future[Opened] | None = None
        if given is not None:
            self._opening = Future()
            self._opening.set_result(given)

    def current(self, prepare: Callable[[], Any]) -> Future[Opened]:
        """The session, or a future for the one that is being opened; `prepare` is called before one is opened. Raises
        Unavailable if a session that was given is gone."""
        with self._lock:
            known = self._known()
            match next_use(known, given=self._given):
                case "refuse":
                    assert isinstance(known, Health)
                    raise Unavailable(f"the given Spark session {known.value}: {_REMEDIES[known]}")
                case "open":
                    prepare()
                    # It enters the pool's queue before the tasks that wait for it.
                    self._opening = self._pool.submit(self._reopen, self._opening)
                case "use":
                    pass
            assert self._opening is not None
            return self._opening

    def close(self) -> None:
        """Close the session, if it is ours. Requires: the pool is idle, and `current` is not called again."""
        with self._lock:
            opening, self._opening = self._opening, None
        _let_go(opening)

    def _known(self) -> Known:
        if self._opening is None:
            return "nothing"
        if not self._opening.done():
            return "opening"
        if self._opening.exception() is not None:
            return "failed"
        jobs = self._opening.result().jobs
        health = jobs.health()
        return Health.DESERTED if health is Health.WORKS and jobs.deserted() else health

    def _reopen(self, before: Future[Opened] | None) -> Opened:
        _let_go(before)
        return self._open_new()


def _let_go(opening: Future[Opened] | None) -> None:
    if opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None:
        close = opening.result().close
        if close is not None:
            close()
