"""Turns chosen sources into a frozen plan: the segments held, T, the rules, the key ranges (P8, P9, R4). Pure."""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

from lithify.manifest.ages import latest_cleanable_ms
from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.compactions import coverage_offset
from lithify.manifest.config import LONG_MAX, TopicConfig
from lithify.manifest.jobs import Job, KeyRange, Kind, MergeRules, Origin, Plan
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at
from lithify.manifest.units import Unit, unit_of, units
from lithify.segment.task import JobTask, MergeTask, MoveTask
from lithify.store.errors import InvalidRequest

__all__ = [
    "FAN_IN_BYTES_MAX",
    "Proposal",
    "choose_requested",
    "fan_in",
    "freeze",
    "in_key_order",
    "kind_of",
    "merge_bytes",
    "offset_ranges",
    "source_bytes",
    "sources_of",
    "tasks",
    "tasks_label",
    "to_sort",
]

SOURCE_BYTES_MAX = 25 * 1024 * 1024  # what a merge holds of one source: fetched, decoded and waiting (benchmarks/)
LARGE_ROW_TIMES = 6  # largest rows held besides: as written, as encoded (benchmarks/)
FAN_IN_MAX = 256  # sources of one task, each with a footer in memory
FAN_IN_BYTES_MAX = 300 * 1024 * 1024  # of all sources of one task; its worker stays under 512 MiB


class Proposal(NamedTuple):
    """What a job shall merge, before it is planned."""

    units: Sequence[Unit]  # as many as one merge can hold
    kind: Kind
    reason: str
    request: Job | None = None  # the one that this does; None: the scheduler proposes it

    @property
    def origin(self) -> Origin:
        return "scheduler" if self.request is None else "manual"


def choose_requested(manifest: Manifest, requested: Sequence[str], now_ms: int, config: TopicConfig) -> list[Unit]:
    """The units that a manual request names: all of them ("full"), or L0 and run ids. Raises InvalidRequest.

    A full request leaves out units with records younger than min.compaction.lag.ms, as any compaction does.
    """
    everything = units(manifest)
    latest_ms = latest_cleanable_ms(config, now_ms)
    if not requested:
        return [u for u in everything if not config.compacted or u.max_timestamp_ms <= latest_ms]
    known = {unit.id: unit for unit in everything}
    unknown = [name for name in requested if name not in known]
    where = f"{manifest.topic}/{manifest.partition}"
    if unknown:
        raise InvalidRequest(
            f"{where}: {unknown[0]} is not a live L0 segment or run; 'lithify manifest show' lists them"
        )
    chosen = [known[name] for name in dict.fromkeys(requested)]
    young = [u.id for u in chosen if config.compacted and u.max_timestamp_ms > latest_ms]
    if young and len(young) < len(chosen):
        raise InvalidRequest(
            f"{where}: {young[0]} holds records younger than min.compaction.lag.ms, and the other sources do not; "
            "leave it out, or wait"
        )
    return sorted(chosen, key=lambda unit: unit.min_offset)


def fan_in(chosen: Sequence[Unit]) -> Sequence[Unit]:
    """`chosen`, if one task can hold it all. Otherwise the neighbours to merge first: the cheapest ones after whose
    merge a task could hold the rest, or the most that it can hold.

    So neither the clean run nor the result of such a tier is written again and again. Two can always be merged.
    """
    holds = [source_bytes(unit) for unit in chosen]
    held_bytes, largest_row = sum(holds), _largest_row(chosen)
    excess_bytes = held_bytes + LARGE_ROW_TIMES * largest_row - FAN_IN_BYTES_MAX
    excess = len(chosen) - FAN_IN_MAX
    if len(chosen) <= 2 or (excess_bytes <= 0 and excess <= 0):
        return chosen
    most_bytes = held_bytes - excess_bytes
    made_bytes = max(SOURCE_BYTES_MAX, largest_row)
    best: tuple[bool, int, int, slice] | None = None
    start = held = size = 0
    for end, unit in enumerate(chosen, 1):
        held, size = held + holds[end - 1], size + unit.bytes
        while True:
            first, count = holds[start], end - start
            too_many = count > 2 and (held > most_bytes or count > FAN_IN_MAX)
            if not too_many and (held - first < excess_bytes + made_bytes or count - 1 <= excess):
                break
            held, size, start = held - first, size - chosen[start].bytes, start + 1
        short = held < excess_bytes + made_bytes or count <= excess
        found = (short, -count if short else size, size, slice(start, end))
        if best is None or found[:3] < best[:3]:
            best = found
    assert best is not None
    return chosen[best[3]]


