"""Segments and merge tasks for tests of the engines, over any store."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from lithify.compactor.engine import Running
from lithify.log.tables import normalise
from lithify.manifest.bounds import Bounds
from lithify.manifest.jobs import MergeRules
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.segment.read import SegmentReader
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.segment.write import encode_append
from lithify.store.driver import monotonic_ms, new_id
from lithify.store.port import Store

KEYS = PartitionKeys("users", "0a", 0)
LABEL = "lithify users/0 clean"
RESULTS_WITHIN_MS = 120_000
Row = tuple[bytes, int, bytes]  # key, offset, value


def key(number: int) -> bytes:
    return b"key-%06d" % number


def append(store: Store, base: int, numbers: Sequence[int]) -> SegmentRef:
    """An L0 segment of rows with the keys of `numbers`, its first offset `base`; the value tells the offset."""
    columns = {
        "key": pa.array([key(number) for number in numbers], pa.binary()),
        "value": pa.array([b"value %d" % (base + row) for row in range(len(numbers))], pa.binary()),
    }
    body, ref = encode_append(normalise(pa.table(columns), 7), "key", f"{1:012d}-{new_id()}")
    store.put(KEYS.segment(ref.id), body)
    last = base + len(numbers) - 1
    return msgspec.structs.replace(ref, base_offset=base, min_offset=base, max_offset=last)


def appends(store: Store, *, segments: int = 3, rows: int = 200, keys: int = 150) -> list[SegmentRef]:
    """Segments over the same keys, so that most records are superseded."""
    return [append(store, i * rows, [(row * 7 + i) % keys for row in range(rows)]) for i in range(segments)]


def survivors(*, segments: int = 3, rows: int = 200, keys: int = 150) -> list[Row]:
    """What a merge of `appends` with the same arguments leaves, in key order."""
    latest = {(row * 7 + i) % keys: i * rows + row for i in range(segments) for row in range(rows)}
    return [(key(number), offset, b"value %d" % offset) for number, offset in sorted(latest.items())]


def tasks(refs: Sequence[SegmentRef], bounds: Sequence[int] = (), *, output_bytes: int = 1 << 28) -> list[MergeTask]:
    """One task for each of the ranges that `bounds` (numbers of keys) make, of a job of its own."""
    edges = [None, *map(key, bounds), None]
    job = f"{1:012d}-{new_id()[:8]}"
    return [
        MergeTask(
            keys=KEYS,
            job=job,
            attempt=1,
            range_index=index,
            bounds=Bounds(edges[index], edges[index + 1]),
            sources=tuple((ref,) for ref in refs),
            rules=MergeRules(drop_superseded=True),
            output_bytes=output_bytes,
        )
        for index in range(len(edges) - 1)
    ]


def gather(running: Running, count: int) -> list[TaskResult | TaskFailure]:
    """The first `count` outcomes, or more; fewer only where they do not come in reasonable time."""
    found: list[TaskResult | TaskFailure] = []
    deadline_ms = monotonic_ms() + RESULTS_WITHIN_MS
    while len(found) < count and monotonic_ms() < deadline_ms:
        found += running.results(1_000)
    return found


def results(running: Running, count: int) -> list[TaskResult]:
    """`count` results by range; a failure fails the test."""
    found = gather(running, count)
    assert [outcome for outcome in found if not isinstance(outcome, TaskResult)] == []
    landed = [outcome for outcome in found if isinstance(outcome, TaskResult)]
    assert len(landed) == count
    return sorted(landed, key=lambda result: result.range_index)


def failure(running: Running) -> TaskFailure:
    (outcome,) = gather(running, 1)
    assert isinstance(outcome, TaskFailure), outcome
    return outcome


def rows_of(store: Store, found: Sequence[TaskResult]) -> list[Row]:
    return [
        (row["key"], row["offset"], row["value"])
        for result in found
        for ref in result.outputs
        for batch in SegmentReader(store, KEYS.segment(ref.id), ref).batches()
        for row in batch.to_pylist()
    ]


def segments(store: Store, prefix: str) -> set[str]:
    """The ids of stored segments that begin with `prefix`."""
    ids = {KEYS.segment_id(found.key) or "" for found in store.list(KEYS.segments).objects}
    return {segment_id for segment_id in ids if segment_id.startswith(prefix)}
