"""Spark as the carrier of orders: one session, private files for its workers, one Spark job for each order.

Spark carries descriptors, not rows: workers read, work and write by themselves. Explicit secrets reach workers of this
machine through a private file in memory; workers elsewhere use their own credential chain, and import lithify from the
same wheel.
"""

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from lithify.store.errors import InvalidRequest
from lithify.store.homes import Homes
from lithify.work.held_session import HeldSession, Opened
from lithify.work.masters import Line
from lithify.work.order import Order, Reply, Work, installed_version, seal, specs_of, unseal
from lithify.work.private_files import PrivateFiles
from lithify.work.spark_conf import is_connect
from lithify.work.spark_errors import Lost, explain
from lithify.work.spark_jobs import SparkJobs, jobs_of
from lithify.work.spark_session import Health, close_remote, close_session, open_session, prepare
from lithify.work.stop_file import StopFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JOBS_MAX", "SparkWorkers", "carry", "refuse_memory", "withdraw"]

JOBS_MAX = 32  # Spark jobs at a time: enough to keep executors busy and let a cluster grow, few enough for threads

log = structlog.wrap_logger(logging.getLogger("lithify.work"))


def refuse_memory(homes: Homes, label: str) -> None:
    """Raises InvalidRequest if one of the stores lies in this process."""
    for _, store in homes:
        if store.url.startswith("memory:"):
            raise InvalidRequest(
                f"{label}: {store.url} lies in this process, where Spark's workers cannot reach it: use the local "
                "engine (--engine local), or a warehouse in s3:// or file://"
            )


class SparkWorkers:
    """The workers of `session_or_master`: a session (also of Spark Connect), which is never stopped here; or a master
    ("spark://host:7077", "local[2]", "sc://host"), whose session starts in a thread of `pool` when it is first asked
    for, with `config`. Thread-safe. Raises InvalidRequest for `config` with a session."""

    def __init__(
        self,
        session_or_master: "SparkSession | str",
        pool: ThreadPoolExecutor,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.private = PrivateFiles()
        self._master = session_or_master if isinstance(session_or_master, str) else None
        self._config = dict(config or {})
        if self._config and self._master is None:
            raise InvalidRequest("config is for a session that lithify starts; the given session has its own")
        given = None if isinstance(session_or_master, str) else Opened(jobs_of(session_or_master))
        self._session = HeldSession(pool, self._open, given)

    def session(self) -> Future[Opened]:
        """The session, or a future for the one that is being opened. Raises Unavailable if a session that was given is
        gone, InvalidRequest if none can start: there is no Java, or a setting cannot work."""
        return self._session.current(self._prepare)

    def order(self, jobs: SparkJobs, work: Work, homes: Homes, stop: StopFile | None = None) -> Order:
        """Raises Unavailable and InvalidRequest if no file for its secrets can be made."""
        here = jobs.workers_share_machine
        return Order(
            version=installed_version(),
            work=work,
            homes=specs_of(work, homes, self.private if here else None),
            elsewhere=not here,
            stop_file=stop.path if stop is not None and here else None,
        )

    def close(self) -> None:
        """Stop the session if it was started here, and delete what was written for workers. Calling it again is
        harmless, even if the session died. Requires: the pool is idle, and `session` is not called again."""
        self._session.close()
        self.private.delete()

    def _prepare(self) -> None:
        assert self._master is not None
        prepare(self._master, self._config)

    def _open(self) -> Opened:
        assert self._master is not None
        if is_connect(self._master):
            session, _ = open_session(self._master, self._config)
            return Opened(jobs_of(session), functools.partial(close_remote, session))
        line = Line(self._master)
        try:
            session, new = open_session(self._master, self._config)
        except BaseException:
            line.close()
            raise

        def close() -> None:
            close_session(session)
            line.close()

        if not new:
            line.close()
        return Opened(jobs_of(session, line if new else None), close if new else None)


def carry(jobs: SparkJobs, order: Order, described: str, tags: Sequence[str], *, short: bool = False) -> Reply | Lost:
    """Carry the order to a worker and wait for its reply; `described` tells people what it is, each of `tags` names it
    for `withdraw`. Never raises."""
    try:
        return unseal(jobs.run(seal(order), described, tags, short=short))
    except Exception as error:  # noqa: BLE001 - py4j's, PySpark's or gRPC's, depending on the session
        return explain(error, jobs.health())


def withdraw(jobs: SparkJobs, tags: Iterable[str]) -> None:
    """Tell Spark to cancel the orders with these tags that it knows. If the session is gone, their `carry` ends at
    once. Never raises."""
    if jobs.health() is not Health.WORKS:
        jobs.abandon()
        return
    try:
        for tag in tags:
            jobs.cancel(tag)
    except Exception as error:  # noqa: BLE001 - py4j's or gRPC's: the session is gone, and its jobs with it
        log.debug("Spark's jobs could not be cancelled", error=type(error).__name__)