def to_sort(chosen: Sequence[Unit], target_bytes: int) -> Sequence[Unit]:
    """The first neighbours of `chosen` that lie in offset order (cleanup.policy was changed to compact): as much as one
    output holds; of a run its first segments.

    They are sorted first, because their statistics give no key ranges: a merge would sort all of them again in each
    range. Empty if one range takes all.
    """
    if sum(unit.bytes for unit in chosen) <= target_bytes:
        return ()
    held: list[Unit] = []
    room = target_bytes
    for unit in itertools.dropwhile(in_key_order, chosen):
        taken = _first_segments(unit, room) or unit.segments[: 0 if held else 1]
        if in_key_order(unit) or not taken or len(held) == FAN_IN_MAX:
            break
        part = unit_of(unit.id, unit.is_run, taken)
        if held and merge_bytes([*held, part]) > FAN_IN_BYTES_MAX:
            break
        held.append(part)
        room -= part.bytes
        if len(taken) < len(unit.segments):
            break
    return held


def in_key_order(unit: Unit) -> bool:
    return all(segment.order == "key" for segment in unit.segments)


def _first_segments(unit: Unit, most_bytes: int) -> tuple[SegmentRef, ...]:
    """The longest prefix with at most `most_bytes` in total."""
    ends = itertools.accumulate(segment.bytes for segment in unit.segments)
    return unit.segments[: sum(end <= most_bytes for end in ends)]


def merge_bytes(chosen: Sequence[Unit]) -> int:
    """An upper bound of what a merge of `chosen` holds of them in memory."""
    return sum(map(source_bytes, chosen)) + LARGE_ROW_TIMES * _largest_row(chosen)


def source_bytes(unit: Unit) -> int:
    """An upper bound of what a merge holds of `unit` in memory."""
    return max(min(SOURCE_BYTES_MAX, 2 * unit.raw_bytes_max), unit.max_row_bytes)


def _largest_row(chosen: Sequence[Unit]) -> int:
    return max((unit.max_row_bytes for unit in chosen), default=0)


def kind_of(reading: Reading, chosen: Sequence[Unit]) -> Kind:
    """The kind of a requested compaction: a clean if it reaches down to the oldest offset, else a tier. With records
    younger than min.compaction.lag.ms it is a tier too: it may drop nothing, so nothing is clean after it."""
    manifest, _, config, now_ms = reading
    oldest = units(manifest)[0].id
    reaches_down = any(unit.id == oldest for unit in chosen)
    return "clean" if config.compacted and reaches_down and _old_enough(config, chosen, now_ms) else "tier"


def _old_enough(config: TopicConfig, chosen: Sequence[Unit], now_ms: int) -> bool:
    return all(unit.max_timestamp_ms <= latest_cleanable_ms(config, now_ms) for unit in chosen)


