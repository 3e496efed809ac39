"""Sort the rows of one batch: by offset, or by (key, offset) with null keys first."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lithify.segment.arrays import Flags, Longs, flags, from_longs, longs, nulls, starts
from lithify.segment.extent import Order, shared_prefix

__all__ = ["Extremes", "repeats", "sorted_indices", "stable_by_key"]

Extremes = tuple[bytes, bytes]
"""The smallest and the largest key, or bounds for them."""

_HEAD_BYTES = 8
# By the number of bytes left in a key: which bytes of a head are its own, and not the next key's.
_MASKS = np.array([(1 << 64) - (1 << 8 * (_HEAD_BYTES - own)) for own in range(_HEAD_BYTES + 1)], np.uint64)


def sorted_indices(rows: pa.RecordBatch, order: Order) -> Longs:
    """Indices that put the rows in `order`."""
    by_offset = np.argsort(longs(rows.column("offset")), kind="stable")
    if order == "offset":
        return by_offset
    indices, _ = stable_by_key(rows.column("key").take(from_longs(by_offset)))
    return by_offset[indices]


def repeats(keys: Any) -> Flags:
    """Whether the next row has the same key. Null equals nothing, and nothing follows the last row."""
    result = np.zeros(len(keys), np.bool_)
    if len(keys) > 1:
        same = pc.call_function("equal", [keys.slice(0, len(keys) - 1), keys.slice(1)])
        result[:-1] = flags(same) & ~nulls(same)
    return result


def stable_by_key(keys: Any, extremes: Extremes | None = None) -> tuple[Longs, Flags]:
    """Indices that sort by key, null keys first, and keep the order of rows with the same key; and `repeats` in that
    order.

    `extremes` of the keys, if known, save a search for them. Requires: at least one row.
    """
    # The eight bytes after the shared prefix nearly always distinguish keys, and integers sort fast. If two different
    # keys have the same eight bytes, whole keys are compared.
    return (_by_heads(keys, extremes or _extremes(keys)) if keys.null_count == 0 else None) or _by_whole_keys(keys)


def _by_whole_keys(keys: Any) -> tuple[Longs, Flags]:
    options = pc.ArraySortOptions(null_placement="at_start")
    indices: Any = pc.call_function("array_sort_indices", [keys], options)
    return longs(indices).copy(), repeats(keys.take(indices))


def _by_heads(keys: Any, extremes: Extremes) -> tuple[Longs, Flags] | None:
    begin = starts(keys)
    shared = len(shared_prefix(*extremes))
    rest_bytes = np.diff(begin) - shared
    heads = _heads(keys, begin, shared, rest_bytes)
    indices = np.argsort(heads, kind="stable")
    in_order = heads[indices]
    same = np.zeros(len(heads), np.bool_)
    same[:-1] = in_order[1:] == in_order[:-1]
    return (indices, same) if _are_equal(keys, indices, np.flatnonzero(same), rest_bytes) else None


def _are_equal(keys: Any, indices: Longs, rows: Longs, rest_bytes: Longs) -> bool:
    """Whether each of `rows` has the same key as the row after it. Their heads are equal."""
    one, other = indices[rows], indices[rows + 1]
    if rest_bytes.max() <= _HEAD_BYTES:  # keys end within their heads: only zeros at the end may distinguish them
        return bool((rest_bytes[one] == rest_bytes[other]).all())
    return pc.call_function("equal", [keys.take(from_longs(one)), keys.take(from_longs(other))]).true_count == len(rows)


def _heads(keys: Any, begin: Longs, shared: int, rest_bytes: Longs) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key after its first `shared` bytes, as a big-endian number, padded with zeros."""
    content = np.frombuffer(keys.buffers()[2] or b"", np.uint8)[begin[0] : begin[-1]]
    padded = np.concatenate([content, np.zeros(_HEAD_BYTES, np.uint8)])
    # A window of eight bytes at every byte. numpy copies raw bytes fast; numbers it would align one by one.
    windows = np.lib.stride_tricks.as_strided(padded[:0].view("V8"), (len(content) + 1,), (1,))
    heads = windows[begin[:-1] + (shared - begin[0])].view(">u8").astype(np.uint64)
    heads &= _MASKS[np.minimum(rest_bytes, _HEAD_BYTES)]
    return heads


def _extremes(keys: Any) -> Extremes:
    found = pc.call_function("min_max", [keys]).as_py()
    return found["min"], found["max"]
