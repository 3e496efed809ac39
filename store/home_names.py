"""What the name of a home means, and which of them this lithify can open (docs/rfcs/0031). Opens nothing."""

import functools
from collections.abc import Callable, Collection, Iterator

import fsspec

from lithify.store.errors import InvalidRequest
from lithify.store.port import HERE
from lithify.store.urls import shown

__all__ = [
    "CLASS",
    "SAME_SCHEMES",
    "STORAGE_CLASSES",
    "Names",
    "check_home_name",
    "physical",
    "same_home",
    "scheme_of",
    "spelled",
    "storage_class",
]

STORAGE_CLASSES = ("STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "EXPRESS_ONEZONE")
"""Those of S3 whose objects can be read at once."""

CLASS = "class:"  # begins the name of a home that is a storage class
_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
SAME_SCHEMES = {
    "s3a": "s3",
    "local": "file",
    "gcs": "gs",
    "az": "abfs",
    "abfss": "abfs",
    "ssh": "sftp",
    "arrow_hdfs": "hdfs",
    "tosfs": "tos",
}
"""Schemes that name what another one names, too."""

_OWN_SCHEMES = frozenset({"s3", "s3a", "file", "local", "memory"})


def scheme_of(url: str) -> str:
    """The kind of store that a URL names, in its one spelling."""
    scheme = url.partition("://")[0].lower()
    return SAME_SCHEMES.get(scheme, scheme)


def storage_class(home: str) -> str | None:
    """The storage class that `home` names; None if it is not a home of that kind."""
    return home.removeprefix(CLASS) if home.startswith(CLASS) else None


def physical(home: str) -> str:
    """The place that listing or deleting there concerns: another storage class of the same bucket is the same place."""
    return HERE if storage_class(home) is not None else home


def same_home(one: str, other: str) -> bool:
    """Whether two names are of one home. A manifest may have a spelling that an earlier release took as it was: what
    lies there need not move to itself."""
    return one == other or spelled(one) == spelled(other)


@functools.lru_cache(maxsize=256)  # asked for each segment of a manifest
def spelled(home: str) -> str:
    """The one spelling of a home's name: two spellings would be two homes in the same place. ('..' stays: with links it
    may mean anything.)"""
    _, separator, rest = home.partition("://")
    if not separator or storage_class(home) is not None:
        return home
    scheme = scheme_of(home)
    if scheme == "file" and rest.lower().startswith("localhost/"):
        rest = rest[len("localhost") :]  # RFC 8089
    root = "/" if rest.startswith("/") else ""
    return f"{scheme}://{root}{'/'.join(part for part in rest.split('/') if part not in ('', '.'))}"


def check_home_name(home: str) -> None:
    """Raises InvalidRequest, which says why, if this lithify cannot open a home of that name."""
    wanted = storage_class(home)
    if wanted in _ARCHIVES:
        raise InvalidRequest(
            f"storage class {wanted} is an archive: its objects must be restored before they can be read. Use "
            "GLACIER_IR, which is as cheap for data that is rarely read, and answers at once"
        )
    if wanted is not None and wanted not in STORAGE_CLASSES:
        raise InvalidRequest(f"storage class {wanted[:60]!r} is unknown; known are {', '.join(STORAGE_CLASSES)}")
    if wanted is not None or home == HERE:
        return
    scheme, separator, rest = spelled(home).partition("://")
    if not separator and home.startswith("/"):
        raise InvalidRequest(f"home {home[:300]!r} is a path, and must be a URL: write file://{home[:300]}")
    if scheme == "file" and separator and rest and not rest.startswith("/"):
        raise InvalidRequest(
            f"home {shown(home)[:300]!r} names a host, {rest.partition('/')[0][:100]!r}, not a folder of this machine: "
            f"a folder's URL has three slashes, as in file:///{rest[:200]}"
        )
    if not separator or not rest.strip("/"):
        raise InvalidRequest(
            f"home {shown(home)[:300]!r} is not a URL: use s3://bucket/prefix, file:///folder, or class:STANDARD_IA "
            "for another storage class of the same bucket"
        )
    if "@" in home or "?" in home or "#" in home:
        raise InvalidRequest(
            f"home {shown(home)[:300]}: its URL has no '@', '?' or '#'; put credentials into storage_options['homes']"
        )
    if scheme not in _OWN_SCHEMES and scheme not in (*fsspec.available_protocols(), *fsspec.registry):
        raise InvalidRequest(f"home {shown(home)[:300]}: {scheme}:// is not a known kind of store")


class Names(Collection[str]):
    """The names of the homes that a process can reach: those that are open, and all that it could open."""

    def __init__(self, opened: Callable[[], Collection[str]], can_open: Callable[[str], bool]) -> None:
        self._opened = opened
        self._can_open = can_open

    def __contains__(self, name: object) -> bool:
        return name in self._opened() or (isinstance(name, str) and self._can_open(name))

    def __iter__(self) -> Iterator[str]:
        """Those that are open."""
        return iter(self._opened())

    def __len__(self) -> int:
        return len(self._opened())
