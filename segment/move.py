"""Copy one segment to another home (docs/rfcs/0031; P10, P21)."""

import resource
from collections.abc import Callable

from msgspec.structs import replace

from lithify.manifest.homes import told, where
from lithify.manifest.jobs import MergeCounts
from lithify.manifest.keys import SegmentId
from lithify.manifest.move_price import copying
from lithify.segment.segments import Segments
from lithify.segment.task import MoveTask, TaskResult
from lithify.store.copying import copy
from lithify.store.driver import new_id
from lithify.store.errors import Corrupt, NotFound
from lithify.store.homes import Homes

__all__ = ["move"]


def move(task: MoveTask, homes: Homes, check: Callable[[], None]) -> TaskResult:
    """The copy under its new name, which is opened once: it must not replace the segment if it cannot be read.

    `check` raises if the task was told to stop. Raises Corrupt or NotFound for the segment, and whatever a store
    raises. Deletes nothing: a copy that is not recorded belongs to the sweep.
    """
    check()
    segment = task.segment
    copied = replace(
        segment,
        id=SegmentId.for_output(task.job, task.attempt, task.range_index, new_id()),
        home=task.home,
        added_at=0,
        moved_ms=0,  # as added_at, the commit sets it
    )
    source, segments = where(task.keys, segment), Segments(task.keys, homes)
    segments.refuse_unreachable([segment, copied])
    try:
        by_the_store = copy(
            homes,
            source,
            where(task.keys, copied),
            size=segment.bytes,
            checksum=segment.checksum,
        )
    except (Corrupt, NotFound) as error:
        if error.key == source.key:
            error.segment = segment.id
        raise
    check()
    try:
        segments.verify_quick(copied)
    except Corrupt as error:
        raise Corrupt(f"the copy in {told(task.home)} cannot be read: {error}", error.key) from error
    made = copying(segment.bytes, by_the_store=by_the_store)
    counts = MergeCounts(
        rows_in=segment.rows,
        rows_out=segment.rows,
        bytes_read=segment.bytes,
        bytes_written=segment.bytes,
        gets=made.reads + made.looks,
        puts=made.writes,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return TaskResult(
        range_index=task.range_index,
        outputs=(copied,),
        counts=counts,
        peak_memory_bytes=peak,
    )
