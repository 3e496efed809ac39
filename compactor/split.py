"""The key ranges of a job: about one output each, cut where the bytes of its sources lie."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lithify.compactor.damage import first_damaged
from lithify.compactor.engine import SplitRanges, WeighSegment
from lithify.compactor.estimate import target_bytes
from lithify.compactor.job_edits import ShowPlanning
from lithify.compactor.look import ShowLife
from lithify.compactor.plan import offset_ranges
from lithify.compactor.progress import HEARTBEAT_MS
from lithify.compactor.wishes import heed
from lithify.manifest.ages import young
from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import in_warehouse, refuse_unreachable
from lithify.manifest.jobs import Job, KeyRange
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.units import Unit, segments_of
from lithify.store.errors import Corrupt, NotFound, Unavailable
from lithify.store.port import Now

if TYPE_CHECKING:
    from lithify.segment.ranges import Weight

__all__ = ["Damaged", "ranges_without_weights", "split"]

AHEAD_MAX = 16  # footers of a far store that are under way


class Damaged(Exception):
    def __init__(self, segment: SegmentRef, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


async def split(
    files: PartitionFiles, epoch: int, chosen: Sequence[Unit], config: TopicConfig, request: Job | None
) -> tuple[KeyRange, ...]:
    """The key ranges for a job over `chosen`, as the owner of `epoch` plans it. Raises Damaged if a source is not
    whole, Interrupted if it should stop, or if the `request` that it serves was cancelled."""
    segments = segments_of(chosen)
    refuse_unreachable(files.keys, segments, files.homes)
    target = target_bytes(config, sum(unit.bytes for unit in chosen))
    known = ranges_without_weights(chosen, config)
    if known is not None:
        return known

    async def go_on() -> None:
        await _show_planning(files, epoch)
        await heed(files, None if request is None else request.id)

    # A run of a terabyte has thousands of segments, and each is opened: that takes longer than a lease.
    weights: list[Weight] = []
    for at, segment in enumerate(segments, 1):
        await go_on()
        weights += await _weigh(files.keys, segment, segments[at : at + AHEAD_MAX], go_on)
    return await SplitRanges(tuple(weights), target)


def ranges_without_weights(chosen: Sequence[Unit], config: TopicConfig) -> tuple[KeyRange, ...] | None:
    """The ranges of a job over `chosen`, if references alone decide them. None: the footers of its sources do."""
    total_bytes = sum(unit.bytes for unit in chosen)
    target = target_bytes(config, total_bytes)
    if not config.compacted:
        return offset_ranges(segments_of(chosen), target)
    return (KeyRange(),) if total_bytes <= target else None


async def _show_planning(files: PartitionFiles, epoch: int) -> None:
    """Show that the owner plans a job, if its latest sign of life is a heartbeat's interval old (P5)."""
    state = files.compactor.seen.value
    if state is None or not state.planning or not young(state.heartbeat_at_ms, await Now(), HEARTBEAT_MS):
        await files.compactor.commit(ShowPlanning(epoch))


async def _weigh(
    keys: PartitionKeys, segment: SegmentRef, ahead: tuple[SegmentRef, ...], show_life: ShowLife
) -> "tuple[Weight, ...]":
    """How the bytes of a segment are spread; `ahead` come next. Raises Damaged if it is not whole (R6). A segment that
    is whole, but is read damaged once more, gets no weight: the ranges become less even, and attempts that meet the
    same are counted (P14)."""
    try:
        return await WeighSegment(keys, segment, ahead)
    except Unavailable:
        # SUBTLE! A job must begin all the same. 1. A clean is due, and one of its sources is in a home that is away. 2.
        # Its planning fails, which nobody counts, so it is planned again each time. 3. No tier is ever planned, L0
        # fills up, and appends stop. A job that fails is counted, and waits. Test: tests/e2e/test_unmounted_home.py
        if in_warehouse(segment):
            raise
        return ()
    except (Corrupt, NotFound) as error:
        if await first_damaged(keys, (segment,), show_life) is not None:
            raise Damaged(segment, str(error)) from error
    await show_life()
    try:
        return await WeighSegment(keys, segment)
    except (Corrupt, NotFound):
        return ()
