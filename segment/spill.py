"""Sorted runs of a sort on disk, one after the other in a file without a name.

So a sort takes one file descriptor for many runs, and a killed process leaves nothing behind.
"""

import errno
import os
import tempfile
from array import array
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from lithify.store.disk import Disk
from lithify.store.driver import new_id
from lithify.store.errors import Unavailable
from lithify.store.file_output import forget

__all__ = ["NoSpill", "Run", "SpillFile", "spill_folder"]


class NoSpill(Unavailable):
    """This machine's temporary folder cannot take the spilled runs. Waiting for a store will not help, so callers that
    wait through outages report it too. Test: tests/cli/test_outages.py"""


class Run(msgspec.Struct, frozen=True):
    """Where a run's batches are in its file."""

    start: int
    lengths: "array[int]"  # of its batches, in bytes

    @property
    def largest(self) -> int:
        return max(self.lengths, default=0)


class SpillFile:
    """Raises Unavailable, naming the folder. Whoever makes one closes it."""

    def __init__(self, disk: Disk, folder: Path, schema: pa.Schema) -> None:
        self._disk = disk
        self._folder = folder
        self._schema = schema
        self._end = 0
        path = folder / f"lithify-sort-{new_id()}.{os.getpid()}"
        with _explained(folder):
            try:
                self._descriptor = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                try:
                    disk.unlink(path)
                except BaseException:
                    self.close()
                    raise
            except BaseException:
                forget(disk, path)
                raise

    def write(self, batches: Iterable[pa.RecordBatch]) -> Run:
        return Run(self._end, array("q", (self._write(batch.serialize()) for batch in batches)))

    def _write(self, body: Any) -> int:
        with memoryview(body).cast("B") as view, _explained(self._folder):
            written = 0
            while written < len(view):
                written += self._disk.write(self._descriptor, view[written:])
        self._end += written
        return written

    def read(self, run: Run) -> Iterator[pa.RecordBatch]:
        at = run.start
        for length in run.lengths:
            yield pa.ipc.read_record_batch(pa.py_buffer(self._read(at, length)), self._schema)
            at += length

    def _read(self, start: int, length: int) -> bytes:
        pieces: list[bytes] = []
        missing = length
        with _explained(self._folder):
            while missing:
                piece = self._disk.read(self._descriptor, missing, start + length - missing)
                if not piece:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                pieces.append(piece)
                missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        with suppress(OSError):  # closing may report writes that no longer matter
            self._disk.close(self._descriptor)


def spill_folder() -> Path:
    """The system's temporary folder."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise NoSpill("sorting needs a temporary folder, and none can be written to: name one in TMPDIR") from error


@contextmanager
def _explained(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        remedy = "make room, or name another folder in TMPDIR"
        if error.errno in (errno.EMFILE, errno.ENFILE):
            remedy = "let the process open more files (ulimit -n)"
        raise NoSpill(f"{folder}: {error.strerror}; a sort needs up to twice its size there: {remedy}") from error
