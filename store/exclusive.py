"""Give a finished file its name if, and only if, nobody has it: the local stand-in for `If-None-Match: *`.

`open(…, "x")` is no substitute: a reader sees the file half written, and a crash leaves an empty file that owns the
name for ever. `link(2)` publishes the whole file or nothing, and fails with EEXIST where the name is taken.
"""

import ctypes
import errno
import os
from pathlib import Path

from lithify.store.errors import InvalidRequest

__all__ = ["publish_exclusively", "sync_folder"]

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAMEAT2 = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def publish_exclusively(temporary: Path, final: Path) -> bool:
    """Whether `final` is now the file that was `temporary`; False where another file has the name.

    `temporary` may be left behind under its own name. Raises OSError where nothing was published, InvalidRequest where
    the filesystem can do neither hard links nor renameat2(RENAME_NOREPLACE).
    """
    try:
        os.link(temporary, final)
    except FileExistsError:
        # NFS repeats a LINK whose reply was lost and is told EEXIST for its own work: only the inode tells.
        return os.path.samefile(temporary, final)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_without_replacing(temporary, final)
    return True


def _rename_without_replacing(temporary: Path, final: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    if rename is None:
        raise _unusable(final)
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        return False
    if number in _NO_RENAMEAT2:
        raise _unusable(final)
    raise OSError(number, os.strerror(number), str(final))


def _unusable(final: Path) -> InvalidRequest:
    return InvalidRequest(
        f"{final.parent}: this filesystem has neither hard links nor renameat2(RENAME_NOREPLACE), so two writers "
        "could both win; put the warehouse on another filesystem, or in an object store"
    )


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable (POSIX: a file's own fsync does not)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
