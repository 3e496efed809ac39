"""The Spark engine: each task is one Spark job of one task, so that results come back one by one as they land.

Spark carries descriptors, not rows: workers read, merge and write by themselves. Only JSON without secrets crosses a
process border. Explicit secrets reach workers of this machine through a private file in memory; workers elsewhere use
their own credential chain, and import lithify from the same wheel.
"""

import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lithify.compactor.engines.held_session import HeldSession, Opened
from lithify.compactor.engines.private_files import PrivateFiles
from lithify.compactor.engines.spark_attempt import SparkAttempt
from lithify.compactor.engines.spark_jobs import jobs_of
from lithify.compactor.engines.spark_session import close_session, open_session, prepare
from lithify.compactor.engines.underway import Threads
from lithify.segment.task import MergeTask
from lithify.store.errors import InvalidRequest
from lithify.store.homes import Homes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]

_JOBS_MAX = 32  # Spark jobs at a time: enough to keep executors busy and let a cluster grow, few enough for threads


class SparkEngine:
    """Runs tasks on `session_or_master`: a session (also of Spark Connect), which is never stopped here; a master
    ("spark://host:7077", "local[2]"); or None for `local[*]`. A master's session starts with the first attempt.

    `parallelism` bounds how many tasks run at a time, besides one of a short job (default: 32 Spark jobs, of which
    Spark runs as many as it has processors for). `config` holds settings for a session that is started here. Raises
    InvalidRequest.
    """

    def __init__(
        self,
        session_or_master: "SparkSession | str | None" = None,
        *,
        parallelism: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        if parallelism is not None and parallelism < 1:
            raise InvalidRequest(f"parallelism is {parallelism}: it must be at least 1")
        if session_or_master is None:
            session_or_master = f"local[{parallelism or '*'}]"
        if config and not isinstance(session_or_master, str):
            raise InvalidRequest("config is for a session started here; the session given to SparkEngine has its own")
        self._master = session_or_master if isinstance(session_or_master, str) else None
        self._config = dict(config or {})
        self._threads = Threads(parallelism or _JOBS_MAX, "lithify-spark")
        given = None if isinstance(session_or_master, str) else Opened(jobs_of(session_or_master))
        self._session = HeldSession(self._threads.common, self._open, given)
        self._private = PrivateFiles()
        self._lock = threading.Lock()
        self._attempts: weakref.WeakSet[SparkAttempt] = weakref.WeakSet()
        self._closed = False

    @property
    def name(self) -> str:
        return "spark"

    def start(self, homes: Homes, tasks: Sequence[MergeTask], label: str) -> SparkAttempt:
        """Start the tasks and return at once: if the session has yet to start (5 to 25 s), it starts in the background,
        so that leases are kept.

        A session of our own that died or was stopped is opened again. Raises Unavailable if a session that was given is
        gone, InvalidRequest if the tasks cannot run here: no Java, a store in this process's memory, a closed engine.
        """
        for _, store in homes:
            if store.url.startswith("memory:"):
                raise InvalidRequest(
                    f"{label}: {store.url} lies in this process, where Spark's workers cannot reach it: use "
                    'engine="local", or a warehouse in s3:// or file://'
                )
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"{label}: this engine is closed; make a new one")
            opening = self._session.current(self._prepare)
            attempt = SparkAttempt(self._threads, opening, self._private, homes, tasks, label)
            self._attempts.add(attempt)
        return attempt

    def close(self) -> None:
        """Stop the running tasks, and the session if it was started here; delete what was written for workers. Calling
        it again is harmless, even if the session died."""
        with self._lock:
            self._closed = True
            attempts = list(self._attempts)
        for attempt in attempts:
            attempt.stop()
        self._threads.shutdown(wait=True)
        self._session.close()
        self._private.delete()

    def _prepare(self) -> None:
        assert self._master is not None
        prepare(self._master)

    def _open(self) -> Opened:
        assert self._master is not None
        session, new = open_session(self._master, self._config)
        return Opened(jobs_of(session), functools.partial(close_session, session) if new else None)
