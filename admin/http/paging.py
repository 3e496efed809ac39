"""Lists in pages: each has the items after a cursor, which is the place of the last item before them."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from lithify.admin import compactions, transactions
from lithify.admin.checkpoints import PartitionCheckpoint
from lithify.admin.compactions import Retried
from lithify.admin.consumers import PartitionConsumer
from lithify.admin.explain import Explanation
from lithify.admin.topics import TopicSummary
from lithify.admin.transactions import PartitionTransaction
from lithify.compactor.info import CompactionInfo
from lithify.store.errors import InvalidRequest

__all__ = ["LIMIT", "LIMIT_MAX", "Page", "page"]

LIMIT = 100
LIMIT_MAX = 1_000

T = TypeVar("T")
Place = tuple[str | int, ...]

_PLACES: dict[type, Callable[[Any], Place]] = {
    TopicSummary: lambda each: (each.topic,),
    Explanation: lambda each: (each.topic, each.partition),
    Retried: lambda each: (each.topic, each.partition),
    CompactionInfo: compactions.place_of,
    PartitionCheckpoint: lambda each: (each.partition, each.checkpoint.manifest, each.checkpoint.id),
    PartitionConsumer: lambda each: (each.partition, each.consumer.name),
    PartitionTransaction: transactions.place_of,
}


class Page(msgspec.Struct, frozen=True):
    items: Sequence[Any]
    next: str | None  # the cursor of the next page; None: this is the last


def page(items: Sequence[Any], limit: int, cursor: str | None) -> Page:
    """Items that appear or go while somebody turns the pages move no other: a cursor names a place, not a count. An
    application that appends meanwhile moves to the end of its partition, and may be told again."""
    after = _decoded(cursor) if cursor else None
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidRequest(f"limit is {limit}; give 1 to {LIMIT_MAX}")
    if not items:
        return Page((), None)
    place = _PLACES[type(items[0])]
    rest = sorted(items, key=place)
    if after is not None:
        if [type(part) for part in after] != [type(part) for part in place(rest[0])]:
            raise _no_cursor()
        rest = [each for each in rest if place(each) > after]
    found = rest[:limit]
    return Page(found, _encoded(place(found[-1])) if len(rest) > limit else None)


def _encoded(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(cursor: str) -> Place:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=Place)
    except (UnicodeEncodeError, binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        raise _no_cursor() from None


def _no_cursor() -> InvalidRequest:
    return InvalidRequest("cursor: give the `next` of an earlier page of the same list, as it was")
