"""Where a segment's bytes are: its home, and its key there. Pure.

A home is where segments live (docs/rfcs/0031): the warehouse itself (`HERE`), another URL, or `class:NAME`, which is
another storage class of the warehouse's own bucket, under the same keys. What a process can reach are the homes of its
driver (lithify.store.homes), which it hands down to whatever decides about segments. All code that opens, checks or
deletes a referenced segment asks here, and then the store of that home. Only lithify.segment.segments opens and checks
segments.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest
from lithify.manifest.runs import Runs
from lithify.store.errors import InvalidRequest
from lithify.store.home_names import storage_class
from lithify.store.port import HERE

__all__ = [
    "HERE",
    "ONLY_HERE",
    "Reference",
    "Where",
    "in_warehouse",
    "named_homes",
    "reachable",
    "refuse_unreachable",
    "told",
    "unreachable",
    "where",
]

ONLY_HERE: frozenset[str] = frozenset({HERE})
"""The homes of a warehouse whose segments all live in it."""


class Where(NamedTuple):
    home: str
    key: str


def told(home: str) -> str:
    """A home, for people."""
    named = storage_class(home)
    return "the warehouse" if home == HERE else home if named is None else f"storage class {named}"


class Reference(Protocol):
    """A manifest's entry for a segment, live or retired."""

    @property
    def id(self) -> str: ...
    @property
    def home(self) -> str: ...


def where(keys: PartitionKeys, ref: Reference) -> Where:
    """Where the bytes of a referenced segment are, whether this process can reach them or not."""
    return Where(ref.home, keys.segment(ref.id))


def named_homes(head: Manifest) -> frozenset[str]:
    """The homes besides the warehouse in which a live or retired segment of `head` is."""
    return Runs.of(head.runs).homes.union(each.home for each in (*head.l0, *head.retired)) - {HERE}


def reachable(ref: Reference, homes: Collection[str]) -> bool:
    return ref.home in homes


def in_warehouse(ref: Reference) -> bool:
    """Whether its bytes are read as fast as the warehouse answers."""
    return ref.home == HERE


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
