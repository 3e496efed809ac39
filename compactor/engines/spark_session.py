"""A Spark session of our own, for who gave only a master, or nothing."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from lithify.compactor.java import use_java
from lithify.store.errors import InvalidRequest, Unavailable

__all__ = ["open_session", "prepare"]

_OWN = {
    "spark.app.name": "lithify",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",  # a second copy of a merge only doubles the work
    "spark.task.maxFailures": "1",  # the coordinator alone retries, and records each attempt (P14)
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    # The JVM carries nothing but descriptors: to compile it thoroughly (C2) costs a core for most of its first minute.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
}


def prepare(master: str) -> None:
    """What must hold before a session starts. Raises InvalidRequest where there is no Java, or for `sc://…`."""
    if master.startswith("sc://"):
        raise InvalidRequest(
            f"{master}: for Spark Connect open the session yourself (SparkSession.builder.remote) and give it to "
            "SparkEngine"
        )
    use_java()
    if master.startswith("local"):
        # PySpark starts its workers with this, else with whatever python3 comes first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def open_session(master: str, config: Mapping[str, str]) -> tuple[Any, bool]:
    """A session on `master`, and whether it is new: a process holds one SparkContext, and one that already runs is
    used and left alone. Raises InvalidRequest where that one has another master, Unavailable where none starts."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if running is not None:
        if running.master != master:
            raise InvalidRequest(
                f"this process already runs a Spark session on {running.master}, not on {master}: give that session to "
                "SparkEngine, or stop it first"
            )
        return SparkSession.builder.getOrCreate(), False
    local = _LOCAL if master.startswith("local") else {}
    builder = SparkSession.builder.master(master).config(map={**_OWN, **local, **config})
    try:
        return builder.getOrCreate(), True
    except Exception as error:  # py4j's, PySpark's, the operating system's
        raise Unavailable(
            f"no Spark session starts on {master} ({type(error).__name__}): is the master up, are the settings right? "
            "Spark's own output tells more"
        ) from error
