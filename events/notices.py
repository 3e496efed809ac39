"""Event types: notices, which are in no file (docs/rfcs/0015). Only the process that emits a notice knows it. Pure."""

from typing import Literal

import msgspec

from lithify.events.types import ChainName, Event
from lithify.store.apart import Fault

__all__ = [
    "Collected",
    "CollectionEnded",
    "Freed",
    "Gap",
    "Lost",
    "Recovered",
    "Rests",
    "Trouble",
    "Waits",
    "What",
]

# Conditions that may last longer than one pass:
What = Literal[
    "topics not listed",
    "topic skipped",
    "an older version of a topic cannot be read",
    "end of a topic not noted",
    "partition failed",
    "partition not ranked",
    "partition not relieved",
    "partition not left",
    "partitions not left",
    "partition not collected",
    "objects could not be deleted",
    "unannounced partitions not swept",
    "stale temporaries stay",
    "changes not read",
]


class Trouble(Event, frozen=True, kw_only=True):
    """Something fails, or fails for another reason than before."""

    what: What
    fault: Fault


class Recovered(Event, frozen=True, kw_only=True):
    """It no longer fails."""

    what: What


class Lost(Event, frozen=True, kw_only=True):
    """Another compactor took the partition from this one (P5)."""

    fault: Fault


class Rests(Event, frozen=True, kw_only=True):
    """Something is due in the partition, but nothing will be done until something changes: the work waits, another
    compactor owns the partition, or this one was told to stop."""

    outcome: str
    reason: str


class Waits(Event, frozen=True, kw_only=True):
    """A due job has waited for minutes, for a worker or for room."""

    bytes: int
    since_ms: int


class Freed(msgspec.Struct, frozen=True):
    """What was deleted for one reason (`Cause` of gc/reachable.py)."""

    cause: str
    objects: int
    bytes: int


class Collected(Event, frozen=True, kw_only=True):
    """Objects of a partition were deleted."""

    objects: int
    bytes: int
    boundary: int
    freed: tuple[Freed, ...] = ()  # by reason


class CollectionEnded(Event, frozen=True, kw_only=True):
    """A pass of the collector over the warehouse."""

    swept: bool
    objects: int
    bytes: int
    waiting: int  # retired segments that wait for the grace period
    failed: int  # partitions that could not be collected


class Gap(Event, frozen=True, kw_only=True):
    """Of a stream: changes of this chain are missing, because their files are gone, damaged or too many to read back.
    Known are those of files after `number`, that is, since `from_ms`; if `number` is 0, only the time is known. With no
    partition, changes of any chain of the topic are missing: which partitions it had could not be read. Whoever keeps a
    state by them reads it anew."""

    chain: ChainName | None
    number: int
    from_ms: int
