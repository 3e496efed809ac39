"""Stopping workers of this machine at once, and knowing that they have stopped.

Cancelling a Spark job does not end its Python worker: measured on Spark 4.3, one goes on writing for about 3 to 4
seconds until Spark kills it (`spark.python.task.killTimeout`, 2 s, and then some), and nothing tells when. So every
worker of an attempt holds a shared lock on one file while it works, and the file's removal is the order to stop. The
lock goes with its process, however that ends.
"""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from lithify.segment.execute import TaskCancelled
from lithify.store.driver import monotonic_ms, pause

__all__ = ["StopFile", "working"]

_LOOK_EVERY_MS = 20


class StopFile:
    """The coordinator's side. `path` is created, for this user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def order(self) -> None:
        """Tell the workers to stop at their next block; those that have yet to begin will not."""
        self.path.unlink(missing_ok=True)

    def obeyed(self, timeout_ms: int) -> bool:
        """Whether no worker works any more; waits up to `timeout_ms` for it. Requires: `order` was called."""
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic_ms() > deadline_ms:
                    return False
                pause(_LOOK_EVERY_MS)
            else:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                return True

    def close(self) -> None:
        self.order()
        os.close(self._descriptor)


@contextmanager
def working(path: str) -> Generator[Callable[[], bool]]:
    """The worker's side: hold the lock within the block, and answer whether the order to stop was given."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise TaskCancelled("stopped before it began") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Looked at only now: between opening and locking, the order may have been given and found to be obeyed.
        if not os.path.exists(path):
            raise TaskCancelled("stopped before it began")
        yield lambda: not os.path.exists(path)
    finally:
        os.close(descriptor)
