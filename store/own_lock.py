"""A lock for handles that a forked child may inherit."""

import os
import threading

__all__ = ["OwnLock"]

_renewing = threading.Lock()
os.register_at_fork(before=_renewing.acquire, after_in_parent=_renewing.release, after_in_child=_renewing.release)


class OwnLock:
    """SUBTLE! Each process has its own lock. 1. A thread of the parent holds the lock. 2. The parent forks: the child
    has no such thread, so its copy would never be released. Whatever such a thread changes, it changes in one step, so
    the child finds it whole. Test: tests/log/test_forks.py
    """

    def __init__(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()

    def mine(self) -> threading.Lock:
        """For use in a `with` block, which releases the lock that it took, even if the process has forked since."""
        if self._pid != os.getpid():
            with _renewing:
                if self._pid != os.getpid():
                    self._lock = threading.Lock()
                    self._pid = os.getpid()  # last: a thread that sees this process's id also sees its lock
        return self._lock
