"""Why Spark brought no reply, from the words of its errors. They are searched for and never repeated: they may quote
anything. Only the host of a worker is taken from them, where it has the form of one."""

import re
from dataclasses import dataclass

from lithify.manifest.categories import Category
from lithify.work.spark_session import Health

__all__ = ["Lost", "explain", "session_is_lost"]

# Phrases, the most specific first.
_WORKER_LACKS_US = "No module named 'lithify"
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_NO_PYTHON = "Cannot run program"
_OUT_OF_MEMORY = (
    "OutOfMemoryError", "OOMKilled", "exit code 137", "exceeding memory limits", "exceeding physical memory limits",
    "beyond physical memory limits",
)  # fmt: skip
_WORKER_DIED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = "ExecutorLostFailure"
_STOPPED = (
    "SparkContext was shut down", "SparkContext has been shut down", "stopped SparkContext", "SESSION_CLOSED",
    "SESSION_NOT_FOUND", "SESSION_CHANGED",
)  # fmt: skip
_SERVER_GONE = ("StatusCode.UNAVAILABLE", "failed to connect to all addresses")  # of Spark Connect
_CANCELLED_TEXT = "something else cancelled the Spark job"
_CANCELLED = ("cancelled", "INTERRUPTED", "OPERATION_CANCELED")

# As in: Lost task 0.3 in stage 7.0 (TID 9) (10.0.0.5 executor 3)
_HOST = re.compile(r"\(TID \d+\) \(([A-Za-z0-9.:\[\]-]{1,255}) executor [A-Za-z0-9-]+\)")
_DRIVER = re.compile(r"executor driver\)")


@dataclass(frozen=True, slots=True)
class Lost:
    """Spark brought no reply. `reason` never quotes what Spark said."""

    category: Category
    reason: str
    cancelled: bool = False  # by somebody else: it is not to be tried again at once


def explain(error: Exception, health: Health = Health.WORKS) -> Lost:
    """Why Spark brought no reply. `health`: the session's, after the failure."""
    text = _words(error)
    category, reason = _meaning(text, type(error).__name__, health)
    hosts = _HOST.findall(text)
    if hosts and not _DRIVER.search(text):
        reason = f"worker {hosts[-1]}: {reason}"
    return Lost(category, reason, cancelled=reason.endswith(_CANCELLED_TEXT))


def session_is_lost(error: Exception) -> bool:
    """Whether a Spark Connect server does not answer any more, or no longer knows the session."""
    text = _words(error)
    return any(words in text for words in (*_STOPPED, *_SERVER_GONE))


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - py4j asks the JVM for the words of its errors, and that may be gone
        return ""


def _meaning(text: str, kind: str, health: Health) -> tuple[Category, str]:
    if _WORKER_LACKS_US in text:
        return Category.INVALID, (
            "Spark's workers cannot import lithify: install the same wheel there as here, or ship it (docs/cluster.md)"
        )
    if _OTHER_PYTHON in text:
        return Category.INVALID, (
            "Spark's workers run another version of Python: name the right one with spark.pyspark.python "
            "(docs/cluster.md)"
        )
    if _NO_PYTHON in text:
        return Category.INVALID, (
            "Spark's workers find no Python under the path given: name it with spark.pyspark.python (docs/cluster.md)"
        )
    if any(words in text for words in _OUT_OF_MEMORY):
        return (
            Category.MEMORY,
            "an executor or its Python worker ran out of memory: give it more, or run fewer tasks on it",
        )
    if any(words in text for words in _SERVER_GONE):
        return Category.ENGINE_LOST, "the Spark Connect server cannot be reached any more"
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
    if any(words in text for words in _CANCELLED):
        return Category.ENGINE, _CANCELLED_TEXT
    return Category.ENGINE, f"Spark could not run the task ({kind}); see Spark's own log for why"
