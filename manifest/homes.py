"""Where a segment's bytes are: its home, and its key there. Pure.

A home is where segments live (docs/rfcs/0031): the warehouse itself (`HERE`), another URL, or `class:NAME`, which is
another storage class of the warehouse's own bucket, under the same keys. What a process can reach are the homes of its
driver (lithify.store.homes), which it hands down to whatever decides about segments. All code that opens, checks or
deletes a referenced segment asks here, and then the store of that home. Only lithify.segment.segments opens and checks
segments.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from lithify.manifest.keys import PartitionKeys
from lithify.store.errors import InvalidRequest
from lithify.store.port import HERE

__all__ = [
    "CLASS",
    "HERE",
    "ONLY_HERE",
    "STORAGE_CLASSES",
    "Reference",
    "Where",
    "location_problem",
    "place_of",
    "reachable",
    "refuse_unreachable",
    "told",
    "unreachable",
    "where",
]

CLASS = "class:"  # begins the name of a home that is a storage class
STORAGE_CLASSES = ("STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "EXPRESS_ONEZONE", "STANDARD")
"""Those that answer a GET at once."""

ONLY_HERE: frozenset[str] = frozenset({HERE})
"""The homes of a warehouse whose segments all live in it."""


class Where(NamedTuple):
    """A place and a key in it. A place is what a listing or a deletion concerns: all storage classes of the warehouse's
    bucket are one, HERE."""

    home: str
    key: str


def place_of(home: str) -> str:
    """The place in which the segments of `home` lie."""
    return HERE if home.startswith(CLASS) else home


def told(home: str) -> str:
    """A home, for people."""
    if home == HERE:
        return "the warehouse"
    return f"storage class {home.removeprefix(CLASS)}" if home.startswith(CLASS) else home


def location_problem(url: str) -> str | None:
    """What a URL must be to name a home; None: this one can. Where it leads to is the store's matter."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL, such as s3://bucket/prefix"
    if not parts.scheme or "://" not in url or not (parts.netloc or parts.path.strip("/")):
        return "a URL, such as s3://bucket/prefix or file:///mnt/cold"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "a URL without credentials, '?' or '#': credentials come from the environment or from storage_options"
    return None


class Reference(Protocol):
    """A manifest's entry for a segment, live or retired."""

    @property
    def id(self) -> str: ...
    @property
    def home(self) -> str: ...


def where(keys: PartitionKeys, ref: Reference) -> Where:
    """Where the bytes of a referenced segment are, whether this process can reach them or not."""
    return Where(place_of(ref.home), keys.segment(ref.id))


def reachable(ref: Reference, homes: Collection[str]) -> bool:
    return ref.home in homes


def unreachable(keys: PartitionKeys, ref: Reference) -> InvalidRequest:
    """The error for a segment in a home that this lithify cannot reach."""
    return InvalidRequest(
        f"{keys.topic}/{keys.partition}: segment {ref.id} is in another home ({ref.home!r}), which this lithify cannot "
        "read: upgrade lithify"
    )


def refuse_unreachable(keys: PartitionKeys, refs: Iterable[Reference], homes: Collection[str]) -> None:
    """Raises InvalidRequest if a segment is in none of `homes`, before a job is admitted that nobody could do."""
    for ref in refs:
        if not reachable(ref, homes):
            raise unreachable(keys, ref)
