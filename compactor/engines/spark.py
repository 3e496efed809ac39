"""The Spark engine: each task is one Spark job of one task, so that results come back one by one as they land."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lithify.compactor.engines.executor_wait import EXECUTOR_WAIT_MS
from lithify.compactor.engines.spark_attempt import SparkAttempt
from lithify.compactor.engines.underway import Threads
from lithify.segment.task import JobTask
from lithify.store.errors import InvalidRequest
from lithify.store.homes import Homes
from lithify.work.spark import JOBS_MAX, SparkWorkers, refuse_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]


class SparkEngine:
    """Runs tasks on `session_or_master`: a session (also of Spark Connect), which is never stopped here; a master
    ("spark://host:7077", "local[2]", "sc://host"); or None for `local[*]`. A master's session starts with the first
    attempt.

    `parallelism` bounds how many tasks run at a time, besides one of a short job (default: 32 Spark jobs, of which
    Spark runs as many as it has processors for). `config` holds settings for a session that is started here
    (docs/cluster.md). If a cluster gives no executor for `executor_wait_ms`, the attempt ends, and is tried again
    later. Raises InvalidRequest.
    """

    def __init__(
        self,
        session_or_master: "SparkSession | str | None" = None,
        *,
        parallelism: int | None = None,
        config: Mapping[str, str] | None = None,
        executor_wait_ms: int = EXECUTOR_WAIT_MS,
    ) -> None:
        if parallelism is not None and parallelism < 1:
            raise InvalidRequest(f"parallelism is {parallelism}: it must be at least 1")
        if session_or_master is None:
            session_or_master = f"local[{parallelism or '*'}]"
        self._threads = Threads(parallelism or JOBS_MAX, "lithify-spark")
        self._workers = SparkWorkers(session_or_master, self._threads.common, config)
        self._executor_wait_ms = executor_wait_ms
        self._lock = threading.Lock()
        self._attempts: weakref.WeakSet[SparkAttempt] = weakref.WeakSet()
        self._closed = False

    @property
    def name(self) -> str:
        return "spark"

    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> SparkAttempt:
        """Start the tasks and return at once: if the session has yet to start (5 to 25 s), it starts in the background,
        so that leases are kept.

        A session of our own that died or was stopped is opened again. Raises Unavailable if a session that was given is
        gone, InvalidRequest if the tasks cannot run here: no Java, a store in this process's memory, a setting that
        cannot work, a closed engine.
        """
        refuse_memory(homes, label)
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"{label}: this engine is closed; make a new one")
            opening = self._workers.session()
            attempt = SparkAttempt(self._threads, self._workers, opening, homes, tasks, label, self._executor_wait_ms)
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
        self._workers.close()
