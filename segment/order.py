"""The two orders of rows, and merging sources that are in one of them, block by block.

A block holds, from every source, the rows up to the smallest of the sources' last buffered positions: none that is
still unread can come before them. Memory is one batch of each source, whatever their lengths; a key with more versions
than a batch holds is no exception, since positions are (key, offset) and not keys. Source: docs/rfcs/0004.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from lithify.segment.arrays import Longs, from_longs, longs
from lithify.segment.extent import Order
from lithify.segment.sorting import sorted_indices, stable_by_key

__all__ = ["Block", "Position", "blocks", "position", "rows_through", "sort_block"]

Position = tuple[bool, bytes, int]
"""Whether the row has a key, its key, its offset; in offset order (False, b"", offset). They compare as rows do."""


class Block(msgspec.Struct, frozen=True):
    """Rows that precede all later blocks' rows. `order` lists them in order; None: they lie in order already."""

    rows: pa.RecordBatch
    order: Longs | None

    def ordered(self) -> pa.RecordBatch:
        return self.rows if self.order is None else self.rows.take(from_longs(self.order))


def position(batch: pa.RecordBatch, row: int, order: Order) -> Position:
    offset = batch.column("offset")[row].as_py()
    if order == "offset":
        return False, b"", offset
    key = batch.column("key")[row].as_py()
    return key is not None, key or b"", offset


def rows_through(batch: pa.RecordBatch, bound: Position, order: Order) -> int:
    """How many rows of `batch` lie at or before `bound`. Requires: the batch is in `order`."""
    return bisect.bisect_right(range(batch.num_rows), bound, key=lambda row: position(batch, row, order))


class _Head:
    """A source and what of it is buffered. Empty batches are passed over."""

    def __init__(self, source: Iterator[pa.RecordBatch], order: Order) -> None:
        self._source = source
        self._order: Order = order
        self.batch: pa.RecordBatch | None = None
        self.last: Position = (False, b"", 0)
        self._refill()

    def _refill(self) -> None:
        self.batch = None  # let go of the old batch before the next is read
        self.batch = next((batch for batch in self._source if batch.num_rows), None)
        if self.batch is not None:
            self.last = position(self.batch, self.batch.num_rows - 1, self._order)

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
    """Merge sources, each in `order`, into blocks that are in `order` within and among themselves."""
    heads = [head for head in (_Head(source, order) for source in sources) if head.batch is not None]
    while heads:
        bound = min(head.last for head in heads)
        pieces = [piece for piece in (head.take(bound) for head in heads) if piece.num_rows]
        heads = [head for head in heads if head.batch is not None]
        yield Block(pieces[0], None) if len(pieces) == 1 else sort_block(pieces, order)


def sort_block(pieces: list[pa.RecordBatch], order: Order) -> Block:
    """One block of pieces that are each in `order`."""
    extremes = [_offset_extremes(piece) for piece in pieces]
    in_turn = sorted(range(len(pieces)), key=lambda index: extremes[index])
    apart = all(extremes[a][1] < extremes[b][0] for a, b in itertools.pairwise(in_turn))
    rows = pa.concat_batches([pieces[index] for index in in_turn])
    if not apart:
        return Block(rows, sorted_indices(rows, order))
    if order == "offset":
        return Block(rows, None)
    # With the pieces in the order of their offsets, a stable sort by key alone sorts by (key, offset).
    return Block(rows, stable_by_key(rows.column("key")))


def _offset_extremes(batch: pa.RecordBatch) -> tuple[int, int]:
    offsets = longs(batch.column("offset"))
    return int(offsets.min()), int(offsets.max())
