"""Folders that survive a power cut."""

import errno
import stat
from pathlib import Path

from lithify.store.disk import Disk, sync_folder
from lithify.store.errors import InvalidRequest
from lithify.store.file_errors import READ_ONLY

__all__ = ["Folders"]

_NOT_OURS_TO_FLUSH = READ_ONLY | {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}


class Folders:
    """Makes folders under `root`, and flushes each path to them once per process."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._durable: set[Path] = set()  # folders whose names, and those of all parents, are known to be on disk

    def make(self, folder: Path) -> None:
        """Make `folder`, so that its name and its parents' names survive a power cut.

        That they exist proves nothing: somebody else may have made them just now. Folders above the root that this
        process neither made nor may flush are taken to have been there for a long time.
        """
        made = self._make_missing(folder)
        if folder in self._durable and not made:
            return
        chain = [folder, *folder.parents][:-1]
        for path in chain:
            if path in self._durable and path not in made:
                break
            try:
                sync_folder(self._disk, path.parent)
            except OSError as error:
                inside = path != self._root and path.is_relative_to(self._root)
                if inside or path in made or error.errno not in _NOT_OURS_TO_FLUSH:
                    raise
        # SUBTLE! Note them all at the end only. If each were noted when flushed, the next attempt would stop at the
        # first one noted, and a failed flush further up would never be repeated. Test: tests/store/test_power_cut.py
        self._durable.update(chain)

    def _make_missing(self, folder: Path) -> set[Path]:
        missing: list[Path] = []
        path = folder
        while not self._is_folder(path, folder):
            missing.append(path)
            path = path.parent
        for path in reversed(missing):
            try:
                self._disk.make_folder(path)
            except FileExistsError:
                continue  # another process was faster, and may not have flushed it yet
            except FileNotFoundError as error:
                if not self._is_folder(path.parent, folder):
                    raise  # somebody removed it
                raise InvalidRequest(f"no folder can be made in {path.parent}: use another place") from error
        return set(missing)

    def _is_folder(self, path: Path, wanted: Path) -> bool:
        try:
            mode = self._disk.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISDIR(mode):
            raise InvalidRequest(f"{wanted} cannot be a folder: part of it is a file")
        return True
