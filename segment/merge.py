"""The merge kernel: sorted sources in, surviving records out. Pure; memory: lithify.segment.order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lithify.manifest.jobs import MergeRules
from lithify.segment.arrays import Flags, Longs, from_flags, longs, nulls
from lithify.segment.extent import row_bytes
from lithify.segment.order import Block, blocks
from lithify.segment.rules import NO_HORIZON, Fate, Fates, fates, stamps
from lithify.segment.schema import RUN

__all__ = ["Tally", "merge"]

_HORIZON = RUN.get_field_index("horizon_ms")


class Tally:
    """Counts of the rows that went in, by fate; `buckets` as in MergeRules."""

    def __init__(self, buckets: Sequence[int] = ()) -> None:
        self.rows_in = 0
        self.by_fate = [0] * len(Fate)
        self.dropped_to = 0
        self._starts = np.array(buckets, np.int64)
        self._lost, self._kept_bytes, self._lost_bytes = np.zeros((3, len(buckets) + 1), np.int64)  # first: below all

    @property
    def lost(self) -> tuple[int, ...]:
        """Rows dropped from each bucket; () for none."""
        rows = self._lost[1:].tolist()
        return tuple(rows) if any(rows) else ()

    @property
    def kept_bytes(self) -> tuple[int, ...]:
        """Raw bytes of the records kept of each bucket, up to the last that has any. () only if there are no buckets;
        it would mean "not counted"."""
        return _up_to_the_last(self._kept_bytes[1:]) or (0,) * len(self._starts[:1])

    @property
    def lost_bytes(self) -> tuple[int, ...]:
        """And of those dropped."""
        return _up_to_the_last(self._lost_bytes[1:])

    def count(self, rows: Fates, offset: Longs, size: Longs) -> None:
        """Count rows by fate. `size`: raw bytes of each row."""
        self.rows_in += len(rows)
        for fate, count in enumerate(np.bincount(rows, minlength=len(Fate))):
            self.by_fate[fate] += int(count)
        if len(self._starts):
            self._place(rows != Fate.KEPT, self._starts.searchsorted(offset, side="right"), size)
        expired = offset[rows == Fate.EXPIRED]
        if len(expired):
            self.dropped_to = max(self.dropped_to, int(expired.max()) + 1)

    def _place(self, dropped: Flags, places: Longs, size: Longs) -> None:
        """Each bucket is counted twice: for the rows that are kept, and next to it for those dropped."""
        twice = places * 2 + dropped
        most = 2 * len(self._lost)
        sums = np.bincount(twice, size, most).astype(np.int64)
        self._lost += np.bincount(twice, minlength=most)[1::2]
        self._kept_bytes += sums[0::2]
        self._lost_bytes += sums[1::2]


def _up_to_the_last(counts: Longs) -> tuple[int, ...]:
    return tuple(np.trim_zeros(counts, "b").tolist())


def merge(sources: Sequence[Iterator[pa.RecordBatch]], rules: MergeRules, tally: Tally) -> Iterator[pa.RecordBatch]:
    """The records of all sources that `rules` keep, in `rules.order`, as batches of schema RUN.

    Requires: each source is in `rules.order` (null keys first), with schema RUN; no offset occurs twice; records of a
    key are superseded only in key order, where its versions are neighbours.
    """
    if rules.drop_superseded and rules.order != "key":
        raise ValueError("superseded records are found in key order only")
    for block in blocks(sources, rules.order):
        kept = _survivors(block, rules, tally)
        del block  # free it, and then what was kept of it, while the next rows are read
        if kept is not None:
            yield kept
        del kept


def _survivors(block: Block, rules: MergeRules, tally: Tally) -> pa.RecordBatch | None:
    """The kept rows of `block`."""
    rows, order = block.rows, block.order
    count = rows.num_rows
    offset = _in_order(longs(rows.column("offset")), order)
    keyless = _in_order(nulls(rows.column("key")), order)
    tombstone = _in_order(nulls(rows.column("value")), order)
    horizon_ms = _in_order(_horizons(rows), order)
    superseded = block.superseded() if rules.drop_superseded else np.zeros(count, np.bool_)
    fate = fates(
        rules, offset=offset, keyless=keyless, tombstone=tombstone, horizon_ms=horizon_ms, superseded=superseded
    )
    tally.count(fate, offset, _in_order(row_bytes(rows), order))
    kept = np.flatnonzero(fate == Fate.KEPT)
    if len(kept) == 0:
        return None
    if len(kept) < count:
        order = kept if order is None else order[kept]
    stamp = stamps(rules, offset=offset[kept], tombstone=tombstone[kept], horizon_ms=horizon_ms[kept])
    return _stamp(Block(rows, order).ordered(), stamp, rules)


def _in_order(values: Any, order: Longs | None) -> Any:
    return values if order is None else values[order]


def _horizons(rows: pa.RecordBatch) -> Longs:
    column = rows.column(_HORIZON)
    if column.null_count == len(column):
        return np.full(len(column), NO_HORIZON, np.int64)
    return np.where(nulls(column), NO_HORIZON, longs(column))


def _stamp(batch: pa.RecordBatch, stamp: Flags, rules: MergeRules) -> pa.RecordBatch:
    if not stamp.any():
        return batch
    assert rules.stamp_horizon_ms is not None
    stamps = [from_flags(stamp), pa.scalar(rules.stamp_horizon_ms, pa.int64()), batch.column(_HORIZON)]
    columns = [*batch.columns[:_HORIZON], pc.call_function("if_else", stamps)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
