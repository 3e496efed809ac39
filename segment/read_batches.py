"""Read one task, in this process or in a worker: only the columns that it asks for (docs/rfcs/0021)."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from lithify.manifest.model import SegmentRef
from lithify.segment.ahead import ReadAhead
from lithify.segment.arrays import from_flags, longs
from lithify.segment.columns import Columns
from lithify.segment.offset_order import in_offset_order
from lithify.segment.read import FETCH_BYTES_MAX, OpenSegment, SegmentReader
from lithify.segment.read_task import ReadTask
from lithify.segment.scan import latest_by_key, records
from lithify.segment.schema import RECORDS
from lithify.segment.segments import Segments
from lithify.segment.stayed import stayed_batches

__all__ = ["schema_of", "task_batches"]


def schema_of(columns: Iterable[str]) -> pa.Schema:
    return pa.schema([RECORDS.field(name) for name in columns])


def task_batches(
    task: ReadTask, segments: Segments, left_out: Callable[[int, int], object] = lambda partition, rows: None
) -> Iterator[pa.RecordBatch]:
    """What the task shows, with the schema of its columns. `left_out` is told of records that keys left behind when
    their topic grew. Raises NotFound, Corrupt."""
    columns = _columns(task)

    def open_segment(ref: SegmentRef, fetch_bytes: int) -> SegmentReader:
        return segments.reader(ref, fetch_bytes, columns=columns)

    if task.view == "latest":
        found = _latest(task, open_segment)
        if task.places is not None:
            found = stayed_batches(found, task.places, task.partition, left_out)
    elif task.ordered:
        found = in_offset_order(task.runs, task.l0, open_segment, task.bounds)
    else:
        found = _as_stored(task, open_segment)
    return _projected(found, task.columns)


def _columns(task: ReadTask) -> Columns:
    """What decides, beside what is asked for."""
    names = frozenset(task.columns)
    if task.view == "latest":
        return Columns(names | {"key", "offset"}, tombstones=not task.tombstones)
    return Columns(names | {"offset"} if task.ordered else names, tombstones=False)


def _latest(task: ReadTask, open_segment: OpenSegment) -> Iterator[pa.RecordBatch]:
    found = latest_by_key(task.runs, task.l0, open_segment, task.read_bounds, tombstones=task.tombstones)
    end = task.bounds.to_offset
    for batch in found:
        yield batch if end is None else batch.filter(from_flags(longs(batch.column("offset")) < end))


def _as_stored(task: ReadTask, open_segment: OpenSegment) -> Iterator[pa.RecordBatch]:
    return map(records, ReadAhead().lane(task.segments, open_segment, task.bounds, FETCH_BYTES_MAX).batches())


def _projected(batches: Iterable[pa.RecordBatch], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    everything = columns == tuple(RECORDS.names)
    for batch in batches:
        if batch.num_rows:
            yield batch if everything else batch.select(columns)
