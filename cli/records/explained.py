"""Turns errors at a source or a target, from whatever library, into errors of lithify."""

import errno
import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.s3_errors import explain

__all__ = ["explained", "explained_target"]

# Errors that decoders raise about their input. EOFError is raised by gzip, bz2 and lzma for a truncated file; click
# would take it for Ctrl-D and say "interrupted".
_OF_DECODERS = (
    *(EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException, struct.error),
    *(ValueError, LookupError, ArithmeticError, NotImplementedError, RuntimeError),
)
_OF_CODECS = (OSError, gzip.BadGzipFile)  # exactly these types, without an errno: also about the input
# Mistakes in a program, in a filesystem's library or here: trying again would be in vain.
_OF_PROGRAMS = (TypeError, AttributeError, NameError, AssertionError)
_NOT_A_PATH = dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EROFS), "check the URL") | {
    # As files of /proc, which have no size.
    errno.EINVAL: "it is not a regular file: copy it, or pipe it into the command",
}
_REFUSED = {401, 402, 403, 407, 451}
_GONE = {404, 410}
_LATER = {408, 421, 423, 425, 429}


@contextmanager
def explained(name: str) -> Generator[None]:
    """Errors within the block become errors of lithify about `name`. Requires: none of lithify's code runs within."""
    try:
        yield
    except LithifyError:
        raise
    except (BotoCoreError, ClientError) as error:
        raise explain(error, name) from error
    except pa.ArrowInvalid:
        # Not chained, like those of other decoders: their messages may quote a value.
        raise InvalidRequest(f"{name} is not a Parquet file, or a damaged one") from None
    except Exception as error:
        if told := _told_by_others(error, name):
            raise told from error
        if isinstance(error, _OF_DECODERS) or type(error) in _OF_CODECS:
            raise _damaged(error, name) from None
        raise _unknown(error, name) from error


@contextmanager
def explained_target(name: str) -> Generator[None]:
    """The same for what is written to: nothing there can be damaged."""
    try:
        yield
    except LithifyError:
        raise
    except (BotoCoreError, ClientError) as error:
        raise explain(error, name) from error
    except (NotImplementedError, ValueError) as error:
        raise InvalidRequest(f"{name} cannot be written to; name a file, or an object in a store") from error
    except Exception as error:
        raise _told_by_others(error, name) or _unknown(error, name) from error


def _told_by_others(error: Exception, name: str) -> LithifyError | None:
    """The error for what the system, a server or its client reported; None: it is about bytes, or unknown."""
    status = _status(error)
    if status is not None:
        return _answered(status, name)
    if type(error).__name__ == "TooManyRedirects":  # of aiohttp, and of requests
        return InvalidRequest(f"{name}: too many redirects; check the URL")
    match error:
        case FileNotFoundError():
            # SUBTLE! fsspec raises this for any failure of HTTP: a refusal, an outage, an unknown host. The cause
            # tells. Test: tests/cli/test_http_sources.py
            cause = error.__cause__
            told = _told_by_others(cause, name) if isinstance(cause, Exception) else None
            return told or NotFound(f"{name} does not exist; check the URL")
        case PermissionError():
            return AccessDenied(f"{name}: permission denied; check the permissions, or the credentials")
        case IsADirectoryError():
            return InvalidRequest(f"{name} is a folder: write {name}/ for a folder of Parquet files, or name a file")
        case MemoryError() if not isinstance(error, pa.ArrowException):
            return Unavailable(f"{name}: not enough memory to read it; give this process more memory, and try again")
        case TimeoutError() | ConnectionError():  # clients raise it too, without an errno
            return Unavailable(f"{name}: the connection was lost ({type(error).__name__}); try again")
        case OSError(errno=number) if number in _NOT_A_PATH:
            return InvalidRequest(f"{name}: {error.strerror}; {_NOT_A_PATH[number]}")
        case OSError(errno=int(), strerror=told):
            return Unavailable(f"{name}: {told or type(error).__name__}; try again")
        case _ if type(error).__module__.partition(".")[0] in ("aiohttp", "requests", "urllib3"):
            if isinstance(error, ValueError):
                return InvalidRequest(f"{name} is not a valid URL ({type(error).__name__}); check it")
            return _unreachable(error, name)
        case _:
            return None


def _status(error: Exception) -> int | None:
    """The status that an HTTP server answered, wherever its client stores it."""
    places = (error, getattr(error, "response", None))
    found = (getattr(place, word, None) for place in places for word in ("status", "status_code", "code"))
    first = next((each for each in found if isinstance(each, int)), 0)
    return first if 400 <= first < 600 else None


def _answered(status: int, name: str) -> LithifyError:
    if status in _REFUSED:
        return AccessDenied(f"{name}: the server refuses access (HTTP {status}); check the URL, or the credentials")
    if status in _GONE:
        return NotFound(f"{name} does not exist (HTTP {status}); check the URL")
    if status >= 500 or status in _LATER:
        return Unavailable(f"{name}: the server cannot answer now (HTTP {status}); try again")
    return InvalidRequest(f"{name}: the server refuses the request (HTTP {status}); check the URL")


def _damaged(error: Exception, name: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is damaged, or cut short ({type(error).__name__}); fetch it again")


def _unknown(error: Exception, name: str) -> LithifyError:
    if isinstance(error, _OF_PROGRAMS):
        what = f"{name}: an unexpected {type(error).__name__}, here or in the library that reads it"
        return LithifyError(f"{what}. Check the storage options; if they are right, please report it")
    return _unreachable(error, name)  # every filesystem has its own errors


def _unreachable(error: Exception, name: str) -> Unavailable:
    return Unavailable(f"{name} could not be reached ({type(error).__name__}); try again")
