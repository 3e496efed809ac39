"""Segments whose records are rows of JSON, and a merge over them by the kernel's own rules (lithify.segment.rules)."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
import xxhash

from lithify.manifest.jobs import MergeCounts
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.extent import key_bounds
from lithify.segment.rules import Fate, fate, stamped
from lithify.segment.task import MergeTask, MoveTask, TaskResult
from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import Get, NewId, Object, Put
from tests.refs import segment_ref
from tests.sim.places import GetFrom, PutTo, place

__all__ = [
    "ROW_BYTES",
    "Row",
    "checksum",
    "decode",
    "encode",
    "fetched",
    "key_bytes",
    "key_text",
    "merge",
    "move",
    "read",
    "reference",
    "size_of",
]

ROW_BYTES = 400
NO_CHECKSUM = "0" * 16


class Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    offset: int
    key: str | None
    token: str  # nobody else's: what makes a record told from its copies; its value, too
    dead: bool  # a tombstone
    timestamp_ms: int
    horizon_ms: int | None = None
    size: int = ROW_BYTES  # what it takes of a segment, in the store as in memory


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(list[Row]).decode


def key_bytes(key: str) -> bytes:
    """A key of any bytes is a text of as many letters, in the same order."""
    return key.encode("latin-1")


def key_text(key: bytes) -> str:
    return key.decode("latin-1")


def checksum(body: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(body)


def size_of(rows: Iterable[Row]) -> int:
    return sum(row.size for row in rows)


def by_key(row: Row) -> tuple[bool, str, int]:
    return row.key is not None, row.key or "", row.offset


def by_offset(row: Row) -> int:
    return row.offset


def reference(rows: Sequence[Row], body: bytes, order: str, segment_id: str = "") -> SegmentRef:
    keys = [key_bytes(row.key) for row in rows if row.key is not None]
    low, high = key_bounds(min(keys), max(keys)) if keys else (None, None)
    times, offsets = [row.timestamp_ms for row in rows], [row.offset for row in rows]
    horizons = [row.horizon_ms for row in rows if row.horizon_ms is not None]
    return segment_ref(
        segment_id,
        bytes=size_of(rows),
        raw_bytes=size_of(rows),
        rows=len(rows),
        min_key=low,
        max_key=high,
        min_offset=min(offsets),
        max_offset=max(offsets),
        min_timestamp_ms=min(times),
        max_timestamp_ms=max(times),
        tombstones=sum(row.dead for row in rows),
        min_horizon_ms=min(horizons, default=None),
        max_horizon_ms=max(horizons, default=None),
        order=order,
        checksum=checksum(body),
    )


async def fetched(keys: PartitionKeys, ref: SegmentRef) -> Object | None:
    home = place(ref)
    return await (GetFrom(keys.segment(ref.id), home) if home else Get(keys.segment(ref.id)))


async def read(keys: PartitionKeys, ref: SegmentRef) -> list[Row]:
    """The rows of a live segment, with their offsets. Raises NotFound, Corrupt, Unavailable."""
    found = await fetched(keys, ref)
    if found is None:
        raise NotFound(ref.id)
    if checksum(found.body) != ref.checksum:
        raise Corrupt(ref.id)
    rows = decode(found.body)
    if not ref.base_offset:
        return rows
    return [msgspec.structs.replace(row, offset=row.offset + ref.base_offset) for row in rows]


async def merge(task: MergeTask, may_write: Callable[[], Awaitable[None]] | None = None) -> TaskResult:
    """One task, as a worker does it: a request per source, one per output. `may_write` is waited for in between."""
    keys = task.keys
    rows = [row for source in task.sources for ref in source for row in await read(keys, ref)]
    low, high = (None if bound is None else key_text(bound) for bound in (task.bounds.low, task.bounds.high))
    rows = sorted((row for row in rows if _within(row.key, low, high)), key=by_key)
    kept, dropped, dropped_to = _judged(task, rows)
    lost = _by_bucket(task, dropped)
    if task.rules.order == "offset":
        kept.sort(key=by_offset)
    if may_write is not None:
        await may_write()
    outputs: list[SegmentRef] = []
    for cut in _cuts(kept, task.output_bytes, task.rules.order):
        segment_id = SegmentId.for_output(task.job, task.attempt, task.range_index, await NewId())
        body = encode(cut)
        await Put(keys.segment(segment_id), body)
        outputs.append(reference(cut, body, task.rules.order, segment_id))
    return TaskResult(
        range_index=task.range_index,
        outputs=tuple(outputs),
        counts=MergeCounts(rows_in=len(rows), rows_out=len(kept)),
        lost=tuple(map(len, lost)) if any(lost) else (),
        kept_bytes=tuple(map(size_of, _by_bucket(task, kept))),
        lost_bytes=tuple(map(size_of, lost)),
        dropped_to=dropped_to,
    )


async def move(task: MoveTask) -> TaskResult:
    """One copy, as a worker makes it: read, written, and looked at. Raises NotFound, Corrupt, Unavailable."""
    keys, segment, home = task.keys, task.segment, place(task.home)
    found = await fetched(keys, segment)
    if found is None:
        raise NotFound(segment.id)
    if checksum(found.body) != segment.checksum:
        raise Corrupt(segment.id)
    segment_id = SegmentId.for_output(task.job, task.attempt, task.range_index, await NewId())
    key, copied = keys.segment(segment_id), msgspec.structs.replace(segment, id=segment_id, home=task.home, added_at=0)
    await (PutTo(key, found.body, home) if home else Put(key, found.body))
    there = await fetched(keys, copied)
    if there is None or len(there.body) != len(found.body):
        raise Corrupt("")  # and no source is
    counts = MergeCounts(rows_in=segment.rows, rows_out=segment.rows)
    return TaskResult(range_index=task.range_index, outputs=(copied,), counts=counts)


def _by_bucket(task: MergeTask, rows: Iterable[Row]) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in task.rules.buckets]
    for row in rows:
        bucket = bisect_right(task.rules.buckets, row.offset) - 1
        if bucket >= 0:
            found[bucket].append(row)
    return found


def _judged(task: MergeTask, rows: list[Row]) -> tuple[list[Row], list[Row], int]:
    rules = task.rules
    newest = {row.key: row.offset for row in rows}
    kept: list[Row] = []
    dropped: list[Row] = []
    dropped_to = 0
    for row in rows:
        superseded = row.key is not None and row.offset < newest[row.key]
        key = None if row.key is None else key_bytes(row.key)
        verdict = fate(
            rules,
            offset=row.offset,
            key=key,
            tombstone=row.dead,
            horizon_ms=row.horizon_ms,
            superseded=superseded,
        )
        if verdict is Fate.KEPT:
            horizon_ms = stamped(rules, offset=row.offset, tombstone=row.dead, horizon_ms=row.horizon_ms)
            kept.append(row if horizon_ms == row.horizon_ms else msgspec.structs.replace(row, horizon_ms=horizon_ms))
            continue
        dropped.append(row)
        if verdict is Fate.EXPIRED:
            dropped_to = max(dropped_to, row.offset + 1)
    return kept, dropped, dropped_to


def _cuts(kept: list[Row], output_bytes: int, order: str) -> list[list[Row]]:
    """Cut at the target size, and in key order between keys alone (R5)."""
    cuts: list[list[Row]] = []
    for row in kept:
        full = cuts and size_of(cuts[-1]) >= output_bytes
        if not cuts or (full and (order == "offset" or cuts[-1][-1].key != row.key)):
            cuts.append([])
        cuts[-1].append(row)
    return cuts


def _within(key: str | None, low: str | None, high: str | None) -> bool:
    if key is None:
        return low is None
    return (low is None or low <= key) and (high is None or key < high)
