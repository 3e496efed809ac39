"""A guard for objects that only the process that made them may use."""

import os

from lithify.store.errors import InvalidRequest

__all__ = ["OwnProcess"]


class OwnProcess:
    """SUBTLE! 1. A process with a consumer forks. 2. Parent and child use the same instance, and move its position
    forwards and back. 3. Neither is refused, since the log cannot tell them apart. Test: tests/log/test_forks.py
    """

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return self.pid == os.getpid()

    def check(self, what: str) -> None:
        if not self.is_here:
            raise InvalidRequest(f"{what} belongs to process {self.pid}; open another one here")
