"""The latest visible record of each key, in key order (R1, R2).

Memory is bounded whatever the partition holds: one row group (≤ 8 MiB) of each merged stream, fetches of at most 64 MiB
in total, and one external sort (about three times 64 MiB; the rest is spilled to the system's temporary folder).
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.segment.ahead import ReadAhead
from lithify.segment.arrays import longs, nulls
from lithify.segment.order import Block, blocks
from lithify.segment.read import FETCH_BYTES_MAX, OpenSegment
from lithify.segment.schema import RECORDS
from lithify.segment.sort import external_sort
from lithify.segment.source import Source

__all__ = ["latest", "latest_by_key", "records"]

STREAMS_MAX = 16  # sorted runs and large appends merged directly; further ones are sorted together first
STREAM_BYTES_MIN = 1 << 20  # of such an append


def records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of the merge as users see it, without the horizon."""
    return pa.RecordBatch.from_arrays(batch.columns[: len(RECORDS)], schema=RECORDS)


def latest(
    sources: Sequence[Iterator[pa.RecordBatch]], floor: int, *, keep_tombstones: bool = False
) -> Iterator[pa.RecordBatch]:
    """The record with the highest offset ≥ `floor` of each key, in key order, schema RECORDS.

    Keys whose latest record is a tombstone are left out unless `keep_tombstones`; records without a key always are.
    Requires: each source is in key order, with schema RUN. Memory: one batch per source (lithify.segment.order).
    """
    for block in blocks(sources, "key"):
        shown = _shown(block, floor, keep_tombstones=keep_tombstones)
        del block  # free it while the next rows are read
        if shown is not None:
            yield records(shown)
        del shown


def _shown(block: Block, floor: int, *, keep_tombstones: bool) -> pa.RecordBatch | None:
    """The rows of `block` that are the latest of their keys. An expired tombstone still hides older values."""
    rows, order = block.rows, block.order
    hidden = longs(rows.column("offset")) < floor
    hidden |= nulls(rows.column("key"))
    if not keep_tombstones:
        hidden |= nulls(rows.column("value"))
    if order is not None:
        hidden = hidden[order]
    hidden |= block.superseded()
    kept = np.flatnonzero(~hidden)
    if len(kept) == 0:
        return None
    if len(kept) < rows.num_rows:
        order = kept if order is None else order[kept]
    return Block(rows, order).ordered()


def latest_by_key(
    runs: Sequence[SortedRun],
    l0: Sequence[SegmentRef],
    open_segment: OpenSegment,
    wanted: Bounds,
    *,
    tombstones: bool,
) -> Iterator[pa.RecordBatch]:
    """The record with the highest offset of each key, of those within `wanted`, in key order, schema RECORDS. Only
    segments that may hold some of them are opened."""
    met = [tuple(ref for ref in run.segments if may_hold(ref, wanted)) for run in runs]
    in_key_order = [refs for refs in met if refs and refs[0].order == "key"]
    streamed, rest = in_key_order[:STREAMS_MAX], in_key_order[STREAMS_MAX:]
    rest += [refs for refs in met if refs and refs[0].order != "key"]
    # Sorting thousands of small L0 segments is faster than merging them one by one, and needs bounded memory.
    appends = [ref for ref in l0 if may_hold(ref, wanted)]
    large = [ref for ref in appends if ref.order == "key" and ref.bytes >= STREAM_BYTES_MIN]
    large = large[: STREAMS_MAX - len(streamed)]
    streamed += [(ref,) for ref in large]
    alone = {ref.id for ref in large}
    others = [*itertools.chain.from_iterable(rest), *(ref for ref in appends if ref.id not in alone)]
    fan_in, ahead = len(streamed) + 1, ReadAhead()
    sources = [Source(refs, open_segment, "key", wanted, fan_in=fan_in, ahead=ahead).rows() for refs in streamed]
    if others:
        sources.append(external_sort(ahead.lane(others, open_segment, wanted, FETCH_BYTES_MAX).batches(), "key"))
    return latest(sources, wanted.from_offset or 0, keep_tombstones=tombstones)
