"""The rows of a row group that lie within bounds."""

import bisect
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lithify.manifest.bounds import Bounds
from lithify.segment.arrays import ByteStrings, from_flags, longs
from lithify.segment.footer import RowGroup

__all__ = ["within"]


def within(batch: pa.RecordBatch, order: str, group: RowGroup, wanted: Bounds) -> pa.RecordBatch:
    """The rows of `batch`, which are those of `group` in `order`, within `wanted`."""
    batch = _of_keys(batch, order, *_cutting(group, wanted))
    if wanted.from_offset is not None and group.min_offset < wanted.from_offset:
        batch = batch.filter(from_flags(longs(batch.column("offset")) >= wanted.from_offset))
    if wanted.to_offset is not None and group.max_offset >= wanted.to_offset:
        batch = batch.filter(from_flags(longs(batch.column("offset")) < wanted.to_offset))
    return batch


def _cutting(group: RowGroup, wanted: Bounds) -> tuple[bytes | None, bytes | None]:
    """The bounds of keys that leave out some of the row group. The others need not be searched for."""
    if group.min_key is None or group.max_key is None or group.null_keys:
        return wanted.low, wanted.high
    low = wanted.low if wanted.low is not None and group.min_key < wanted.low else None
    return low, wanted.high if wanted.high is not None and group.max_key >= wanted.high else None


def _of_keys(batch: pa.RecordBatch, order: str, low: bytes | None, high: bytes | None) -> pa.RecordBatch:
    if low is None and high is None:
        return batch
    keys: Any = batch.column("key")
    if order == "key":
        start = _first_at(keys, low) if low is not None else 0
        stop = _first_at(keys, high) if high is not None else len(keys)
        return batch.slice(start, max(stop - start, 0))
    inside = pc.call_function("is_null" if low is None else "is_valid", [keys])
    if low is not None:
        inside = pc.call_function("and", [inside, pc.call_function("greater_equal", [keys, pa.scalar(low, keys.type)])])
    if high is not None:
        below = pc.call_function("less", [keys, pa.scalar(high, keys.type)])
        inside = pc.call_function("or_kleene" if low is None else "and", [inside, below])
    return batch.filter(inside)


def _first_at(keys: Any, bound: bytes) -> int:
    """Index of the first row with a key ≥ `bound`. Requires: keys in order, null keys first."""
    return bisect.bisect_left(ByteStrings(keys), bound, lo=keys.null_count)
