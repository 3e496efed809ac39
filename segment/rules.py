"""What a merge does with each record: rules R1, R3 and R4, once for a single record and once for a block.

`fate` and `fates` are the same function (a property test compares them): the simulator uses the first, the kernel the
second.
"""

import enum
from typing import Final

import numpy as np
import numpy.typing as npt

from lithify.manifest.jobs import MergeRules
from lithify.segment.arrays import Flags, Longs

__all__ = ["NO_HORIZON", "Fate", "Fates", "fate", "fates", "stamped", "stamps"]

NO_HORIZON: Final = np.iinfo(np.int64).max
""""No horizon" in arrays: no clock reaches it."""

Fates = npt.NDArray[np.uint8]


class Fate(enum.IntEnum):
    """What happens to a record. If several reasons to drop it apply, the first in this list counts."""

    KEPT = 0
    BELOW_FLOOR = 1  # R3
    KEYLESS = 2  # the topic became compacted: a record without a key cannot be superseded
    SUPERSEDED = 3  # R1: a higher offset of its key is in the merge
    EXPIRED = 4  # R4: a tombstone whose stamped horizon has passed; in any merge, since its older values are gone


def fate(
    rules: MergeRules, *, offset: int, key: bytes | None, tombstone: bool, horizon_ms: int | None, superseded: bool
) -> Fate:
    """What happens to one record. `superseded`: the merge has a higher offset of the same key bytes (never for a record
    without a key). A horizon stamped by this merge drops nothing in it."""
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
    """The horizon that a kept record gets: a clean stamps unstamped tombstones below its coverage offset (KIP-534).
    Never others: an older value may be in a segment outside this merge."""
    if rules.stamp_horizon_ms is not None and tombstone and horizon_ms is None and offset < rules.coverage_offset:
        return rules.stamp_horizon_ms
    return horizon_ms


def fates(
    rules: MergeRules, *, offset: Longs, keyless: Flags, tombstone: Flags, horizon_ms: Longs, superseded: Flags
) -> Fates:
    """`fate` of each row, with NO_HORIZON for rows without one."""
    result = np.zeros(len(offset), np.uint8)
    # From the last reason to the first, so that later assignments win.
    result[tombstone & (horizon_ms <= rules.clock_ms)] = Fate.EXPIRED
    if rules.drop_superseded:
        result[superseded] = Fate.SUPERSEDED
    if rules.drop_keyless:
        result[keyless] = Fate.KEYLESS
    result[offset < rules.floor] = Fate.BELOW_FLOOR
    return result


def stamps(rules: MergeRules, *, offset: Longs, tombstone: Flags, horizon_ms: Longs) -> Flags:
    """Where `stamped` sets a horizon that was not set."""
    if rules.stamp_horizon_ms is None:
        return np.zeros(len(offset), np.bool_)
    return tombstone & (horizon_ms == NO_HORIZON) & (offset < rules.coverage_offset)
