"""Standard input, output and error, whatever state the caller left them in: closed, full, or gone."""

import errno
import io
import os
import sys
from typing import Any

from lithify.store.errors import InvalidRequest, LithifyError, Unavailable

__all__ = ["OutputFailed", "drain", "guard_streams", "silence"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputFailed(Exception):
    """Standard output cannot be written to. Not a LithifyError itself: code that waits for a store must not wait for
    this. `told`: the error to report."""

    def __init__(self, told: LithifyError) -> None:
        super().__init__(str(told))
        self.told = told


class _Output(io.FileIO):
    """Raises OutputFailed if nothing more can be written. A reader that goes away is not an error, and neither is a
    terminal: then this raises BrokenPipeError."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._terminal = self.isatty()  # once it is gone, nobody knows

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._terminal and error.errno == errno.EIO:
                raise BrokenPipeError(error.errno, "the terminal is gone") from error
            raise OutputFailed(_told(error)) from error


def _told(error: OSError) -> LithifyError:
    if error.errno == errno.EBADF:
        return InvalidRequest("standard output is closed; send it somewhere, if only to /dev/null")
    remedy = "Free some space" if error.errno in _FULL else "See what it goes to"
    return Unavailable(f"standard output: {error.strerror}; the output is incomplete. {remedy}, and try again")


class _Complaints(io.FileIO):
    """Drops what cannot be written; the exit code still shows it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


class _NoInput(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _: Any, /) -> int:
        raise InvalidRequest(
            "standard input is closed; pass the input with flags (such as --from or --yes), or redirect it to "
            "standard input"
        )


def guard_streams() -> None:
    """Call it at the start of a process that belongs to lithify alone."""
    # SUBTLE! 1. A script closes standard output (`>&-`). 2. The next file opened gets its number. 3. What we print is
    # written into that file. So fill the place with a descriptor that can be neither read nor written. Test:
    # tests/cli/test_streams.py
    for number, way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_NoInput()))
    sys.stdout = _text(_Output(1), sys.stdout, "surrogateescape")
    sys.stderr = _text(_Complaints(2, "w", closefd=False), sys.stderr, "backslashreplace", lines=True)


def _text(raw: io.FileIO, before: Any, errors: str, *, lines: bool = False) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", "utf-8"),
        errors=getattr(before, "errors", errors),
        line_buffering=lines or raw.isatty(),
    )


def drain() -> None:
    """After an error, write what is left, or drop it."""
    try:
        sys.stdout.flush()
    except (OSError, OutputFailed):
        silence(sys.stdout)


def silence(stream: Any) -> None:
    """Make the stream write nowhere: Python flushes at exit and would complain."""
    try:
        descriptor = stream.fileno()
    except OSError:  # captured: it has none
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
