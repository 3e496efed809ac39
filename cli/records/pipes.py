"""Pipes that a library reads in a thread of its own, or in one that waits for it: a signal ends the wait.

SUBTLE! 1. pyarrow reads a pipe that is silent, and the main thread waits for pyarrow. 2. SIGTERM comes: Python runs
handlers in the main thread, once it is back in Python, which is never. 3. A second signal ends the process while the
pipe is still being read, and the interpreter aborts. So whoever reads waits for the signal, too. Test:
tests/cli/test_silent_pipes.py
"""

import io
import os
import select
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

from lithify.admin.interruption import ENDING

__all__ = ["Pipe", "waking"]

_BUFFER_BYTES = 1 << 16


class Pipe(io.RawIOBase):
    """Raises KeyboardInterrupt once one of the signals that end a command has come. `file`: not read before."""

    def __init__(self, file: IO[bytes], signals: int) -> None:
        self._file = file  # keeps its descriptor open
        self._signals = signals  # a descriptor: their numbers, or its end if nobody waits any more
        self._told = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def readinto(self, buffer: Any, /) -> int:
        into = memoryview(buffer).cast("B")
        while not self._told:
            ready, _, _ = select.select([self._file, self._signals], [], [])
            if self._signals in ready:
                came = os.read(self._signals, 64)
                self._told = not came or not ENDING.isdisjoint(came)
            elif ready:
                return os.readv(self.fileno(), [into])
        raise KeyboardInterrupt

    def close(self) -> None:
        if not self.closed:
            os.close(self._signals)
        super().close()


@contextmanager
def waking(file: IO[bytes]) -> Generator[IO[bytes]]:
    """`file`, which is a pipe. Requires: called in the main thread."""
    signals, heard = os.pipe()
    os.set_blocking(heard, False)  # as `set_wakeup_fd` needs it
    before = signal.set_wakeup_fd(heard, warn_on_full_buffer=False)
    try:
        yield io.BufferedReader(Pipe(file, signals), _BUFFER_BYTES)
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)  # ends the wait of a thread that still reads
