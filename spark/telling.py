"""What Spark shows of an error of lithify: its message, without the Python that led there.

All of a data source runs in Python processes of Spark's. A process that meets an exception writes it to the JVM and
ends; the JVM raises it in the user's program, with the whole traceback in the middle of its message.
"""

import functools
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, ParamSpec, TypeVar

__all__ = ["told", "told_while_read"]

P = ParamSpec("P")
R = TypeVar("R")


def told(call: Callable[P, R]) -> Callable[P, R]:
    """For what Spark calls once: errors of lithify are told by their message. An error that nobody foresaw keeps its
    traceback."""

    @functools.wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            _tell_plainly(error)
            raise

    return calling


def told_while_read(call: Callable[P, Iterator[Any]]) -> Callable[P, Iterator[Any]]:
    """The same for what Spark iterates over."""

    @functools.wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> Generator[Any]:
        try:
            yield from call(*args, **kwargs)
        except Exception as error:
            _tell_plainly(error)
            raise

    return calling


def _tell_plainly(error: Exception) -> None:
    """SUBTLE! PySpark's workers look for this variable when they write an exception, and end right after it
    (`pyspark.util.handle_worker_exception`). So it is set here, in a process that nobody uses again. Set for the
    session, it would hide the traceback of every UDF, too. Test: tests/spark/test_errors.py"""
    from lithify.store.errors import LithifyError

    if isinstance(error, LithifyError):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
