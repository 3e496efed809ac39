"""Execute one merge task: read its range of the sources, merge, write the outputs (docs/rfcs/0004; P10, R5)."""

import resource
import sys
from collections.abc import Callable
from types import TracebackType

import pyarrow as pa

from lithify.manifest.jobs import MergeCounts
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.ahead import ReadAhead
from lithify.segment.extent import Order, pieces
from lithify.segment.merge import Tally, merge
from lithify.segment.order import Position, position, rows_through
from lithify.segment.rules import Fate
from lithify.segment.segments import Segments
from lithify.segment.source import Source, in_order
from lithify.segment.task import MergeTask, TaskResult
from lithify.segment.write import ROW_GROUP_BYTES_MAX, SegmentWriter
from lithify.store.driver import new_id
from lithify.store.homes import Homes
from lithify.store.metered import Metered

__all__ = ["TaskCancelled", "execute"]

_ROW_GROUP_BYTES_MIN = 64 << 10
_STEPS = 16  # an output is written in at least so many steps, and its size checked after each
_STEP_BYTES_MIN = 4096
_OFFSET_MAX = (1 << 63) - 1


class TaskCancelled(Exception):
    """The task stopped because it was told to. Its open output was discarded; finished outputs are orphans."""


def execute(task: MergeTask, homes: Homes, cancelled: Callable[[], bool] | None = None) -> TaskResult:
    """Merge the task's range. Returns the segments written to the warehouse's store, after opening each once (an output
    that cannot be read must not replace sources that can).

    `cancelled` is called at every block, and while sources are waited for. Deletes nothing in any case: outputs that
    are not recorded belong to the orphan sweep. Raises NotFound or Corrupt for a source, InvalidRequest for a source in
    none of `homes`, TaskCancelled, and whatever a store raises.
    """
    cpu_ms_before = _cpu_ms()
    metered = {home: Metered(store) for home, store in homes}
    segments = Segments(task.keys, Homes(metered))
    tally = Tally(task.rules.buckets)

    def check() -> None:
        if cancelled is not None and cancelled():
            raise TaskCancelled(f"job {task.job}, range {task.range_index}")

    sources = _sources(task, segments, ReadAhead(check))
    with _Outputs(task, segments) as outputs:
        for batch in merge([source.rows() for source in sources], task.rules, tally):
            check()
            outputs.write(batch)
            del batch  # otherwise it is kept while the next is made
        written = outputs.finish()
    asked = [each.requests() for each in metered.values()]
    counts = MergeCounts(
        rows_in=tally.rows_in,
        rows_out=tally.by_fate[Fate.KEPT],
        superseded=tally.by_fate[Fate.SUPERSEDED],
        expired_tombstones=tally.by_fate[Fate.EXPIRED],
        below_floor=tally.by_fate[Fate.BELOW_FLOOR],
        keyless=tally.by_fate[Fate.KEYLESS],
        bytes_read=sum(source.bytes_read for source in sources),
        bytes_written=sum(ref.bytes for ref in written),
        cpu_ms=_cpu_ms() - cpu_ms_before,
        gets=sum(each.gets + each.reads + each.heads for each in asked),
        puts=sum(each.puts + each.output_requests for each in asked),
    )
    return TaskResult(
        range_index=task.range_index,
        outputs=written,
        counts=counts,
        lost=tally.lost,
        kept_bytes=tally.kept_bytes,
        lost_bytes=tally.lost_bytes,
        dropped_to=tally.dropped_to,
        peak_memory_bytes=_peak_memory_bytes(),
    )


def _sources(task: MergeTask, segments: Segments, ahead: ReadAhead) -> list[Source]:
    order: Order = task.rules.order
    fan_in, sorts = len(task.sources), max(1, sum(not in_order(refs, order) for refs in task.sources))
    return [
        Source(refs, segments.reader, order, task.bounds, fan_in=fan_in, sorts=sorts, ahead=ahead)
        for refs in task.sources
    ]


class _Outputs:
    """The segments of one task, cut at the target size and between keys. Leaving early discards the open one."""

    def __init__(self, task: MergeTask, segments: Segments) -> None:
        self._task = task
        self._segments = segments
        self._order: Order = task.rules.order
        self._writer: SegmentWriter | None = None
        self._last: Position | None = None
        self._written: list[SegmentRef] = []

    def __enter__(self) -> "_Outputs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        for rows in pieces(batch, max(_STEP_BYTES_MIN, self._task.output_bytes // _STEPS)):
            self._step(rows)

    def _step(self, rows: pa.RecordBatch) -> None:
        if self._writer is not None and self._writer.estimated_bytes >= self._task.output_bytes:
            same = self._rows_of_last_key(rows)
            self._writer.write(rows.slice(0, same))
            rows = rows.slice(same)
            if rows.num_rows == 0:
                return
            self._close()
        if self._writer is None:
            self._writer = self._open()
        self._writer.write(rows)
        self._last = position(rows, rows.num_rows - 1, self._order)

    def _rows_of_last_key(self, rows: pa.RecordBatch) -> int:
        """How many of the next rows have the key written last (R5: all versions of a key are in one output)."""
        if self._order == "offset":
            return 0
        assert self._last is not None
        return rows_through(rows, (self._last[0], self._last[1], _OFFSET_MAX), "key")

    def _open(self) -> SegmentWriter:
        task = self._task
        segment_id = SegmentId.for_output(task.job, task.attempt, task.range_index, new_id())
        row_group_bytes = min(ROW_GROUP_BYTES_MAX, max(_ROW_GROUP_BYTES_MIN, task.output_bytes))
        output = self._segments.homes.here.output(task.keys.segment(segment_id))
        return SegmentWriter(output, segment_id, self._order, row_group_bytes=row_group_bytes)

    def _close(self) -> None:
        assert self._writer is not None
        ref = self._writer.close()
        self._writer = None
        self._segments.verify_quick(ref)
        self._written.append(ref)

    def finish(self) -> tuple[SegmentRef, ...]:
        if self._writer is not None:
            self._close()
        return tuple(self._written)


def _cpu_ms() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1000)


def _peak_memory_bytes() -> int:
    """Of the whole process, since it started."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
