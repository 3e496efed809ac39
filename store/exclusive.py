"""Give a finished file its name only if no file has that name: the local equivalent of `If-None-Match: *`.

`open(…, "x")` is no replacement: readers see the file half written, and a crash leaves an empty file that keeps the
name for ever. `link(2)` publishes the whole file or nothing, and fails with EEXIST if the name is taken.
"""

import errno
from pathlib import Path

from lithify.store.disk import Disk
from lithify.store.errors import InvalidRequest
from lithify.store.port import Outcome

__all__ = ["REFUSED_FOR_CERTAIN", "publish_exclusively"]

# With these errors link(2) certainly did nothing. With any other (EIO, ESTALE, a server's ETIMEDOUT) it may have
# linked.
REFUSED_FOR_CERTAIN = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.EXDEV, errno.ENAMETOOLONG, errno.ENOTDIR),
}
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAMEAT2 = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def publish_exclusively(disk: Disk, temporary: Path, final: Path) -> Outcome:
    """Whether `final` is now the file that was `temporary`; that name may be left behind.

    The new name is visible, but may not survive a power cut yet. Raises OSError if nothing was published,
    InvalidRequest if the filesystem supports neither hard links nor renameat2(RENAME_NOREPLACE).
    """
    try:
        disk.link(temporary, final)
    except FileExistsError:
        return _whose(disk, temporary, final)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return _rename_without_replacing(disk, temporary, final)
        if error.errno in REFUSED_FOR_CERTAIN:
            raise
        return Outcome.UNKNOWN
    return Outcome.CREATED


def _whose(disk: Disk, temporary: Path, final: Path) -> Outcome:
    """NFS repeats a LINK whose reply was lost, and gets EEXIST for its own work: only the inode tells."""
    try:
        ours, named = disk.stat(temporary), disk.stat(final)
    except OSError:
        return Outcome.UNKNOWN
    return Outcome.CREATED if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) else Outcome.EXISTS


def _rename_without_replacing(disk: Disk, temporary: Path, final: Path) -> Outcome:
    try:
        disk.rename_exclusively(temporary, final)
    except FileExistsError:
        return Outcome.EXISTS
    except OSError as error:
        if error.errno in _NO_RENAMEAT2:
            raise _unusable(final) from error
        if error.errno in REFUSED_FOR_CERTAIN:
            raise
        return Outcome.UNKNOWN
    return Outcome.CREATED


def _unusable(final: Path) -> InvalidRequest:
    return InvalidRequest(
        f"{final.parent}: this filesystem has neither hard links nor renameat2(RENAME_NOREPLACE), so two writers "
        "could both win; put the warehouse on another filesystem, or in an object store"
    )
