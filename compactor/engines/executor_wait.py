"""How long the tasks of an attempt wait while Spark has no executor at all (docs/rfcs/0020)."""

import logging
from collections.abc import Callable

import structlog

from lithify.compactor.engine import NoWorkers
from lithify.manifest.words import span_text
from lithify.store.driver import monotonic_ms
from lithify.work.spark_jobs import SparkJobs

__all__ = ["EXECUTOR_WAIT_MS", "ExecutorWait"]

EXECUTOR_WAIT_MS = 60_000  # a standalone cluster starts one in about 3 s, Kubernetes and YARN in half a minute

log = structlog.wrap_logger(logging.getLogger("lithify.compactor"))


class ExecutorWait:
    """Of one attempt. One thread at a time."""

    def __init__(self, wait_ms: int, label: str, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._wait_ms = wait_ms
        self._label = label
        self._now_ms = now_ms
        self._since_ms: int | None = None  # since then there has been no executor

    def look(self, jobs: SparkJobs) -> None:
        """Called every few seconds in which no task ended. Raises NoWorkers once it has waited long enough, or as soon
        as none can come."""
        if jobs.executors() != 0:
            self._since_ms = None
            return
        if jobs.deserted():
            raise NoWorkers(
                "the Spark master is gone or was restarted, and no executor is left: the next attempt opens the "
                "session anew"
            )
        now_ms = self._now_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
            if self._wait_ms:
                log.warning("no Spark executor yet", work=self._label, waits_ms=self._wait_ms)
        if now_ms - self._since_ms >= self._wait_ms:
            raise NoWorkers(
                f"Spark gave no executor for {span_text(self._wait_ms)}: the cluster has no free core or not enough "
                "memory, or its workers are gone; free some, or let others take less (spark.cores.max)"
            )
