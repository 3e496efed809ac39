"""The outputs of a merge task (docs/rfcs/0004; P10, R5): cut, written, and opened once before they count."""

from contextlib import suppress
from functools import partial
from types import TracebackType

import pyarrow as pa

from lithify.manifest.keys import SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.extent import Order, pieces
from lithify.segment.order import Position, position, rows_through
from lithify.segment.segments import Segments
from lithify.segment.task import MergeTask
from lithify.segment.write import ROW_GROUP_BYTES_MAX, SegmentWriter
from lithify.store.driver import new_id
from lithify.store.fetching import soon

__all__ = ["Outputs"]

_ROW_GROUP_BYTES_MIN = 64 << 10
_STEPS = 16  # an output is written in at least so many steps, and its size checked after each
_STEP_BYTES_MIN = 4096
_OFFSET_MAX = (1 << 63) - 1
_BESIDE_BYTES = 6 << 20  # of an output are written while the one before is completed; then that is waited for


class Outputs:
    """The segments of one task, cut at the target size and between keys. Leaving early discards the open one.

    In a far store an output is completed and opened beside the merge, while the next is begun: at most one, so that no
    more is held of both than of one that is being streamed.
    """

    def __init__(self, task: MergeTask, segments: Segments) -> None:
        self._task = task
        self._segments = segments
        self._order: Order = task.rules.order
        self._writer: SegmentWriter | None = None
        self._last: Position | None = None
        self._written: list[SegmentRef] = []
        self._ending: _Ending | None = None

    def __enter__(self) -> "Outputs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """SUBTLE! Whoever stops a task relies on it that nothing is written any more: an upload that is completed
        beside the merge is waited for. Test: tests/segment/test_outputs.py"""
        try:
            if self._writer is not None:
                self._writer.abort()
        finally:
            if self._ending is not None:
                with suppress(Exception):  # there is an error already
                    self._ending.settle()

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
        if self._ending is not None and self._writer.estimated_bytes >= _BESIDE_BYTES:
            self._settle()
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
        self._settle()
        ref = self._writer.finish()
        self._ending = _Ending(self._writer, ref, self._segments)
        self._writer = None
        if not self._segments.homes.here.far:
            self._settle()

    def _settle(self) -> None:
        ending, self._ending = self._ending, None
        if ending is not None:
            self._written.append(ending.settle())

    def finish(self) -> tuple[SegmentRef, ...]:
        if self._writer is not None:
            self._close()
        self._settle()
        return tuple(self._written)


class _Ending:
    """An output whose last bytes are on their way."""

    def __init__(self, writer: SegmentWriter, ref: SegmentRef, segments: Segments) -> None:
        self._ref = ref
        self._writer = writer
        self._ended = soon(partial(_end, writer, ref, segments), far=segments.homes.here.far)

    def settle(self) -> SegmentRef:
        """Wait until it is there, and opened once."""
        self._ended()
        return self._ref


def _end(writer: SegmentWriter, ref: SegmentRef, segments: Segments) -> None:
    try:
        writer.publish()
    except BaseException:
        writer.abort()
        raise
    segments.verify_quick(ref)
