"""Sorting the rows of one batch: by offset, or by (key, offset) with null keys first."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lithify.segment.arrays import Longs, from_longs, longs, starts
from lithify.segment.extent import Order, shared_prefix

__all__ = ["sorted_indices", "stable_by_key"]


def sorted_indices(rows: pa.RecordBatch, order: Order) -> Longs:
    """Indices that put any rows in `order`."""
    by_offset = np.argsort(longs(rows.column("offset")), kind="stable")
    if order == "offset":
        return by_offset
    return by_offset[stable_by_key(rows.column("key").take(from_longs(by_offset)))]


def stable_by_key(keys: Any) -> Longs:
    """Indices that sort by key and leave rows of one key as they lie; null keys first."""
    if keys.null_count == 0:
        # Eight bytes after what all keys share nearly always tell them apart, and whole numbers sort fast. Where two
        # different keys have the same eight bytes, the general way is taken.
        heads = _heads(keys)
        indices = np.argsort(heads, kind="stable")
        ties = np.flatnonzero(heads[indices[1:]] == heads[indices[:-1]])
        before, after = (keys.take(from_longs(indices[ties + step])) for step in (0, 1))
        if pc.call_function("equal", [before, after]).true_count == len(ties):
            return indices
    options = pc.ArraySortOptions(null_placement="at_start")
    return longs(pc.call_function("array_sort_indices", [keys], options)).copy()


def _heads(keys: Any) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key after the prefix that all share, as a big-endian number; zeros follow a short key."""
    begin = starts(keys)
    extremes = pc.call_function("min_max", [keys]).as_py()
    shared = len(shared_prefix(extremes["min"], extremes["max"]))
    content = np.frombuffer(keys.buffers()[2] or b"", np.uint8)[begin[0] : begin[-1]]
    padded = np.concatenate([content, np.zeros(8, np.uint8)])
    eight = np.lib.stride_tricks.as_strided(padded[:0].view(">u8"), (len(content) + 1,), (1,))
    heads = eight[begin[:-1] - begin[0] + shared].astype(np.uint64)
    missing = np.clip(8 - (np.diff(begin) - shared), 0, 8).astype(np.uint64) * 8
    return np.where(missing == 64, 0, heads >> missing << missing)
