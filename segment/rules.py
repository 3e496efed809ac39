"""What a merge does with each record: the rules R1, R3 and R4 in one place, once for a record and once for a block.

`fate` and `fates` are the same function (a property test holds them together): the simulator asks the one, the kernel
the other.
"""

import enum
from typing import Final

import numpy as np
import numpy.typing as npt

from lithify.manifest.jobs import MergeRules
from lithify.segment.arrays import Flags, Longs

__all__ = ["NO_HORIZON", "Fate", "Fates", "fate", "fates", "stamped", "stamps"]

NO_HORIZON: Final = np.iinfo(np.int64).max
"""Stands for "no horizon" in arrays: no clock reaches it."""

Fates = npt.NDArray[np.uint8]


class Fate(enum.IntEnum):
    """What becomes of a record. Where several reasons to drop it hold, the first in this list is counted."""

    KEPT = 0
    BELOW_FLOOR = 1  # R3
    KEYLESS = 2  # the topic became compacted: a record without a key has no identity to keep
    SUPERSEDED = 3  # R1: a higher offset of its key is in the merge
    EXPIRED = 4  # R4: a tombstone whose stamped horizon has passed; in any merge, for its older values are gone


def fate(
    rules: MergeRules, *, offset: int, key: bytes | None, tombstone: bool, horizon_ms: int | None, superseded: bool
) -> Fate:
    """What becomes of one record. `superseded`: a higher offset of the same key bytes is in this merge (a record
    without a key never is). A horizon that this very merge stamps drops nothing in it."""
    if offset < rules.floor:
        return Fate.BELOW_FLOOR
    if rules.drop_keyless and key is None:
        return Fate.KEYLESS
    if rules.drop_superseded and superseded:
        return Fate.SUPERSEDED
    if tombstone and horizon_ms is not None and horizon_ms <= rules.clock_ms:
        return Fate.EXPIRED
    return Fate.KEPT


def stamped(rules: MergeRules, *, offset: int, tombstone: bool, horizon_ms: int | None) -> int | None:
    """The horizon a kept record carries on: a clean stamps unstamped tombstones below its coverage offset (KIP-534;
    never others: an older value may sit in a segment that is not in this merge)."""
    if rules.stamp_horizon_ms is not None and tombstone and horizon_ms is None and offset < rules.coverage_offset:
        return rules.stamp_horizon_ms
    return horizon_ms


def fates(
    rules: MergeRules, *, offset: Longs, keyless: Flags, tombstone: Flags, horizon_ms: Longs, superseded: Flags
) -> Fates:
    """`fate` of each row, with NO_HORIZON where there is none."""
    result = np.zeros(len(offset), np.uint8)
    # From the last reason to the first: a later assignment wins.
    result[tombstone & (horizon_ms <= rules.clock_ms)] = Fate.EXPIRED
    if rules.drop_superseded:
        result[superseded] = Fate.SUPERSEDED
    if rules.drop_keyless:
        result[keyless] = Fate.KEYLESS
    result[offset < rules.floor] = Fate.BELOW_FLOOR
    return result


def stamps(rules: MergeRules, *, offset: Longs, tombstone: Flags, horizon_ms: Longs) -> Flags:
    """Where `stamped` gives a record a horizon it did not have."""
    if rules.stamp_horizon_ms is None:
        return np.zeros(len(offset), np.bool_)
    return tombstone & (horizon_ms == NO_HORIZON) & (offset < rules.coverage_offset)
