"""A few megabytes kept in reserve, so that a full disk can be freed: deleting needs commits, and commits need space.

Only requests that free space may use it (`Create.frees`); it gives up piece after piece until they fit. All others must
find the reserve whole before they write, and restore it when there is room. So appends, which would use up the pieces
at once, stop immediately and start again by themselves. It is in pieces because inodes run out as well. For the reasons
and the alternatives see docs/rfcs/0012.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lithify.store.disk import Disk
from lithify.store.errors import Unavailable
from lithify.store.file_errors import FULL

__all__ = ["PIECES", "PIECE_BYTES", "Reserve"]

PIECES = 16
PIECE_BYTES = 256 * 1024
_CANNOT_ALLOCATE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODEV}

T = TypeVar("T")


class Reserve:
    """The pieces are files in `folder`, named by number; they are given up from the last, and made from the first."""

    def __init__(self, disk: Disk, folder: Path, pieces: int) -> None:
        self._disk = disk
        self._folder = folder
        self._names = [f"{number:02d}" for number in range(pieces)]
        self._pieces = [folder / name for name in self._names]

    def require(self) -> None:
        """Make sure that the reserve is whole. Raises Unavailable if there is no room for it.

        It is not flushed: it is made long before it is needed, and after a power cut the next write makes it again.
        """
        if not self._pieces or self._is_whole():
            return
        try:
            with suppress(FileExistsError):
                self._disk.make_folder(self._folder)
            for piece in self._pieces:
                self._make(piece)
        except OSError as error:
            if error.errno in _CANNOT_ALLOCATE:
                self._pieces = []  # this filesystem cannot reserve space: do without
                return
            if error.errno not in FULL:
                raise
            raise Unavailable(
                f"{self._folder.parent.parent}: {error.strerror}; the {PIECES * PIECE_BYTES >> 20} MiB that are "
                "reserved for deletions are in use. Nothing is lost, and appends resume by themselves once there is "
                "room: see 'The disk is full' in docs/operations.md"
            ) from error

    def lend(self, act: Callable[[], T]) -> T:
        """Returns `act()`, which frees space. While the disk is full, a piece is given up and `act` is tried again.

        Requires: `act` can be repeated after it raised an OSError.
        """
        for _ in self._pieces:
            try:
                return act()
            except OSError as error:
                if error.errno not in FULL or not self._give_up():
                    raise
        return act()

    def _give_up(self) -> bool:
        for piece in reversed(self._pieces):
            try:
                self._disk.unlink(piece)
            except FileNotFoundError:
                continue
            except OSError:  # perhaps another user's file: report the original error
                return False
            return True
        return False

    def _is_whole(self) -> bool:
        """Whether all pieces are there. Another process may have given up any of them since the last was made. Test:
        tests/store/test_reserve.py"""
        try:
            there = {entry.name for entry in self._disk.scan(self._folder)}
        except (FileNotFoundError, NotADirectoryError):
            return False
        return there.issuperset(self._names) and self._is_made(self._pieces[-1])

    def _is_made(self, piece: Path) -> bool:
        try:
            return self._disk.stat(piece).st_size >= PIECE_BYTES
        except FileNotFoundError:
            return False

    def _make(self, piece: Path) -> None:
        if self._is_made(piece):
            return
        descriptor = self._disk.open(piece, os.O_WRONLY | os.O_CREAT)
        try:
            self._disk.allocate(descriptor, PIECE_BYTES)
        except OSError:
            with suppress(OSError):  # make room for others
                self._disk.unlink(piece)
            raise
        finally:
            self._disk.close(descriptor)
