"""Statistics of a segment's rows, for its reference."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lithify.manifest.model import KEY_BOUND_BYTES
from lithify.segment.arrays import Longs, longs, starts

__all__ = ["Extent", "Order", "are_bounds", "key_bounds", "pieces", "row_bytes", "shared_prefix"]

Order = Literal["key", "offset"]

_ROW_FIXED_BYTES = 24  # offset, timestamp, and the two offsets into the key and value columns


def key_bounds(smallest: bytes, largest: bytes) -> tuple[bytes, bytes | None]:
    """Bounds of at most KEY_BOUND_BYTES around all keys from `smallest` to `largest`, rounded outward.

    An upper bound shorter than that is the largest key itself; one that was rounded up is padded with zeros. It is None
    (unbounded) if the cut key is all 0xff and cannot be rounded up.
    """
    if len(largest) <= KEY_BOUND_BYTES:
        return smallest[:KEY_BOUND_BYTES], largest
    stem = largest[:KEY_BOUND_BYTES].rstrip(b"\xff")
    rounded = stem and (stem[:-1] + bytes([stem[-1] + 1])).ljust(KEY_BOUND_BYTES, b"\0")
    return smallest[:KEY_BOUND_BYTES], rounded or None


def are_bounds(low: bytes | None, high: bytes | None, smallest: bytes, largest: bytes) -> bool:
    """Whether these are the `key_bounds`, as computed now, or by the first writers, who did not pad with zeros."""
    expected = key_bounds(smallest, largest)
    if high is not None and len(largest) > KEY_BOUND_BYTES > len(high):
        high = high.ljust(KEY_BOUND_BYTES, b"\0")
    return (low, high) == expected


def shared_prefix(smallest: bytes, largest: bytes) -> bytes:
    """The prefix that all keys from `smallest` to `largest` share."""
    apart = next((at for at, (a, b) in enumerate(zip(smallest, largest, strict=False)) if a != b), len(smallest))
    return smallest[:apart]


def row_bytes(batch: pa.RecordBatch) -> Longs:
    """The bytes of each row in memory."""
    size = np.full(batch.num_rows, _ROW_FIXED_BYTES, np.int64)
    for name in ("key", "value"):
        size += np.diff(starts(batch.column(name)))
    headers: Any = batch.column("headers")
    if headers.null_count < len(headers):
        rows = starts(headers)
        entries = headers.values
        inside = np.zeros(len(entries) + 1, np.int64)
        for child in entries.flatten():
            inside[1:] += 4 + np.diff(starts(child))
        np.cumsum(inside, out=inside)
        size += np.diff(inside[rows])
    return size


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """`batch` in slices of at most `most_bytes`; a larger row gets a slice of its own."""
    ends = np.cumsum(row_bytes(batch))
    start = 0
    while start < batch.num_rows:
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most_bytes, "right")))
        yield batch.slice(start, stop - start)
        start = stop


class Extent:
    """Statistics of the rows seen so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.raw_bytes = 0
        self.max_row_bytes = 0
        self.tombstones = 0
        self.keys: tuple[bytes, bytes] | None = None
        self.offsets: tuple[int, int] | None = None
        self.timestamps: tuple[int, int] | None = None
        self.horizons: tuple[int, int] | None = None

    def add(self, batch: pa.RecordBatch, order: Order, sizes: Longs) -> None:
        """`sizes`: the `row_bytes` of the batch."""
        self.rows += batch.num_rows
        self.raw_bytes += int(sizes.sum())
        self.max_row_bytes = max(self.max_row_bytes, int(sizes.max()))
        self.tombstones += batch.column(1).null_count
        self.keys = _wider(self.keys, _key_extremes(batch.column(0), order))
        self.offsets = _wider(self.offsets, _int_extremes(batch.column(2)))
        self.timestamps = _wider(self.timestamps, _int_extremes(batch.column(3)))
        if "horizon_ms" in batch.schema.names:
            stamped = batch.column(5).drop_null()
            if len(stamped):
                self.horizons = _wider(self.horizons, _int_extremes(stamped))


def _wider(seen: Any, more: Any) -> Any:
    if seen is None or more is None:
        return seen or more
    return min(seen[0], more[0]), max(seen[1], more[1])


def _int_extremes(column: pa.Array) -> tuple[int, int]:
    values = longs(column)
    return int(values.min()), int(values.max())


def _key_extremes(keys: Any, order: Order) -> tuple[bytes, bytes] | None:
    if keys.null_count == len(keys):
        return None
    if order == "key":  # nulls come first
        return keys[keys.null_count].as_py(), keys[len(keys) - 1].as_py()
    found = pc.call_function("min_max", [keys]).as_py()
    return found["min"], found["max"]
