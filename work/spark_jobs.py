"""One order as one Spark job of one task, over whichever kind of session there is.

Measured on Spark 4.3, local[2], two busy cores: a warm, empty job takes 0.18 s as an RDD and 0.25 s through
`mapInArrow`, whose workers also import pandas. So a session with a SparkContext carries orders as RDDs, and a Spark
Connect session, which has none, through `mapInArrow`.
"""

import contextlib
import functools
import logging
import socket
from collections.abc import Sequence
from typing import Any, Protocol

import structlog

from lithify.work.masters import Line
from lithify.work.spark_conf import is_local
from lithify.work.spark_errors import session_is_lost
from lithify.work.spark_session import Health, context_health
from lithify.work.worker import obey, obey_batches

__all__ = ["POOL", "SHORT_POOL", "ConnectJobs", "RddJobs", "SparkJobs", "is_connect_session", "jobs_of"]

log = structlog.wrap_logger(logging.getLogger("lithify.work"))

# Pools of Spark's fair scheduler, so that a shared session gives other jobs their share, and long jobs leave short ones
# theirs: each pool is a queue, and the next processor goes to the pool that has fewer.
POOL, SHORT_POOL = "lithify", "lithify-short"


class SparkJobs(Protocol):
    @property
    def workers_share_machine(self) -> bool:
        """Whether workers run on the machine of this process."""
        ...

    def health(self) -> Health:
        """Whether the session is still there; costs one call. Never raises."""
        ...

    def executors(self) -> int | None:
        """How many executors there are; None: nobody knows, or no job waits for one. Costs one call. Never raises."""
        ...

    def deserted(self) -> bool:
        """Whether the session's master is gone, or was restarted and does not know it, and no executor is left: nothing
        will run here any more. Never raises."""
        ...

    def run(self, sealed: str, description: str, tags: Sequence[str], *, short: bool = False) -> str:
        """Carry the order to a worker and return its reply. Raises whatever Spark raises. `tags`: by which Spark's UI
        and `cancel` find it. `short`: the order of a short job, with which long ones share their processors."""
        ...

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with this tag that Spark knows. Spark kills their Python workers some seconds later. Raises
        whatever Spark raises."""
        ...

    def abandon(self) -> None:
        """End every running `run` at once, with an error. Requires: the session is gone. Never raises."""
        ...


class RddJobs:
    def __init__(self, context: Any, line: Line | None = None) -> None:
        """`line`: to the master, if the session is ours and its master a standalone one."""
        self._context = context
        self._line = line
        self._waiting: set[Any] = set()  # connections of threads that wait for a job

    @property
    def workers_share_machine(self) -> bool:
        return str(self._context.master).startswith("local")

    def executors(self) -> int | None:
        if is_local(str(self._context.master)):
            return None
        try:
            return len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # one of them is the driver
        except Exception as error:  # noqa: BLE001 - py4j's: `health` tells more
            log.debug("Spark did not tell its executors", error=type(error).__name__)
            return None

    def deserted(self) -> bool:
        return self._line is not None and self._line.cut and self.executors() == 0

    def health(self) -> Health:
        return context_health(self._context)

    def run(self, sealed: str, description: str, tags: Sequence[str], *, short: bool = False) -> str:
        context = self._context
        # All of these belong to the calling thread (PySpark pins each to one of the JVM's).
        for tag in tags:
            context.addJobTag(tag)
        context.setJobDescription(description)
        context._jsc.setCallSite(description)  # the name of the job and of its stage
        context.setLocalProperty("spark.scheduler.pool", SHORT_POOL if short else POOL)
        context.setInterruptOnCancel(True)
        connection = _thread_connection(context)
        self._waiting.add(connection)
        try:
            # `collect` would name the job after this line.
            (reply,) = context.runJob(context.parallelize([sealed], 1).map(obey), list)
        finally:
            self._waiting.discard(connection)
            for tag in tags:
                context.removeJobTag(tag)
        return reply

    def cancel(self, tag: str) -> None:
        if self._context._jsc is not None:  # None: it was stopped, and its jobs with it
            self._context.cancelJobsWithTag(tag)

    def abandon(self) -> None:
        # SUBTLE! 1. A thread of ours submits a job while its context stops. 2. Spark's scheduler has ended, so the
        # JVM's thread waits for ever. 3. Ours waits for that one. Closing its connection frees it. Test:
        # tests/compactor/test_engines_death.py
        for connection in tuple(self._waiting):
            open_socket = None if connection is None else connection.socket  # None: py4j has closed it
            if open_socket is not None:
                with contextlib.suppress(OSError):  # somebody closed it meanwhile
                    open_socket.shutdown(socket.SHUT_RDWR)


class ConnectJobs:
    def __init__(self, session: Any) -> None:
        self._session = session
        self._lost = False  # the server was gone, or had forgotten the session, when a job was sent

    @property
    def workers_share_machine(self) -> bool:
        return False  # nothing tells, so they use their own credentials

    def health(self) -> Health:
        # The next job finds out whether the server is there: a call made here would be retried for minutes.
        return Health.STOPPED if self._lost or self._session.is_stopped else Health.WORKS

    def executors(self) -> int | None:
        return None  # the protocol does not tell

    def deserted(self) -> bool:
        return False

    def run(self, sealed: str, description: str, tags: Sequence[str], *, short: bool = False) -> str:
        session = self._session
        for tag in tags:
            session.addTag(tag)
        try:
            one_row = session.range(0, 1, 1, 1)
            (row,) = one_row.mapInArrow(functools.partial(obey_batches, sealed), "reply string").collect()
        except Exception as error:
            self._lost = self._lost or session_is_lost(error)
            raise
        finally:
            for tag in tags:
                session.removeTag(tag)
        return row.reply

    def cancel(self, tag: str) -> None:
        self._session.interruptTag(tag)

    def abandon(self) -> None:
        """A gRPC call ends by itself if the session is gone."""


def _thread_connection(context: Any) -> Any:
    """The calling thread's connection to the JVM; None if PySpark does not pin a JVM thread to it."""
    client = context._gateway._gateway_client
    return client.get_thread_connection() if hasattr(client, "get_thread_connection") else None


def is_connect_session(session: Any) -> bool:
    # By name: importing the class would need grpcio, which only users of Spark Connect have.
    return type(session).__module__.startswith("pyspark.sql.connect.")


def jobs_of(session: Any, line: Line | None = None) -> SparkJobs:
    return ConnectJobs(session) if is_connect_session(session) else RddJobs(session.sparkContext, line)