def freeze(reading: Reading, proposal: Proposal, ranges: tuple[KeyRange, ...], job_id: str) -> Job:
    """The job that does `proposal`, ready to be admitted. A resume recomputes none of it."""
    manifest, _, config, now_ms = reading
    chosen = proposal.units
    held = tuple(segment.id for unit in chosen for segment in unit.segments)
    covered = coverage_offset(manifest, frozenset(held))
    old_enough = _old_enough(config, chosen, now_ms)
    clean = proposal.kind == "clean" and config.compacted and old_enough
    order: Literal["key", "offset"] = "key" if config.compacted else "offset"
    rules = MergeRules(
        order=order,
        drop_superseded=config.compacted and old_enough,
        drop_keyless=config.compacted and old_enough,
        floor=floor_at(manifest, now_ms),
        clock_ms=now_ms,
        coverage_offset=covered,
        stamp_horizon_ms=_horizon_ms(config, now_ms) if clean else None,
        buckets=tuple(bucket.start for bucket in manifest.time_index),
    )
    plan = Plan(
        ranges=ranges,
        rules=rules,
        output_bytes=config.output_bytes,
        input_bytes=sum(u.bytes for u in chosen),
        input_rows=sum(u.rows for u in chosen),
        input_segments=len(held),
    )
    return Job(
        id=job_id,
        kind="clean" if clean else "tier",  # named after what it does
        status="in_progress",
        origin=proposal.origin,
        sources=tuple(unit.id for unit in chosen),
        segments=held,
        destination=job_id,
        plan=plan,
        reason=proposal.reason,
        created_at_ms=now_ms,
    )


def _horizon_ms(config: TopicConfig, now_ms: int) -> int:
    """An int64 below the largest, which stands for none: delete.retention.ms may be as large as a long."""
    return min(now_ms + config.delete_retention_ms, LONG_MAX - 1)


def offset_ranges(segments: Sequence[SegmentRef], target_bytes: int) -> tuple[KeyRange, ...]:
    """Ranges of about `target_bytes` for an offset-ordered job, cut where no segment crosses."""
    cuts: list[int] = []
    held = reach = 0
    for segment in sorted(segments, key=lambda s: s.min_offset):
        if held >= target_bytes and segment.min_offset >= reach:
            cuts.append(segment.min_offset)
            held = 0
        held += segment.bytes
        reach = max(reach, segment.max_offset + 1)
    lows: list[int | None] = [None, *cuts]
    highs: list[int | None] = [*cuts, None]
    return tuple(KeyRange(low_offset=low, high_offset=high) for low, high in zip(lows, highs, strict=True))


def sources_of(manifest: Manifest, job: Job) -> list[SegmentRef]:
    """The segments that `job` holds, as far as they are live."""
    held = set(job.segments)
    return [segment for segment in manifest.segments() if segment.id in held]


def tasks(manifest: Manifest, job: Job, attempt: int, indexes: Sequence[int]) -> tuple[JobTask, ...]:
    """The tasks of `job`'s ranges `indexes`. Requires: the job's sources are live in `manifest`."""
    assert job.plan is not None
    if job.relocates:
        return _moves(manifest, job, attempt, indexes)
    held = set(job.segments)
    sources = [tuple(segment for segment in run.segments if segment.id in held) for run in manifest.runs]
    sources += [(segment,) for segment in manifest.l0 if segment.id in held]
    return tuple(
        MergeTask(
            keys=PartitionKeys(manifest.topic, manifest.topic_id, manifest.partition),
            job=job.id,
            attempt=attempt,
            range_index=index,
            bounds=job.plan.ranges[index].bounds,
            sources=_within(sources, job.plan.ranges[index].bounds),
            rules=job.plan.rules,
            output_bytes=job.plan.output_bytes,
        )
        for index in indexes
    )


def tasks_label(partition: str, job: Job) -> str:
    """What people see of the tasks in an engine's own UI."""
    return f"lithify {partition} {job.kind} {job.id}"


def _moves(manifest: Manifest, job: Job, attempt: int, indexes: Sequence[int]) -> tuple[MoveTask, ...]:
    live = {segment.id: segment for segment in manifest.segments()}
    keys = PartitionKeys(manifest.topic, manifest.topic_id, manifest.partition)
    return tuple(
        MoveTask(
            keys=keys,
            job=job.id,
            attempt=attempt,
            range_index=index,
            segment=live[job.segments[index]],
            home=job.home,
        )
        for index in indexes
    )


def _within(sources: Sequence[tuple[SegmentRef, ...]], wanted: Bounds) -> tuple[tuple[SegmentRef, ...], ...]:
    """The sources, without the segments that certainly hold nothing of `wanted`."""
    kept = (tuple(segment for segment in source if may_hold(segment, wanted)) for source in sources)
    return tuple(source for source in kept if source)
