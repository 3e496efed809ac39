"""A lock for handles that a forked child may inherit."""

import os
import threading

__all__ = ["OwnLock"]

_renewing = threading.Lock()
os.register_at_fork(before=_renewing.acquire, after_in_parent=_renewing.release, after_in_child=_renewing.release)


class OwnLock:
    """SUBTLE! Each process has its own. A thread that held the parent's when it forked is not in the child, and never
    lets go of it there. What such threads change is changed in one step each, so the child finds it whole.
    Test: tests/log/test_forks.py
    """

    def __init__(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()

    def mine(self) -> threading.Lock:
        """To be taken with `with`, which lets go of the one it took, whatever process it is in by then."""
        if self._pid != os.getpid():
            with _renewing:
                if self._pid != os.getpid():
                    self._lock = threading.Lock()
                    self._pid = os.getpid()  # after it: who sees this process sees its lock
        return self._lock
