"""The system calls that a local store uses, each in one place only.

So a test can make any of them fail as a disk may (full, broken, read-only), and cut the power between any two.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import NamedTuple

__all__ = ["Disk", "Entry", "sync_folder"]

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_STATX_BTIME = 0x800
_STATX_BYTES, _BTIME_AT = 256, 80  # of struct statx
_NO_STATX = (errno.ENOSYS, errno.EPERM)  # of old systems; of containers that know no such call
# Reduced by the umask. A private mode would hide the log from readers who are other users.
_MODE = 0o666


class Entry(NamedTuple):
    name: str
    is_folder: bool
    is_file: bool
    is_link: bool = False  # is_folder and is_file are about its target


class Disk:
    """The operating system's files. Every method raises what the system answers, as OSError."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags, _MODE)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        return os.pread(descriptor, length, offset)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def allocate(self, descriptor: int, length: int) -> None:
        """Reserve `length` bytes for the file, which nobody else can take any more."""
        os.posix_fallocate(descriptor, 0, length)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def stat(self, path: Path) -> os.stat_result:
        return path.stat()

    def stat_open(self, descriptor: int) -> os.stat_result:
        return os.fstat(descriptor)

    def born_ns(self, path: Path) -> int | None:
        """When the file was created in this filesystem, in nanoseconds since 1970: nobody can set that, and what is
        done to the file later does not change it. None: the system or the filesystem does not say."""
        call = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
        if call is None:
            seconds = getattr(path.stat(), "st_birthtime", None)  # BSD, macOS
            return None if seconds is None else int(seconds * 1e9)
        found = ctypes.create_string_buffer(_STATX_BYTES)
        if call(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found) != 0:
            number = ctypes.get_errno()
            if number in _NO_STATX:
                return None
            raise OSError(number, os.strerror(number), str(path))
        (mask,), (seconds, more_ns) = struct.unpack_from("=I", found), struct.unpack_from("=qI", found, _BTIME_AT)
        return seconds * 1_000_000_000 + more_ns if mask & _STATX_BTIME and seconds > 0 else None

    def scan(self, folder: Path) -> list[Entry]:
        with os.scandir(folder) as entries:
            return [_entry(entry) for entry in entries]

    def resolve(self, path: Path) -> Path:
        """The real path, with all links followed."""
        return Path(os.path.realpath(path))

    def make_folder(self, folder: Path) -> None:
        folder.mkdir()

    def set_mode(self, path: Path, mode: int) -> None:
        path.chmod(mode)

    def touch(self, path: Path) -> None:
        """Set the times of an existing file to now, by the filesystem's own clock."""
        os.utime(path)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Replaces any file of that name."""
        source.replace(target)

    def rename_exclusively(self, source: Path, target: Path) -> None:
        """renameat2(RENAME_NOREPLACE); ENOSYS if the system has no such call."""
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(target))
        arguments = _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE
        if rename(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(target))

    def unlink(self, path: Path) -> None:
        path.unlink()


def _entry(found: "os.DirEntry[str]") -> Entry:
    try:
        return Entry(found.name, found.is_dir(), found.is_file(), found.is_symlink())
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return Entry(found.name, is_folder=False, is_file=False, is_link=True)  # a link to itself


def sync_folder(disk: Disk, folder: Path) -> None:
    """Make the names in `folder` durable (POSIX: syncing a file does not)."""
    descriptor = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
