"""Split a reading task into disjoint ones of about equal bytes (docs/rfcs/0021). Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.jobs import KeyRange
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.segment.footer import RowGroup
from lithify.segment.ranges import Weight, split_ranges
from lithify.segment.read_task import ReadTask

__all__ = ["TARGET_BYTES", "Part", "Parts", "large", "narrowed", "parts_of", "planned", "whole_task"]

TARGET_BYTES = 128 << 20  # of Parquet in one task, as Spark's own maxPartitionBytes
LARGE_SHARE = 4  # a segment above this part of a task is large: where its bytes lie is read from its footer
AGAIN_SHARE = 1.0  # of the stored bytes: so much is read again because several tasks need it,
FREE_TASKS = 4  # but so many tasks there may be in any case


class Part(msgspec.Struct, frozen=True):
    """What is known of a part of a segment: a row group, or all of it. Has the fields of `Bounded`."""

    min_key: bytes | None
    max_key: bytes | None
    min_offset: int
    max_offset: int
    bytes: int
    rows: int


Parts = Mapping[str, Sequence[Part]]
"""The parts of segments, by id. Others are one part."""


def large(refs: Iterable[SegmentRef], target_bytes: int) -> list[SegmentRef]:
    """The segments whose parts should be known: at most four for each task."""
    return [ref for ref in refs if ref.bytes * LARGE_SHARE > target_bytes]


def parts_of(ref: SegmentRef, groups: Sequence[RowGroup]) -> tuple[Part, ...]:
    """The row groups of a segment. Where the footer knows nothing of keys, those of the reference count."""
    return tuple(
        Part(
            group.min_key if group.bounded else ref.min_key,
            group.max_key if group.bounded else ref.max_key,
            group.min_offset,
            group.max_offset,
            group.stored_bytes,
            group.rows,
        )
        for group in groups
    )


def planned(whole: ReadTask, parts: Parts, target_bytes: int) -> tuple[ReadTask, ...]:
    """Disjoint tasks that together read what `whole` does, each of about `target_bytes`; none if there is nothing to
    read. In key order; of a log in such an order that the records of each key come as their offsets do.

    SUBTLE! 1. A small append, then one larger than a task. 2. The tasks of what is split by keys came first. 3. Who
    wrote the log to another topic, task after task, gave the older values the larger offsets. Test:
    tests/log/test_plans.py
    """
    if whole.view == "latest":
        return tuple(_by_key(whole, parts, target_bytes))
    tasks: list[ReadTask] = []
    for scattered, ids in _stages(whole, target_bytes):
        stage = _of_segments(whole, lambda ref, ids=ids: ref.id in ids)
        if scattered:
            tasks += _by_key(stage, parts, target_bytes)
        else:
            in_order = {ref.id: parts[ref.id] for ref in stage.segments if ref.order == "offset" and ref.id in parts}
            tasks += _by_offset(stage, in_order, target_bytes)
    return tuple(tasks)


def _stages(task: ReadTask, target_bytes: int) -> Iterator[tuple[bool, set[str]]]:
    """Segments of a log that are read one group after the other, each with offsets above those of the group before, and
    whether offsets lie anywhere in them: then to read a range of offsets is to read all, and they are split by keys.
    Appends in key order that fit into a task are taken whole."""
    units = [(run.segments, any(ref.order == "key" for ref in run.segments)) for run in task.runs]
    units += [((ref,), ref.order == "key" and ref.bytes > target_bytes) for ref in task.l0]
    units.sort(key=lambda unit: min(ref.min_offset for ref in unit[0]))
    stage: set[str] = set()
    of_stage, end = False, -1
    for segments, scattered in units:
        overlaps = min(ref.min_offset for ref in segments) <= end
        if stage and scattered != of_stage and not overlaps:
            yield of_stage, stage
            stage, of_stage = set(), scattered
        of_stage = of_stage or scattered
        stage |= {ref.id for ref in segments}
        end = max(end, *(ref.max_offset for ref in segments))
    if stage:
        yield of_stage, stage


def _of_segments(task: ReadTask, taken: Callable[[SegmentRef], bool]) -> ReadTask:
    runs = (replace(run, segments=tuple(ref for ref in run.segments if taken(ref))) for run in task.runs)
    return replace(
        task, runs=tuple(run for run in runs if run.segments), l0=tuple(ref for ref in task.l0 if taken(ref))
    )


def narrowed(task: ReadTask, bounds: Bounds) -> ReadTask:
    """The task within `bounds`, which lie within its own: only with the segments that may hold something there."""
    narrow = replace(task, bounds=bounds)
    wanted = _shown(narrow)
    runs = (replace(run, segments=tuple(_held(run.segments, wanted))) for run in task.runs)
    l0 = tuple(ref for ref in task.l0 if may_hold(ref, wanted))
    return replace(narrow, runs=tuple(run for run in runs if run.segments), l0=l0)


def _held(segments: Sequence[SegmentRef], wanted: Bounds) -> Iterator[SegmentRef]:
    """Those of a run that may hold some of it. In key order records without a key come first: after a segment with keys
    there are none."""
    keyed = _keyed(wanted)
    led = False
    for ref in segments:
        if may_hold(ref, keyed if led else wanted):
            yield ref
        led = led or (ref.order == "key" and (ref.min_key is not None or ref.max_key is not None))


def _keyed(bounds: Bounds) -> Bounds:
    """Without records that have no key."""
    return replace(bounds, low=bounds.low or b"")


def _shown(task: ReadTask) -> Bounds:
    """What of a segment can be shown, or supersede it: `latest` has no records without a key."""
    return _keyed(task.read_bounds) if task.view == "latest" else task.read_bounds


def _by_key(task: ReadTask, parts: Parts, target_bytes: int) -> Iterator[ReadTask]:
    wanted = _shown(task)
    known = [part for ref in task.segments for part in _parts(ref, parts) if may_hold(part, wanted)]
    weights = [Weight(part.min_key, part.max_key, part.bytes) for part in known]
    if sum(weight.weight_bytes for weight in weights) <= target_bytes:
        ranges: tuple[KeyRange, ...] = (KeyRange(),)
    else:
        ranges = split_ranges(weights, target_bytes, twice_share=AGAIN_SHARE, free=FREE_TASKS)
    for low, high in _within(ranges, task.bounds):
        yield from _weighed(narrowed(task, replace(task.bounds, low=low, high=high)), parts)


def _within(ranges: Iterable[KeyRange], bounds: Bounds) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The parts of the ranges that lie within the bounds."""
    for each in ranges:
        low = each.low if bounds.low is None else max(each.low or b"", bounds.low)
        highs = [high for high in (each.high, bounds.high) if high is not None]
        high = min(highs, default=None)
        if low is None or high is None or low < high:
            yield low, high


