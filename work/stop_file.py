"""Stop workers on this machine at once, and know that they have stopped.

Cancelling a Spark job does not end its Python worker: measured on Spark 4.3, it continues to write for 3 to 4 seconds
until Spark kills it (`spark.python.task.killTimeout`, 2 s, and then some), and nothing reports when. So every worker of
an attempt holds a shared lock on one file while it works, and a byte in that file is the order to stop. The lock ends
with its process, however that ends. Workers also stop if the process that gave them work is gone.
"""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from lithify.segment.execute import TaskCancelled
from lithify.store.driver import monotonic_ms, pause
from lithify.work.private_files import PrivateFile

__all__ = ["StopFile", "working"]

_LOOK_EVERY_MS = 20


class StopFile:
    """The coordinator's side."""

    def __init__(self, file: PrivateFile) -> None:
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def order(self) -> None:
        """Tell the workers to stop at their next block; those that have not begun will not begin."""
        os.ftruncate(self._file.descriptor, 1)

    def obeyed(self, timeout_ms: int) -> bool:
        """Whether no worker works any more; waits up to `timeout_ms` for that. Requires: `order` was called."""
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            try:
                fcntl.flock(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic_ms() > deadline_ms:
                    return False
                pause(_LOOK_EVERY_MS)
            else:
                fcntl.flock(self._file.descriptor, fcntl.LOCK_UN)
                return True

    def close(self) -> None:
        self.order()
        self._file.close()


@contextmanager
def working(path: str) -> Generator[Callable[[], bool]]:
    """The worker's side: hold the lock within the block. The function that it yields says whether to stop."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise TaskCancelled("stopped before it began") from None

    def stopped() -> bool:
        # A file in memory exists as long as its process; one in a folder may have been removed by a cleaner.
        gone = path.startswith("/proc/") and not os.path.exists(path)
        return gone or os.fstat(descriptor).st_size > 0

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Checked only now: between open and lock the order may have been given, and the coordinator have seen no
        # worker.
        if stopped():
            raise TaskCancelled("stopped before it began")
        yield stopped
    finally:
        os.close(descriptor)
