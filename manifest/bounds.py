"""Can a segment hold a record of the wanted range? Decided by its reference, so that others are never opened. Pure."""

from typing import Protocol

import msgspec

__all__ = ["EVERYTHING", "Bounded", "Bounds", "lies_within", "may_hold"]


class Bounds(msgspec.Struct, frozen=True):
    """The records with low ≤ key < high and from_offset ≤ offset < to_offset; None: unbounded on that side. Null keys
    sort before every key, so they are included whenever `low` is None."""

    low: bytes | None = None
    high: bytes | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    @staticmethod
    def of_key(key: bytes, from_offset: int | None = None) -> "Bounds":
        """The records of one key."""
        return Bounds(key, key + b"\0", from_offset)  # the smallest key after `key` is `key` with a zero byte


EVERYTHING = Bounds()


class Bounded(Protocol):
    """A segment reference, or anything else with its statistics."""

    @property
    def min_key(self) -> bytes | None: ...
    @property
    def max_key(self) -> bytes | None: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...


def may_hold(ref: Bounded, wanted: Bounds) -> bool:
    """False only if no record of `ref` can be within. A reference has the first 32 bytes of its key bounds, rounded
    outward, and does not say whether it holds null keys. Without any key bound it holds null keys only."""
    if wanted.from_offset is not None and ref.max_offset < wanted.from_offset:
        return False
    if wanted.to_offset is not None and ref.min_offset >= wanted.to_offset:
        return False
    if wanted.low is None:
        return True
    if ref.min_key is None and ref.max_key is None:
        return False
    reaches_up = ref.max_key is None or ref.max_key >= wanted.low
    reaches_down = wanted.high is None or ref.min_key is None or ref.min_key < wanted.high
    return reaches_up and reaches_down


def lies_within(ref: Bounded, wanted: Bounds) -> bool:
    """Whether every record of `ref` is within, for all that its bounds tell; of null keys they tell nothing."""
    if wanted.from_offset is not None and ref.min_offset < wanted.from_offset:
        return False
    if wanted.to_offset is not None and ref.max_offset >= wanted.to_offset:
        return False
    if wanted.low is not None and (ref.min_key is None or ref.min_key < wanted.low):
        return False
    return wanted.high is None or (ref.max_key is not None and ref.max_key < wanted.high)
