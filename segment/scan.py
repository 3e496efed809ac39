"""The latest visible record of each key (by a streaming merge), or of one key."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.jobs import MergeRules
from lithify.manifest.model import SegmentRef
from lithify.segment.merge import Tally, merge
from lithify.segment.read import FETCH_BYTES_MAX, OpenSegment
from lithify.segment.schema import RECORDS

__all__ = ["get", "latest", "records"]

_NEVER_MS = -1  # no horizon has passed, so that an expired tombstone still hides older values


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
    rules = MergeRules(order="key", drop_superseded=True, drop_keyless=True, floor=floor, clock_ms=_NEVER_MS)
    for batch in merge(sources, rules, Tally()):
        if not keep_tombstones and batch.column("value").null_count:
            batch = batch.filter(pc.call_function("is_valid", [batch.column("value")]))
        if batch.num_rows:
            yield records(batch)


def get(refs: Iterable[SegmentRef], open_segment: OpenSegment, key: bytes, floor: int) -> pa.RecordBatch | None:
    """The latest record of `key` with an offset ≥ `floor`, as a batch of one row with schema RECORDS (possibly a
    tombstone), or None. `refs` may be in any order.

    Opens the newest segments first, and only those whose bounds include the key; reads only row groups whose bounds do;
    stops when no older segment can win. Raises what `open_segment` raises, NotFound and Corrupt.
    """
    found: pa.RecordBatch | None = None
    wanted = Bounds.of_key(key)
    for ref in sorted((ref for ref in refs if may_hold(ref, wanted)), key=lambda ref: -ref.max_offset):
        at_least = floor if found is None else found.column("offset")[0].as_py() + 1
        if ref.max_offset < at_least:
            break
        for batch in open_segment(ref, FETCH_BYTES_MAX).batches(replace(wanted, from_offset=at_least)):
            last = batch.slice(batch.num_rows - 1)
            if found is None or last.column("offset")[0].as_py() > found.column("offset")[0].as_py():
                found = last
    return None if found is None else records(found)
