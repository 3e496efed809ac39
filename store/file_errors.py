"""System errors as errors that name the path and say what to do."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable

__all__ = ["FULL", "NOT_THERE", "READ_ONLY", "explained"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


@contextmanager
def explained(path: Path) -> Generator[None]:
    try:
        yield
    except LithifyError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        match error.errno:
            case errno.EACCES | errno.EPERM | errno.EROFS:
                raise AccessDenied(f"{path}: {reason}; give this user read and write access to it") from error
            case errno.ENAMETOOLONG | errno.EISDIR | errno.ENOTDIR | errno.EEXIST | errno.ENOTEMPTY | errno.EXDEV:
                raise InvalidRequest(
                    f"{path}: {reason}; the warehouse must be plain files in one filesystem, each part of a key "
                    "at most 255 bytes"
                ) from error
            case errno.ENOSPC | errno.EDQUOT:
                raise Unavailable(
                    f"{path}: {reason}; nothing is lost. Free space there: see 'The disk is full' in docs/operations.md"
                ) from error
            case _:
                raise Unavailable(f"{path}: {reason}; nothing is lost, try again") from error
