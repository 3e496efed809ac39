"""The Spark engine: each task is one Spark job of one task, so that results come back one by one as they land.

Spark carries descriptors, not rows: workers read, merge and write by themselves. What crosses a process border is JSON
without secrets. Explicit secrets reach workers of this machine through a private file; workers elsewhere use their own
credential chain, and import lithify from the same wheel.
"""

import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lithify.compactor.engines.private_folder import PrivateFolder
from lithify.compactor.engines.spark_attempt import Opened, SparkAttempt
from lithify.compactor.engines.spark_jobs import is_stopped, jobs_of
from lithify.compactor.engines.spark_session import open_session, prepare
from lithify.segment.task import MergeTask
from lithify.store.errors import InvalidRequest
from lithify.store.port import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]

_JOBS_MAX = 32  # of Spark, at a time: enough to keep executors busy and let a cluster grow, few enough for threads


class SparkEngine:
    """Runs tasks on `session_or_master`: a session (Spark Connect's, too), which is never stopped here; a master
    ("spark://host:7077", "local[2]"), or nothing for `local[*]`: that session starts with the first attempt.

    `parallelism` bounds how many tasks run at a time (default: 32 Spark jobs, of which Spark runs as many as it has
    processors for). `config` holds settings of a session started here. Raises InvalidRequest.
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
        self._given: Any = session_or_master
        self._config = dict(config or {})
        self._pool = ThreadPoolExecutor(parallelism or _JOBS_MAX, thread_name_prefix="lithify-spark")
        self._private = PrivateFolder()
        self._lock = threading.Lock()
        self._opening: Future[Opened] | None = None
        self._attempts: weakref.WeakSet[SparkAttempt] = weakref.WeakSet()
        self._closed = False

    @property
    def name(self) -> str:
        return "spark"

    def start(
        self, store: Store, tasks: Sequence[MergeTask], label: str, *, tiers: Mapping[str, Store] | None = None
    ) -> SparkAttempt:
        """Returns at once: a session that is yet to start (5 to 25 s) starts behind it, so that leases are kept.

        `tiers`: the store of every tier that a source names. Raises InvalidRequest where the tasks cannot be done
        here: no Java, a session that was stopped, a store in this process's memory, a closed engine.
        """
        stores = {"": store, **(tiers or {})}
        for each in stores.values():
            if each.url.startswith("memory:"):
                raise InvalidRequest(
                    f"{label}: {each.url} lies in this process, where Spark's workers cannot reach it: use "
                    'engine="local", or a warehouse in s3:// or file://'
                )
        with self._lock:
            attempt = SparkAttempt(self._pool, self._session(), self._private, stores, tasks, label)
            self._attempts.add(attempt)
        return attempt

    def close(self) -> None:
        """Stop what is under way and the session, if it was started here; delete what was written for workers."""
        with self._lock:
            self._closed = True
            attempts, opening = list(self._attempts), self._opening
        for attempt in attempts:
            attempt.stop()
        self._pool.shutdown()
        if opening is not None and opening.exception() is None and (own := opening.result().own) is not None:
            own.stop()
        self._private.delete()

    def _session(self) -> Future[Opened]:
        """The session, or the one to come. A start that failed is tried again by the next attempt, not by each task."""
        if self._closed:
            raise InvalidRequest("this engine is closed; make a new one")
        if not isinstance(self._given, str):
            return self._session_given()
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            prepare(self._given)
            # Enters the pool's queue before the tasks that wait for it.
            self._opening = self._pool.submit(self._open, self._given)
        return self._opening

    def _session_given(self) -> Future[Opened]:
        if is_stopped(self._given):
            raise InvalidRequest("the Spark session given to SparkEngine is stopped: start a new one and give that")
        if self._opening is None:
            self._opening = Future()
            self._opening.set_result(Opened(jobs_of(self._given)))
        return self._opening

    def _open(self, master: str) -> Opened:
        session, new = open_session(master, self._config)
        return Opened(jobs_of(session), session if new else None)
