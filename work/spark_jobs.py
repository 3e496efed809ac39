"""One order as one Spark job of one task, over whichever kind of session there is.

Measured on Spark 4.3, local[2], two busy cores: a warm, empty job takes 0.18 s as an RDD and 0.25 s through
`mapInArrow`, whose workers also import pandas. So a session with a SparkContext carries orders as RDDs, and a Spark
Connect session, which has none, through `mapInArrow`.
"""

import contextlib
import functools
import socket
from dataclasses import dataclass
from typing import Any, Protocol

from lithify.manifest.categories import Category
from lithify.work.spark_session import Health, context_health
from lithify.work.worker import obey, obey_batches

__all__ = ["POOL", "SHORT_POOL", "ConnectJobs", "Lost", "RddJobs", "SparkJobs", "explain", "is_connect", "jobs_of"]

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

    def run(self, sealed: str, description: str, tag: str, *, short: bool = False) -> str:
        """Carry the order to a worker and return its reply. Raises whatever Spark raises. `short`: the order of a short
        job, with which long ones share their processors."""
        ...

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with this tag that Spark knows. Spark kills their Python workers some seconds later. Raises
        whatever Spark raises."""
        ...

    def abandon(self) -> None:
        """End every running `run` at once, with an error. Requires: the session is gone. Never raises."""
        ...


class RddJobs:
    def __init__(self, context: Any) -> None:
        self._context = context
        self._waiting: set[Any] = set()  # connections of threads that wait for a job

    @property
    def workers_share_machine(self) -> bool:
        return str(self._context.master).startswith("local")

    def health(self) -> Health:
        return context_health(self._context)

    def run(self, sealed: str, description: str, tag: str, *, short: bool = False) -> str:
        context = self._context
        # All of these belong to the calling thread (PySpark pins each to one of the JVM's).
        context.addJobTag(tag)
        context.setJobDescription(description)
        context.setLocalProperty("spark.scheduler.pool", SHORT_POOL if short else POOL)
        context.setInterruptOnCancel(True)
        connection = _thread_connection(context)
        self._waiting.add(connection)
        try:
            (reply,) = context.parallelize([sealed], 1).map(obey).collect()
        finally:
            self._waiting.discard(connection)
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

    @property
    def workers_share_machine(self) -> bool:
        return False  # nothing tells, so they use their own credentials

    def health(self) -> Health:
        # The next job finds out whether the server is there: a call made here would be retried for minutes.
        return Health.STOPPED if self._session.is_stopped else Health.WORKS

    def run(self, sealed: str, description: str, tag: str, *, short: bool = False) -> str:
        session = self._session
        session.addTag(tag)
        try:
            one_row = session.range(0, 1, 1, 1)
            (row,) = one_row.mapInArrow(functools.partial(obey_batches, sealed), "reply string").collect()
        finally:
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


def is_connect(session: Any) -> bool:
    # By name: importing the class would need grpcio, which only users of Spark Connect have.
    return type(session).__module__.startswith("pyspark.sql.connect.")


def jobs_of(session: Any) -> SparkJobs:
    return ConnectJobs(session) if is_connect(session) else RddJobs(session.sparkContext)


# Phrases in Spark's errors, the most specific first. They are searched for and never repeated: they may quote anything.
_WORKER_LACKS_US = "No module named 'lithify"
_OUT_OF_MEMORY = (
    "OutOfMemoryError", "OOMKilled", "exit code 137", "exceeding memory limits", "exceeding physical memory limits",
    "beyond physical memory limits",
)  # fmt: skip
_WORKER_DIED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = "ExecutorLostFailure"
_STOPPED = (
    "SparkContext was shut down", "SparkContext has been shut down", "stopped SparkContext", "SESSION_CLOSED",
    "SESSION_NOT_FOUND",
)  # fmt: skip
_SERVER_GONE = ("StatusCode.UNAVAILABLE", "failed to connect to all addresses")  # of Spark Connect
_CANCELLED = ("cancelled", "INTERRUPTED", "OPERATION_CANCELED")


@dataclass(frozen=True, slots=True)
class Lost:
    """Spark brought no reply. `reason` never quotes what Spark said."""

    category: Category
    reason: str


def explain(error: Exception, health: Health = Health.WORKS) -> Lost:
    """Why Spark brought no reply. `health`: the session's, after the failure."""
    return Lost(*_meaning(_words(error), type(error).__name__, health))


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - py4j asks the JVM for the words of its errors, and that may be gone
        return ""


def _meaning(text: str, kind: str, health: Health) -> tuple[Category, str]:
    if _WORKER_LACKS_US in text:
        return Category.INVALID, "Spark's workers cannot import lithify: install the same wheel there as here"
    if any(words in text for words in _OUT_OF_MEMORY):
        return (
            Category.MEMORY,
            "an executor or its Python worker ran out of memory: give it more, or run fewer tasks on it",
        )
    if health is not Health.WORKS:
        return Category.ENGINE_LOST, f"the Spark session {health.value}, while the task ran"
    if _WORKER_DIED in text:
        return Category.MEMORY, (
            "the Python worker died without an error, most often because the kernel killed it when memory ran out: "
            "check the executor's log, give it more memory, or run fewer tasks on it"
        )
    if _EXECUTOR_LOST in text:
        return Category.ENGINE, "the executor was lost with the task on it; see Spark's own log for why"
    if any(words in text for words in _STOPPED):
        return Category.ENGINE_LOST, "the Spark session was stopped, while the task ran"
    if any(words in text for words in _SERVER_GONE):
        return Category.ENGINE_LOST, "the Spark Connect server cannot be reached any more"
    if any(words in text for words in _CANCELLED):
        return Category.ENGINE, "something else cancelled the Spark job"
    return Category.ENGINE, f"Spark could not run the task ({kind}); see Spark's own log for why"
