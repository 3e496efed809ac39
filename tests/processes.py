"""Processes that a test starts: none outlives it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["exit_codes", "forked", "running"]

CHILD_S = 300


@contextmanager
def running(command: Sequence[str], **options: Any) -> "Iterator[subprocess.Popen[Any]]":
    """As `with subprocess.Popen(...)`, which waits for ever for one that does not end: this one is killed."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()  # nothing, where it has ended and was waited for


def forked(work: Callable[[], int | None]) -> int:
    """The process id of a child that does `work` and ends with what it returns, or 99 where that raises. One that waits
    for ever is ended by its alarm: a thread that it does not have may have held what it waits for."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CHILD_S)
    code = 99
    try:
        code = work() or 0
    finally:
        os._exit(code)


def exit_codes(pids: Sequence[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
