"""One key range of a compaction, as data: what a worker is given and what it answers (docs/rfcs/0004).

A task crosses process borders as JSON. It holds references, never rows and never secrets.
"""

from typing import Literal

import msgspec

from lithify.manifest.model import SegmentRef

__all__ = ["MergeRules", "MergeTask", "TaskResult"]


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge keeps. Frozen at admission and the same for every attempt (P9)."""

    order: Literal["key", "offset"] = "key"  # of the outputs
    drop_superseded: bool = False  # drop a record when a higher offset of its key is in the merge
    drop_keyless: bool = False  # drop (and count) records with a null key: the topic is compacted now
    floor: int = 0  # records with a smaller offset are dropped
    clock_ms: int = 0  # the job's "now": a tombstone whose stamped horizon is ≤ it is dropped
    coverage_offset: int = 0  # T: the merge holds every record below it
    stamp_horizon_ms: int | None = None  # a clean stamps this on unstamped tombstones below T; None stamps nothing


class MergeTask(msgspec.Struct, frozen=True, kw_only=True):
    """Merge `sources` within [low, high) into outputs named `<job>-<attempt>-<range_index>-<nonce>`.

    A source is a list of segments that follow each other in `rules.order` (an L0 segment alone, or a sorted run).
    """

    topic: str
    topic_id: str
    partition: int
    job: str
    attempt: int
    range_index: int
    low: bytes | None  # inclusive; None: from the smallest key (null keys included)
    high: bytes | None  # exclusive; None: to the largest key
    sources: tuple[tuple[SegmentRef, ...], ...]
    rules: MergeRules
    output_bytes: int  # cut outputs at about this many bytes of Parquet, and only between keys (R5)


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one task did. Outputs are in order; a task whose records all went has none. Counts are of this task only."""

    range_index: int
    outputs: tuple[SegmentRef, ...]  # added_at 0: the commit sets it
    rows_in: int
    rows_out: int
    superseded: int = 0
    expired_tombstones: int = 0
    below_floor: int = 0
    keyless: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
