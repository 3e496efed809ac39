"""The two orders of rows, and the merge of sources that are in one of them, block by block.

A block has, from every source, the rows up to the smallest of the sources' last buffered positions: no unread row can
come before them. Memory is one batch per source, whatever the sources' lengths, even if a key has more versions than a
batch holds, since positions are (key, offset), not keys. Source: docs/rfcs/0004.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lithify.segment.arrays import ByteStrings, Flags, Longs, from_longs, longs
from lithify.segment.extent import Order
from lithify.segment.sorting import Extremes, repeats, sorted_indices, stable_by_key

__all__ = ["Block", "Position", "blocks", "position", "rows_through", "take"]

Position = tuple[bool, bytes, int]
"""Whether the row has a key, its key, its offset; in offset order (False, b"", offset). Compares as rows do."""


class Block(msgspec.Struct, frozen=True):
    """Rows that precede all later blocks' rows.

    `order`: the indices that put the rows in order; None: they are in order. `repeated`: in order, whether the next row
    has the same key; None: not determined yet. `continued`: whether the first row after the block has the same key as
    its last.
    """

    rows: pa.RecordBatch
    order: Longs | None = None
    repeated: Flags | None = None
    continued: bool = False

    def ordered(self) -> pa.RecordBatch:
        return self.rows if self.order is None else take(self.rows, self.order)

    def superseded(self) -> Flags:
        """In order, whether a later row has the same key. Requires: the block is in key order."""
        keys: Any = self.rows.column("key")
        if self.repeated is not None:
            result = self.repeated.copy()
        else:
            result = repeats(keys if self.order is None else keys.take(from_longs(self.order)))
        result[-1] = self.continued
        return result


def take(rows: pa.RecordBatch, indices: Longs) -> pa.RecordBatch:
    """`rows` at `indices`. An all-null column is made anew, which costs less."""
    chosen = from_longs(indices)
    columns = [
        pa.nulls(len(indices), column.type) if column.null_count == len(column) else column.take(chosen)
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def position(batch: pa.RecordBatch, row: int, order: Order) -> Position:
    offset = batch.column("offset")[row].as_py()
    if order == "offset":
        return False, b"", offset
    key = batch.column("key")[row].as_py()
    return key is not None, key or b"", offset


def rows_through(batch: pa.RecordBatch, bound: Position, order: Order) -> int:
    """How many rows of `batch` are at or before `bound`. Requires: the batch is in `order`."""
    keyed, key, offset = bound
    offsets = longs(batch.column("offset"))
    if order == "offset":
        return int(np.searchsorted(offsets, offset, "right"))
    keys: Any = batch.column("key")
    if not keyed:
        return int(np.searchsorted(offsets[: keys.null_count], offset, "right"))
    found = ByteStrings(keys)
    first = bisect.bisect_left(found, key, lo=keys.null_count)
    if first == len(found) or found[first] != key:
        return first
    past = bisect.bisect_right(found, key, lo=first)
    return first + int(np.searchsorted(offsets[first:past], offset, "right"))


class _Head:
    """A source and its buffered batch. Empty batches are skipped."""

    def __init__(self, source: Iterator[pa.RecordBatch], order: Order) -> None:
        self._source = source
        self._order: Order = order
        self.batch: pa.RecordBatch | None = None
        self.last: Position = (False, b"", 0)
        self._refill()

    def _refill(self) -> None:
        self.batch = None  # free the old batch before the next is read
        self.batch = next((batch for batch in self._source if batch.num_rows), None)
        if self.batch is not None:
            self.last = position(self.batch, self.batch.num_rows - 1, self._order)

    def begins_with(self, key: bytes) -> bool:
        return self.batch is not None and self.batch.column("key")[0].as_py() == key

    def take(self, bound: Position) -> pa.RecordBatch:
        assert self.batch is not None
        batch = self.batch
        count = batch.num_rows if self.last <= bound else rows_through(batch, bound, self._order)
        if count == batch.num_rows:
            self._refill()
        else:
            self.batch = batch.slice(count)
        return batch.slice(0, count)


def blocks(sources: Sequence[Iterator[pa.RecordBatch]], order: Order) -> Iterator[Block]:
    """Merge sources, each in `order`, into blocks that are in `order` within and across blocks."""
    heads = [head for head in (_Head(source, order) for source in sources) if head.batch is not None]
    while heads:
        bound = min(head.last for head in heads)
        pieces = [piece for piece in (head.take(bound) for head in heads) if piece.num_rows]
        heads = [head for head in heads if head.batch is not None]
        # The block's last row is the one at `bound`; the row after it is the first of some head.
        continued = bound[0] and any(head.begins_with(bound[1]) for head in heads)
        block = _block(pieces, order, continued)
        pieces = []
        yield block
        del block  # free it while the next rows are read: one block may take 64 MiB


def _block(pieces: list[pa.RecordBatch], order: Order, continued: bool) -> Block:
    """One block from pieces that are each in `order`."""
    if len(pieces) == 1:
        return Block(pieces[0], continued=continued)
    extremes = [_offset_extremes(piece) for piece in pieces]
    in_turn = sorted(range(len(pieces)), key=lambda index: extremes[index])
    apart = all(extremes[a][1] < extremes[b][0] for a, b in itertools.pairwise(in_turn))
    rows = pa.concat_batches([pieces[index] for index in in_turn])
    if not apart:
        return Block(rows, sorted_indices(rows, order), continued=continued)
    if order == "offset":
        return Block(rows)
    # Since the pieces are in offset order, a stable sort by key alone sorts by (key, offset).
    indices, repeated = stable_by_key(rows.column("key"), _key_extremes(pieces))
    return Block(rows, indices, repeated, continued)


def _key_extremes(pieces: list[pa.RecordBatch]) -> Extremes | None:
    """The extremes of pieces in key order; None if a key is null."""
    keys: list[Any] = [piece.column("key") for piece in pieces]
    if any(column.null_count for column in keys):
        return None
    return min(column[0].as_py() for column in keys), max(column[-1].as_py() for column in keys)


def _offset_extremes(batch: pa.RecordBatch) -> tuple[int, int]:
    offsets = longs(batch.column("offset"))
    return int(offsets.min()), int(offsets.max())
