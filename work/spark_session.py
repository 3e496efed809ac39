"""A Spark session of our own, if none was given; and whether a session is still there.

A session depends on a JVM that may be killed, and on a context that anybody in this process may stop. PySpark keeps
both in class attributes even then, and would look for the next session in a JVM that is gone.
"""

import importlib.util
import logging
import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import structlog

from lithify.store.errors import InvalidRequest, Unavailable
from lithify.work.java import use_java
from lithify.work.spark_conf import (
    check_master,
    is_connect,
    is_local,
    names_in,
    session_settings,
    ship_of,
    shown_master,
)

__all__ = ["Health", "close_remote", "close_session", "context_health", "open_session", "prepare"]

log = structlog.wrap_logger(logging.getLogger("lithify.work"))

_CONNECT_RETRIES, _CONNECT_BACKOFF_MS = 5, 2_000  # about five seconds


class Health(Enum):
    """The state of a session; the value completes "the Spark session …"."""

    WORKS = "works"
    STOPPED = "was stopped"
    LOST = "is gone because its JVM died"
    DESERTED = "has lost its master, and has no executor"


def context_health(context: Any) -> Health:
    """The state of a SparkContext, by one call of its JVM if that still runs. Never raises."""
    if context._jsc is None:
        return Health.STOPPED
    if _jvm_ended(context._gateway):
        return Health.LOST
    try:
        return Health.STOPPED if context._jsc.sc().isStopped() else Health.WORKS
    except Exception as error:  # noqa: BLE001 - py4j's or the operating system's: whatever it is, nobody answers
        log.debug("no answer from Spark's JVM", error=type(error).__name__)
        return Health.LOST


def _jvm_ended(gateway: Any) -> bool:
    """Whether this process started the JVM and it has ended: calling it would only fill the log."""
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def prepare(master: str, config: Mapping[str, str]) -> None:
    """Check what a session needs before it starts. Raises InvalidRequest if there is no Java (Spark Connect needs
    none), a package is missing, or a setting cannot work."""
    check_master(master, config)
    if is_connect(master):
        if importlib.util.find_spec("grpc") is None or importlib.util.find_spec("grpc_status") is None:
            raise InvalidRequest(f"{shown_master(master)}: Spark Connect needs gRPC: pip install 'lithify[connect]'")
        return
    use_java()
    if is_local(master):
        # PySpark starts its workers with this; else with the first python3 on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def open_session(master: str, config: Mapping[str, str]) -> tuple[Any, bool]:
    """A session on `master`, and whether it is new. A process holds one SparkContext: one that already runs is used,
    and never closed here. Raises InvalidRequest if that one has another master, Unavailable if none starts."""
    if is_connect(master):
        return _open_remote(master), True
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if running is not None and context_health(running) is not Health.WORKS:
        _forget(running)
        running = None
    if running is None:
        _forget_dead_gateway()
    elif running.master != master:
        raise InvalidRequest(
            f"this process already runs a Spark session on {running.master}, not on {master}: give that session "
            "instead of a master, or stop it first"
        )
    else:
        return SparkSession.builder.getOrCreate(), False
    settings: dict[str, Any] = {**session_settings(master, config, _names_in_defaults(), _log_config())}
    try:
        session = SparkSession.builder.master(master).config(map=settings).getOrCreate()
        _ship(session.sparkContext, config)
    except Exception as error:  # py4j's, PySpark's, the operating system's
        raise Unavailable(
            f"no Spark session starts on {master} ({type(error).__name__}): check that the master is up and the "
            "settings are right; Spark's own output has the details"
        ) from error
    return session, True


def _ship(context: Any, config: Mapping[str, str]) -> None:
    """What workers need to import lithify. PySpark reads PYSPARK_PYTHON alone, and only when a context starts."""
    ship = ship_of(config, context.getConf().get, os.environ.get("PYSPARK_PYTHON", ""), sys.executable)
    context.pythonExec = ship.python
    for path in ship.files:
        context.addPyFile(path)


def _names_in_defaults() -> frozenset[str]:
    """The settings in the user's spark-defaults.conf, which win over lithify's defaults."""
    try:
        return names_in((_users_folder() / "spark-defaults.conf").read_text(encoding="utf-8"))
    except OSError:
        return frozenset()


def _log_config() -> str:
    """The URL of lithify's log4j2 configuration: Spark's own begins each session with eight lines that no setting
    silences. "": leave it to Spark, since the user has one."""
    ours = Path(__file__).with_name("log4j2.properties")
    theirs = any(file.suffix != ".template" for file in _users_folder().glob("log4j2*"))  # which Spark's folder has
    if theirs or not ours.is_file():  # lithify itself may come from a zip file
        return ""
    return ours.as_uri()


def _users_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", "/nowhere"), "conf"))


def _open_remote(master: str) -> Any:
    """A session of Spark Connect of our own. It may live beside a SparkContext."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    try:
        session: Any = SparkSession.builder.remote(master).create()
        # By default a call to a server that is gone is repeated for ten minutes; the coordinator has its own pauses.
        session.client.set_retry_policies([DefaultPolicy(_CONNECT_RETRIES, max_backoff=_CONNECT_BACKOFF_MS)])
        _ = session.version  # the first call: whether the server answers
    except Exception as error:  # gRPC's, PySpark's
        raise Unavailable(
            f"no Spark Connect session starts on {shown_master(master)} ({type(error).__name__}): check that the "
            "server is up, and the URL is right"
        ) from error
    return session


def close_remote(session: Any) -> None:
    """Stop a session of Spark Connect. Never raises."""
    try:
        session.stop()
    except Exception as error:  # noqa: BLE001 - gRPC's: the server is gone
        log.debug("a Spark Connect session did not stop", error=type(error).__name__)


def close_session(session: Any) -> None:
    """Stop a session; if its JVM is gone, make PySpark forget it. Never raises."""
    context = session._sc
    if context_health(context) is not Health.LOST:
        try:
            session.stop()
            return
        except Exception as error:  # noqa: BLE001 - its JVM died meanwhile
            log.debug("a Spark session did not stop", error=type(error).__name__)
    _forget(context)
    _forget_dead_gateway()


def _forget(context: Any) -> None:
    """What `SparkContext.stop` and `SparkSession.stop` do in this process, without a call to the JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    held: Any = SparkContext
    sessions: Any = SparkSession
    context._jsc = None
    accumulators, context._accumulatorServer = context._accumulatorServer, None
    if accumulators is not None:
        accumulators.shutdown()
    with held._lock:
        if held._active_spark_context is context:
            held._active_spark_context = None
    if sessions._instantiatedSession is not None and sessions._instantiatedSession._sc is context:
        sessions._instantiatedSession = sessions._activeSession = None


def _forget_dead_gateway() -> None:
    """Make PySpark forget a JVM that is gone: it starts a new one only if it knows of none."""
    from pyspark import SparkContext

    held: Any = SparkContext
    with held._lock:
        gateway = held._gateway
        if gateway is None or _answers(gateway):
            return
        held._gateway = held._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None and process.stdin is not None:
        try:
            process.stdin.close()  # this ends a JVM that lives on without answering
        except OSError as error:
            log.debug("Spark's JVM is gone", error=error.strerror)


def _answers(gateway: Any) -> bool:
    if _jvm_ended(gateway):
        return False
    try:
        return gateway.jvm.System.currentTimeMillis() > 0
    except Exception as error:  # noqa: BLE001 - py4j's or the operating system's: whatever it is, nobody answers
        log.debug("no answer from Spark's JVM", error=type(error).__name__)
        return False
