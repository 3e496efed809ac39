"""What to do when fsspec knows a kind of URL but cannot open it: a package, a client or an option is missing."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import fsspec

from lithify.store.errors import InvalidRequest, LithifyError, Unavailable
from lithify.store.urls import shown

__all__ = ["opening"]

_NATIVE: dict[str, str] = dict.fromkeys(
    ("hdfs", "arrow_hdfs"),
    "it needs Java and Hadoop's native client: set JAVA_HOME, HADOOP_HOME and CLASSPATH (to what 'hadoop classpath "
    "--glob' prints), and check the name node",
)
_ABOUT_PATHS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


@contextmanager
def opening(url: str, options: Mapping[str, Any]) -> Generator[None]:
    """Errors within the block, which makes the filesystem of `url` and does nothing else, say what to install or to
    change. Not chained, and without their texts: these quote options. Only the text of a missing package is kept."""
    scheme = url.partition("://")[0]
    place = shown(url)
    try:
        yield
    except LithifyError:
        raise
    except ImportError as error:
        told = " ".join(str(error).split())
        raise InvalidRequest(f"{place}: {scheme}:// needs a package that is not installed here: {told}") from None
    except Exception as error:  # noqa: BLE001 - every filesystem has its own errors, also for bad options
        if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
            raise InvalidRequest(f"{place}: {scheme}:// is no kind of URL that fsspec knows: check the URL") from None
        kind = type(error).__name__
        if isinstance(error, OSError) and not isinstance(error, _ABOUT_PATHS):
            if needed := _NATIVE.get(scheme):
                raise InvalidRequest(f"{place}: {scheme}:// cannot be opened here ({kind}): {needed}") from None
            if error.errno is not None or isinstance(error, ConnectionError | TimeoutError):
                raise Unavailable(f"{place}: the server could not be reached ({kind}); try again") from None
        given = f"the storage options {', '.join(sorted(map(str, options)))}" if options else "no storage options"
        raise InvalidRequest(
            f"{place}: fsspec cannot open this URL with {given} ({kind}): check the "
            f"URL, and which options fsspec's filesystem for {scheme}:// needs"
        ) from None
