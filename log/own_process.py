"""What only the process that made it may use."""

import os

from lithify.store.errors import InvalidRequest

__all__ = ["OwnProcess"]


class OwnProcess:
    """SUBTLE! A forked child inherits a consumer with its instance. Were both to use it, both would move its position,
    forwards and back, and neither would be refused: the log cannot tell them apart. Test: tests/log/test_forks.py
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return self._pid == os.getpid()

    def check(self, what: str) -> None:
        if not self.is_here:
            raise InvalidRequest(f"{what} is process {self._pid}'s; open another one here")
