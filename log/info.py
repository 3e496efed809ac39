"""What `describe` reports about a topic and its partitions."""

from typing import NamedTuple

import msgspec

from lithify.log.consumer_info import ConsumerInfo, consumer_infos
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import Debt, Work, assess
from lithify.manifest.jobs import CompactorState
from lithify.manifest.latest_failure import failing_text
from lithify.manifest.model import Key, Manifest, SegmentRef, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.retention import logical_size, stalled_by_future
from lithify.store.apart import Ending, Fault, ending_of
from lithify.store.errors import Corrupt, InvalidRequest
from lithify.store.in_step import both
from lithify.store.short_repr import short_repr

__all__ = [
    "Looked",
    "PartitionFailure",
    "PartitionInfo",
    "RunInfo",
    "SegmentInfo",
    "TopicInfo",
    "described",
    "look",
    "topic_info",
]


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True, rename={"home": "store"}, gc=False):
    """A live segment. Its key bounds are exact up to 32 bytes, rounded outward beyond; None: unbounded, or no keys."""

    id: str
    home: str  # where its bytes are; "" is the warehouse itself. In JSON `store`
    bytes: int  # of the Parquet object
    rows: int
    min_key: Key | None
    max_key: Key | None
    min_offset: int
    max_offset: int  # inclusive
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int
    order: str  # "key" or "offset"
    added_at: int  # manifest number


class RunInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    segments: tuple[SegmentInfo, ...]

    __repr__ = short_repr


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    manifest_id: int
    compactor_epoch: int
    log_start_offset: int
    next_offset: int
    cleaned_to: int  # all offsets below were merged with each other
    last_compacted_at: int | None  # milliseconds since 1970
    due: str | None  # why a compaction is due; None: it is not
    due_kind: Work | None  # of the work that is due
    quarantine: str | None  # why compaction is stopped until a person has looked (R6); None: it is not
    quarantined_segment: str | None  # the one that is damaged or missing
    l0: tuple[SegmentInfo, ...]
    runs: tuple[RunInfo, ...]
    bytes: int  # of all live segments
    rows: int
    logical_bytes: int  # of those, what readers see: at or above log_start_offset
    logical_rows: int
    dirty_bytes: int  # uncleaned and past min.compaction.lag.ms
    dirty_ratio: float
    oldest_dirty_ms: int | None  # timestamp of the oldest record not yet cleaned
    # Why retention by time is stalled; None: it is not. Checkpoints never stall it. The name is public, so it stays.
    retention_pinned: str | None
    consumers: tuple[ConsumerInfo, ...]  # by name
    uploads: int = 0  # that stand (docs/rfcs/0019)
    failing: str | None = None  # the job in progress whose latest attempt failed, and why; None: there is none

    __repr__ = short_repr


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str  # new at each creation
    version: int  # of the configuration
    created_at_ms: int
    config: dict[str, str]  # what was set; the rest have their defaults
    partitions: tuple[PartitionInfo, ...]
    failures: "tuple[PartitionFailure, ...]" = ()  # partitions that cannot be read, and so are not in `partitions`

    @property
    def ending(self) -> Ending:
        return ending_of(failed.fault for failed in self.failures)

    __repr__ = short_repr


class PartitionFailure(msgspec.Struct, frozen=True):
    partition: int
    fault: Fault


def segment_info(ref: SegmentRef) -> SegmentInfo:
    return SegmentInfo(
        id=ref.id,
        home=ref.home,
        bytes=ref.bytes,
        rows=ref.rows,
        min_key=ref.min_key,
        max_key=ref.max_key,
        min_offset=ref.min_offset,
        max_offset=ref.max_offset,
        min_timestamp_ms=ref.min_timestamp_ms,
        max_timestamp_ms=ref.max_timestamp_ms,
        tombstones=ref.tombstones,
        order=ref.order,
        added_at=ref.added_at,
    )


class Looked(NamedTuple):
    """What describing a partition goes by."""

    head: Manifest
    state: CompactorState | None
    damaged: Fault | None  # why the jobs are not known


async def look(files: PartitionFiles) -> Looked:
    """Raises NotFound if the topic was deleted."""
    head, (state, damaged) = await both(files.live_head(), _state(files))
    return Looked(head, state, damaged)


async def _state(files: PartitionFiles) -> tuple[CompactorState | None, Fault | None]:
    try:
        return await files.compactor_state(), None
    except (Corrupt, InvalidRequest) as error:
        return None, Fault.of(error)


def described(looked: Looked, manifest: Manifest, config: TopicConfig, now_ms: int) -> PartitionInfo:
    """`manifest`: the head that was looked at, with the bounds in force."""
    return _info(Reading.of(manifest, looked.state, config, now_ms), looked.damaged)


def _info(reading: Reading, damaged: Fault | None) -> PartitionInfo:
    """`damaged`: why the jobs in `reading` are not known; then it is not known what is due either."""
    manifest, now_ms = reading.manifest, reading.now_ms
    debt = assess(reading)
    floor = debt.log_start_offset
    segments = manifest.segments()
    logical_rows, logical_bytes = logical_size(manifest, floor)
    return PartitionInfo(
        topic=manifest.topic,
        partition=manifest.partition,
        manifest_id=manifest.id,
        compactor_epoch=manifest.compactor_epoch,
        log_start_offset=floor,
        next_offset=manifest.next_offset,
        cleaned_to=manifest.cleaned_to,
        last_compacted_at=manifest.last_compacted_at_ms,
        due=_due(debt, damaged),
        due_kind=None if damaged is not None or debt.due is None else debt.due.kind,
        quarantine=None if manifest.quarantine is None else manifest.quarantine.reason,
        quarantined_segment=None if manifest.quarantine is None else manifest.quarantine.segment,
        l0=tuple(map(segment_info, manifest.l0)),
        runs=tuple(RunInfo(id=run.id, segments=tuple(map(segment_info, run.segments))) for run in manifest.runs),
        bytes=sum(ref.bytes for ref in segments),
        rows=sum(ref.rows for ref in segments),
        logical_bytes=logical_bytes,
        logical_rows=logical_rows,
        dirty_bytes=debt.dirty_bytes,
        dirty_ratio=debt.dirty_ratio,
        oldest_dirty_ms=debt.oldest_dirty_ms,
        retention_pinned=stalled_by_future(manifest, floor, now_ms),
        consumers=consumer_infos(manifest, floor),
        uploads=len(manifest.uploads),
        failing=failing_text(reading.state),
    )


def _due(debt: Debt, damaged: Fault | None) -> str | None:
    if damaged is not None:
        return f"unknown, as the jobs cannot be read: {damaged.text}"
    return None if debt.due is None else f"{debt.due.kind}: {debt.due.reason}"


def topic_info(
    topic: TopicFile, partitions: tuple[PartitionInfo, ...], failures: tuple[PartitionFailure, ...]
) -> TopicInfo:
    return TopicInfo(
        topic=topic.topic,
        topic_id=topic.topic_id,
        version=topic.id,
        created_at_ms=topic.created_at_ms,
        config=dict(topic.config),
        partitions=partitions,
        failures=failures,
    )
