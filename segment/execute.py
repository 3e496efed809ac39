"""Execute one task of a job: read its range of the sources, merge, write the outputs (docs/rfcs/0004; P10, R5); or
copy a segment (docs/rfcs/0031)."""

import resource
import sys
import threading
from collections.abc import Callable

from lithify.manifest.jobs import MergeCounts
from lithify.segment.ahead import ReadAhead
from lithify.segment.extent import Order
from lithify.segment.merge import Tally, merge
from lithify.segment.move import move
from lithify.segment.outputs import Outputs
from lithify.segment.rules import Fate
from lithify.segment.segments import Segments
from lithify.segment.source import Source, in_order
from lithify.segment.task import JobTask, MergeTask, TaskResult
from lithify.store.homes import Homes
from lithify.store.metered import Metered

__all__ = ["TaskCancelled", "execute"]

_CANCELLED_LOOK_S = 0.05  # how often a task that waits to write asks whether it was cancelled


class TaskCancelled(Exception):
    """The task stopped because it was told to. Its open output was discarded; finished outputs are orphans."""


def execute(
    task: JobTask,
    homes: Homes,
    cancelled: Callable[[], bool] | None = None,
    may_write: threading.Event | None = None,
) -> TaskResult:
    """Merge the task's range, or move its segment. Returns the segments written, after opening each once (an output
    that cannot be read must not replace sources that can).

    `cancelled` is called at every block, and while sources are waited for. Nothing is written before `may_write` is set
    (None: it may write at once); until then it reads, merges and waits. Deletes nothing in any case: outputs that
    are not recorded belong to the orphan sweep. Raises NotFound or Corrupt for a source, InvalidRequest for a source in
    none of `homes`, TaskCancelled, and whatever a store raises.
    """

    def check() -> None:
        if cancelled is not None and cancelled():
            raise TaskCancelled(f"job {task.job}, range {task.range_index}")

    def check_write() -> None:
        check()
        while may_write is not None and not may_write.wait(_CANCELLED_LOOK_S):
            check()

    if isinstance(task, MergeTask):
        return _merged(task, homes, check, check_write)
    check_write()
    return move(task, homes, check)


def _merged(task: MergeTask, homes: Homes, check: Callable[[], None], check_write: Callable[[], None]) -> TaskResult:
    cpu_ms_before = _cpu_ms()
    metered = homes.derived(lambda store: Metered(store.once()))
    segments = Segments(task.keys, metered)
    tally = Tally(task.rules.buckets)
    sources = _sources(task, segments, ReadAhead(check))
    with Outputs(task, segments) as outputs:
        for batch in merge([source.rows() for source in sources], task.rules, tally):
            check_write()
            outputs.write(batch)
            del batch  # otherwise it is kept while the next is made
        written = outputs.finish()
    asked = [store.requests() for _, store in metered]
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


def _cpu_ms() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1000)


def _peak_memory_bytes() -> int:
    """Of the whole process, since it started."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
