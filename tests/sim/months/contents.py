"""What a segment holds, without Parquet: rows in arrays; and how its bytes lie between keys."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import KEY_DIGITS, Rows, joined, merged, reference
from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.jobs import MergeCounts
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.merge import Tally
from lithify.segment.ranges import Weight
from lithify.segment.rules import NO_HORIZON, Fate
from lithify.segment.task import MergeTask, TaskResult

__all__ = ["Contents", "appended", "inputs", "outputs", "size_within", "smallest_key", "weights"]

GROUPS_MAX = 16  # whose weights are told of one segment


class Contents:
    """The body of a segment. Sized like one."""

    __slots__ = ("row_bytes", "rows")

    def __init__(self, rows: Rows, row_bytes: int) -> None:
        self.rows = rows
        self.row_bytes = row_bytes

    def __len__(self) -> int:
        return len(self.rows) * self.row_bytes


def appended(keys: Any, tombstones: Any, now_ms: int, row_bytes: int, order: str) -> tuple[Contents, SegmentRef]:
    """A segment to append; its offsets are counted from 0."""
    if order == "key":
        by_key = np.argsort(keys, kind="stable")
        offsets = np.arange(len(keys))[by_key]
        keys, tombstones = keys[by_key], tombstones[by_key]
    else:
        offsets = np.arange(len(keys))
    rows = Rows(keys, offsets, np.full(len(keys), now_ms), tombstones, np.full(len(keys), NO_HORIZON))
    return Contents(rows, row_bytes), reference("", rows, row_bytes, order)


def smallest_key(bound: bytes) -> int:
    """The smallest key that is not below `bound`."""
    return int(bound[:KEY_DIGITS].ljust(KEY_DIGITS, b"0")) + (len(bound) > KEY_DIGITS)


def _within(rows: Rows, wanted: Bounds) -> Any:
    least = 0 if wanted.low is None else smallest_key(wanted.low)
    held = rows.key >= least
    return held if wanted.high is None else held & (rows.key < smallest_key(wanted.high))


def size_within(task: MergeTask, found: Sequence[tuple[SegmentRef, Contents]]) -> int:
    """Bytes that a task reads."""
    if task.bounds == EVERYTHING:
        return sum(len(contents) for _, contents in found)
    return sum(int(_within(each.rows, task.bounds).sum()) * each.row_bytes for _, each in found)


def inputs(task: MergeTask, found: Sequence[tuple[SegmentRef, Contents]]) -> Rows:
    parts = [_placed(ref, each.rows.take(_within(each.rows, task.bounds))) for ref, each in found]
    return joined(parts)


def _placed(ref: SegmentRef, rows: Rows) -> Rows:
    base = ref.base_offset or 0
    return Rows(rows.key, rows.offset + base, rows.timestamp_ms, rows.tombstone, rows.horizon_ms) if base else rows


def outputs(task: MergeTask, rows: Rows, row_bytes: int, nonces: Iterator[str]) -> tuple[TaskResult, list[Contents]]:
    """What the task answers with, and what it wrote."""
    kept, tally = merged(task.rules, rows, 2 * row_bytes)
    refs: list[SegmentRef] = []
    written: list[Contents] = []
    for part in _cut(task, kept, row_bytes):
        name = SegmentId.for_output(task.job, task.attempt, task.range_index, next(nonces))
        refs.append(reference(name, part, row_bytes, task.rules.order))
        written.append(Contents(part, row_bytes))
    return _result(task, tally, len(kept), row_bytes, tuple(refs)), written


def _cut(task: MergeTask, kept: Rows, row_bytes: int) -> Iterator[Rows]:
    """At the target size, and between keys (R5)."""
    most, start = max(task.output_bytes // row_bytes, 1), 0
    while start < len(kept):
        cut = min(start + most, len(kept))
        while task.rules.order == "key" and cut < len(kept) and kept.key[cut] == kept.key[cut - 1]:
            cut += 1
        yield kept.take(slice(start, cut))
        start = cut


def _result(task: MergeTask, tally: Tally, kept: int, row_bytes: int, refs: tuple[SegmentRef, ...]) -> TaskResult:
    counts = MergeCounts(
        rows_in=tally.rows_in,
        rows_out=kept,
        superseded=tally.by_fate[Fate.SUPERSEDED],
        bytes_read=tally.rows_in * row_bytes,
        bytes_written=kept * row_bytes,
    )
    return TaskResult(
        range_index=task.range_index,
        outputs=refs,
        counts=counts,
        lost=tally.lost,
        kept_bytes=tally.kept_bytes,
        lost_bytes=tally.lost_bytes,
        dropped_to=tally.dropped_to,
    )


def weights(contents: Contents) -> list[Weight]:
    """By what would be its row groups."""
    key = contents.rows.key
    cuts = np.linspace(0, len(key), min(GROUPS_MAX, len(key)) + 1).astype(int)
    return [
        Weight(b"%0*d" % (KEY_DIGITS, key[a]), b"%0*d" % (KEY_DIGITS, key[b - 1]), int(b - a) * contents.row_bytes)
        for a, b in itertools.pairwise(cuts)
        if b > a
    ]
