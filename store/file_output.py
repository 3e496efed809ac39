"""A local object that is written piece by piece, and gets its name at `close`."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lithify.store.disk import Disk
from lithify.store.errors import Unavailable
from lithify.store.file_errors import explained
from lithify.store.port import OutputFile

__all__ = ["FileOutput", "forget", "write_all"]

# Also the most that is written by one call. Linux 6 backs larger writes to ext4 with pages of 2 MiB, and looks for room
# for them: once memory is in pieces, that takes six times as long.
_BUFFER_BYTES = 1024 * 1024


class FileOutput(OutputFile):
    """`require` raises if nothing may be written to the disk; `publish` gives the finished file its name, or removes
    it."""

    def __init__(
        self,
        disk: Disk,
        temporary: Path,
        final: Path,
        *,
        require: Callable[[], None],
        publish: Callable[[Path, Path], None],
    ) -> None:
        self._disk = disk
        self._temporary = temporary
        self._final = final
        self._require = require
        self._publish = publish
        self._descriptor = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._buffer = bytearray()
        self._broken = False
        self.closed = False

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError(f"{self._final}: this output is closed")
        with memoryview(data) as view, explained(self._final):
            if self._broken:
                raise self._given_up()
            if len(self._buffer) + view.nbytes < _BUFFER_BYTES:
                self._buffer += view.cast("B")
            else:
                self._spill(view)
            return view.nbytes

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with explained(self._final):
            if self._broken:
                raise self._given_up()
            self._spill()
            try:
                try:
                    self._disk.sync(self._descriptor)
                finally:
                    self._disk.close(self._descriptor)
            except BaseException:
                forget(self._disk, self._temporary)
                raise
            self._publish(self._temporary, self._final)

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            if not self._broken:
                self._discard()

    def _spill(self, rest: bytes | memoryview = b"") -> None:
        """Write what is buffered, and `rest`, of which no copy is made.

        SUBTLE! An object that could not be written whole must not be closed as if it were: give it up at once. Test:
        tests/store/test_disk_faults.py
        """
        try:
            self._require()
            write_all(self._disk, self._descriptor, self._buffer)
            write_all(self._disk, self._descriptor, rest)
        except BaseException:
            self._broken = True
            self._discard()
            raise
        self._buffer.clear()

    def _given_up(self) -> Unavailable:
        return Unavailable(f"{self._final}: an earlier write failed, so this object was given up; write it again")

    def _discard(self) -> None:
        with suppress(OSError):  # closing may report writes that no longer matter
            self._disk.close(self._descriptor)
        forget(self._disk, self._temporary)


def write_all(disk: Disk, descriptor: int, body: bytes | bytearray | memoryview) -> None:
    with memoryview(body) as given, given.cast("B") as view:
        written = 0
        while written < len(view):
            written += disk.write(descriptor, view[written : written + _BUFFER_BYTES])


def forget(disk: Disk, temporary: Path) -> None:
    with suppress(OSError):  # it is invisible, and removed later as stale
        disk.unlink(temporary)
