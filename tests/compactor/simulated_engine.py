"""An engine for interleaved tests: segments hold rows as JSON, and the keep/drop decision is the kernel's own."""

import json
from bisect import bisect_right
from collections.abc import Coroutine, Sequence
from typing import Any

from lithify.compactor.engine import NextResults, VerifyOutputs, WeighSegment
from lithify.manifest.categories import Category
from lithify.manifest.jobs import MergeCounts
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.rules import Fate, fate, stamped
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.store.errors import NotFound, Unavailable
from lithify.store.port import Get, Head, NewId, Put, Request, Together
from lithify.work.outcome import failure_of
from tests.compactor.scripted_engine import ScriptedEngine
from tests.refs import segment_ref
from tests.sim.rows import checksum
from tests.steps import within

Row = tuple[str, int, str | None, int | None]  # key, offset, value, horizon_ms
ROW_BYTES = 50  # in memory


def encode(rows: list[Row]) -> bytes:
    return json.dumps(rows).encode()


def reference(segment_id: str, rows: list[Row], *, base: bool = False) -> SegmentRef:
    keys, offsets = [r[0].encode() for r in rows], [r[1] for r in rows]
    horizons = [r[3] for r in rows if r[3] is not None]
    return segment_ref(
        segment_id,
        bytes=1_000 * len(rows),  # so that jobs are cut into ranges
        raw_bytes=len(rows) * ROW_BYTES,
        rows=len(rows),
        min_key=min(keys),
        max_key=max(keys),
        min_offset=min(offsets),
        max_offset=max(offsets),
        tombstones=sum(r[2] is None for r in rows),
        min_horizon_ms=min(horizons, default=None),
        max_horizon_ms=max(horizons, default=None),
        checksum=checksum(encode(rows)),
    )


async def intact(keys: PartitionKeys, ref: SegmentRef, *, whole: bool) -> bool:
    """Whether it is there and, if the `whole` is to be looked at, as it was."""
    if not whole:
        return await Head(keys.segment(ref.id)) is not None
    found = await Get(keys.segment(ref.id))
    return found is not None and checksum(found.body) == ref.checksum


async def read_rows(keys: PartitionKeys, ref: SegmentRef) -> list[Row]:
    found = await Get(keys.segment(ref.id))
    if found is None:
        raise NotFound(ref.id)
    rows: list[Row] = [tuple(row) for row in json.loads(found.body)]
    return [(k, o + (ref.base_offset or 0), v, h) for k, o, v, h in rows]


async def merge(keys: PartitionKeys, task: MergeTask) -> TaskResult:
    rows = [row for source in task.sources for ref in source for row in await read_rows(keys, ref)]
    low, high = task.bounds.low, task.bounds.high
    rows = [r for r in rows if (low is None or low <= r[0].encode()) and (high is None or r[0].encode() < high)]
    latest: dict[str, int] = {}
    for key, offset, _, _ in rows:
        latest[key] = max(latest.get(key, -1), offset)
    kept: list[Row] = []
    lost, stays = [0] * len(task.rules.buckets), [0] * len(task.rules.buckets)
    dropped_to = 0
    for key, offset, value, horizon in sorted(rows):
        verdict = fate(
            task.rules,
            offset=offset,
            key=key.encode(),
            tombstone=value is None,
            horizon_ms=horizon,
            superseded=offset < latest[key],
        )
        if verdict is Fate.KEPT:
            horizon = stamped(task.rules, offset=offset, tombstone=value is None, horizon_ms=horizon)
            kept.append((key, offset, value, horizon))
        if offset >= task.rules.buckets[0]:
            counted = stays if verdict is Fate.KEPT else lost
            counted[bisect_right(task.rules.buckets, offset) - 1] += 1
        if verdict is Fate.EXPIRED:
            dropped_to = max(dropped_to, offset + 1)
    outputs: tuple[SegmentRef, ...] = ()
    if kept:
        segment_id = SegmentId.for_output(task.job, task.attempt, task.range_index, await NewId())
        await Put(keys.segment(segment_id), encode(kept))
        outputs = (reference(segment_id, kept),)
    counts = MergeCounts(rows_in=len(rows), rows_out=len(kept))
    return TaskResult(
        range_index=task.range_index,
        outputs=outputs,
        counts=counts,
        lost=tuple(lost),
        kept_bytes=tuple(rows * ROW_BYTES for rows in stays),
        lost_bytes=tuple(rows * ROW_BYTES for rows in lost),
        dropped_to=dropped_to,
    )


class Mortal:
    """Whether the engine is there: it dies under its tasks after `dies` looks at them (-1: never), and takes no task at
    the next `down` starts."""

    def __init__(self, *, down: int = 0, dies: int = -1) -> None:
        self.down = down
        self.dies = dies

    def starts(self) -> None:
        if self.down > 0:
            self.down -= 1
            raise Unavailable("the engine is down")

    def looks(self) -> None:
        self.dies -= 1
        if self.dies == -1:
            raise Unavailable("the engine died")


async def attempt(keys: PartitionKeys, task: MergeTask, written: list[str]) -> TaskResult | TaskFailure:
    try:
        result = await merge(keys, task)
    except NotFound as error:
        return TaskFailure(task.range_index, Category.MISSING, "a source is missing", str(error))
    except Unavailable as error:
        return failure_of(task, error)
    written += [ref.id for ref in result.outputs]
    return result


class _Engine(ScriptedEngine):
    """Its tasks and its looks are the store's requests, so `with_engine` itself does them."""

    def __init__(self, life: Mortal) -> None:
        super().__init__()
        self._life = life

    def start(self, tasks: Sequence[MergeTask]) -> None:
        self._life.starts()
        super().start(tasks)


async def with_engine(
    keys: PartitionKeys,
    coroutine: Coroutine[Any, Any, Any],
    written: list[str],
    life: Mortal | None = None,
    *,
    weighs: bool = True,
) -> Any:
    """Drive a coordinator's coroutine: the engine's requests are answered here, the store's are passed on, as
    are those for the weight of a segment unless `weighs`."""
    life = life or Mortal()
    engine = _Engine(life)

    async def answer(request: Request[Any]) -> Any:
        match request:
            case VerifyOutputs():
                return frozenset([s.id for s in request.segments if not await intact(keys, s, whole=request.whole)])
            case NextResults():
                life.looks()
                return (await attempt(keys, engine.pending.popleft(), written),) if engine.pending else ()
            case Together(requests) if any(isinstance(each, VerifyOutputs) for each in requests):
                theirs = tuple(each for each in requests if not isinstance(each, VerifyOutputs))
                replies = dict[Any, Any](zip(theirs, await Together(theirs), strict=True))
                return tuple([replies[each] if each in replies else await answer(each) for each in requests])
            case WeighSegment() if not weighs:
                return await request
            case _:
                return engine.answer(request) if engine.knows(request) else await request

    return await within(coroutine, answer)