def _by_offset(task: ReadTask, parts: Parts, target_bytes: int) -> Iterator[ReadTask]:
    wanted = task.bounds
    known = [part for ref in task.segments for part in _parts(ref, parts) if may_hold(part, wanted)]
    first, end = wanted.from_offset, wanted.to_offset
    for cut in _offset_cuts(known, target_bytes):
        if (first is None or cut > first) and (end is None or cut < end):
            yield from _weighed(narrowed(task, replace(wanted, from_offset=first, to_offset=cut)), parts)
            first = cut
    yield from _weighed(narrowed(task, replace(wanted, from_offset=first)), parts)


def _offset_cuts(parts: Iterable[Part], target_bytes: int) -> Iterator[int]:
    """Where parts begin, so that between two cuts there is about the same."""
    parts = sorted(parts, key=lambda part: part.min_offset)
    total = sum(part.bytes for part in parts)
    count = -(-total // max(1, target_bytes))
    done = shares = 0
    for part in parts:
        if done * count >= total * (shares + 1):
            yield part.min_offset
            shares = done * count // total
        done += part.bytes


def _weighed(task: ReadTask, parts: Parts) -> Iterator[ReadTask]:
    """The task with what it is expected to read; nothing if there is nothing to read."""
    wanted, keyed = _shown(task), _keyed(task.read_bounds)
    read = [part for ref in task.segments for part in _parts(ref, parts) if may_hold(part, wanted)]
    if read:
        likely = [part for part in read if task.bounds.high is None or may_hold(part, keyed)] or read
        yield replace(task, rows=sum(part.rows for part in likely), bytes=sum(part.bytes for part in likely))


def _parts(ref: SegmentRef, parts: Parts) -> Sequence[Part]:
    found = parts.get(ref.id)
    return found if found is not None else (_whole(ref),)


def _whole(ref: SegmentRef) -> Part:
    return Part(ref.min_key, ref.max_key, ref.min_offset, ref.max_offset, ref.bytes, ref.rows)


def whole_task(task: ReadTask, runs: Sequence[SortedRun], l0: Sequence[SegmentRef]) -> ReadTask:
    """`task` over what these may hold of it."""
    return narrowed(replace(task, runs=tuple(runs), l0=tuple(l0)), task.bounds)
