"""One key range of a compaction, as data: a worker's input and its answer (docs/rfcs/0004). Pure.

Tasks cross process borders as JSON. They contain references, never rows or secrets.
"""

import msgspec

from lithify.manifest.bounds import Bounds
from lithify.manifest.categories import Category
from lithify.manifest.jobs import MergeCounts, MergeRules
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef

__all__ = ["JobTask", "MergeTask", "MoveTask", "TaskFailure", "TaskResult"]


class MergeTask(msgspec.Struct, frozen=True, kw_only=True, tag="merge"):
    """Merge what `sources` hold within `bounds` into outputs named `<job>-<attempt>-<range_index>-<nonce>`.

    A source is a list of consecutive segments in `rules.order` (one L0 segment, or a sorted run).
    """

    keys: PartitionKeys
    job: str
    attempt: int
    range_index: int
    bounds: Bounds
    sources: tuple[tuple[SegmentRef, ...], ...]
    rules: MergeRules
    output_bytes: int  # cut outputs at about this many bytes of Parquet, and only between keys (R5)
    short: bool = False  # of a short job: it has a thread, or a Spark pool, beside those of long jobs (RFC 0014)

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        """The segments of all sources."""
        return tuple(ref for source in self.sources for ref in source)

    @property
    def large_rows(self) -> bool:
        """Whether a row may be larger than a usual row group."""
        return any(ref.max_row_bytes for ref in self.segments)


class MoveTask(msgspec.Struct, frozen=True, kw_only=True, tag="move"):
    """Copy `segment` to `home` under a new name, `<job>-<attempt>-<range_index>-<nonce>` (docs/rfcs/0031)."""

    keys: PartitionKeys
    job: str
    attempt: int
    range_index: int
    segment: SegmentRef
    home: str
    short: bool = False

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        return (self.segment,)

    @property
    def large_rows(self) -> bool:
        return False  # it decodes none


JobTask = MergeTask | MoveTask
"""What a job's range is: a worker merges it, or moves it."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, tag="merged"):
    """The result of one task. Outputs are in order; none if no record survived. Counts are of this task only."""

    range_index: int
    outputs: tuple[SegmentRef, ...]  # added_at 0: the commit sets it
    counts: MergeCounts
    lost: tuple[int, ...] = ()  # rows dropped from each of the rules' buckets; () for none
    kept_bytes: tuple[int, ...] = ()  # raw bytes of the records kept of each (SegmentRef.raw_bytes)
    lost_bytes: tuple[int, ...] = ()  # and of those dropped
    dropped_to: int = 0  # 1 + the highest offset of an expired tombstone that was dropped
    peak_memory_bytes: int = 0


class TaskFailure(msgspec.Struct, frozen=True, tag="failed"):
    """A task that failed. `category` decides what follows (as in JobError); `reason` never quotes records."""

    range_index: int
    category: Category
    reason: str
    segment: str = ""  # the id of the source that was corrupt or missing, if that was the failure
