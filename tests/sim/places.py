"""Where the segments of simulated histories may live, besides the warehouse (docs/rfcs/0031): two other stores, and a
storage class of the warehouse's own."""

import msgspec

from lithify.manifest.homes import HERE
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Retired, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.store.port import Object, Request

__all__ = ["CLASS", "COLD", "COLDER", "GetFrom", "PutTo", "files_of", "place"]

COLD, COLDER, CLASS = "memory://cold", "memory://colder", "class:GLACIER_IR"
HOMES = frozenset((HERE, COLD, COLDER, CLASS))


class GetFrom(Request[Object | None], msgspec.Struct, frozen=True):
    """As Get, from another place. Only workers and readers of segments ask for it."""

    key: str
    home: str


class PutTo(Request[None], msgspec.Struct, frozen=True):
    """As Put, to another place."""

    key: str
    body: bytes
    home: str


def place(ref: SegmentRef | Retired | str) -> str:
    """The store that a segment, or a home, lies in. Not the product's own: this is what it is held against."""
    home = ref if isinstance(ref, str) else ref.home
    return home if "://" in home else HERE


def files_of(keys: PartitionKeys) -> PartitionFiles:
    """Of a process that can reach every home."""
    return PartitionFiles(keys, homes=HOMES)
