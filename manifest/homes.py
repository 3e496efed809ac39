"""Where a segment's bytes are: its home, and its key there. Pure.

A home is a place where segments live. This lithify has one, the warehouse itself (`HERE`). A later one may have moved a
segment elsewhere, and other bytes may lie in the warehouse under the same key: a move leaves its source behind for a
while. All code that opens, checks or deletes a referenced segment asks here, and then the store of that home
(lithify.store.homes). Only lithify.segment.segments opens and checks segments.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from lithify.manifest.keys import PartitionKeys
from lithify.store.errors import InvalidRequest
from lithify.store.port import HERE

__all__ = ["HERE", "REACHABLE", "Reference", "Where", "reachable", "refuse_unreachable", "unreachable", "where"]

REACHABLE: frozenset[str] = frozenset({HERE})
"""The homes that this lithify reads, compacts and collects."""


class Where(NamedTuple):
    home: str
    key: str


class Reference(Protocol):
    """A manifest's entry for a segment, live or retired."""

    @property
    def id(self) -> str: ...
    @property
    def home(self) -> str: ...


def where(keys: PartitionKeys, ref: Reference) -> Where:
    """Where the bytes of a referenced segment are, whether this lithify can reach them or not."""
    return Where(ref.home, keys.segment(ref.id))


def reachable(ref: Reference) -> bool:
    return ref.home in REACHABLE


def unreachable(keys: PartitionKeys, ref: Reference) -> InvalidRequest:
    """The error for a segment in a home that this lithify cannot reach."""
    return InvalidRequest(
        f"{keys.topic}/{keys.partition}: segment {ref.id} is in another home ({ref.home!r}), which this lithify cannot "
        "read: upgrade lithify"
    )


def refuse_unreachable(keys: PartitionKeys, refs: Iterable[Reference], homes: Collection[str] = REACHABLE) -> None:
    """Raises InvalidRequest if a segment is in none of `homes`, before a job is admitted that nobody could do."""
    for ref in refs:
        if ref.home not in homes:
            raise unreachable(keys, ref)
