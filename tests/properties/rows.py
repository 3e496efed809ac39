"""A log whose segments are rows of JSON in a memory store. All else is the real thing: the production coroutines, and
the kernel's decision on each record."""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import VerifyOutputs
from lithify.compactor.plan import choose_requested
from lithify.compactor.request_edits import Submit
from lithify.gc.collect import collect, sweep
from lithify.log import checkpoints
from lithify.log.append import append
from lithify.manifest.catalog import KEEPING_KEYS
from lithify.manifest.categories import Category
from lithify.manifest.config import TopicConfig, parse, validate
from lithify.manifest.floor import RaiseFloor, SetBounds
from lithify.manifest.jobs import CompactorState, Job, MergeCounts
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import FORMAT, Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.manifest.retention import floor_at, retention_of
from lithify.segment.extent import key_bounds
from lithify.segment.rules import Fate, fate, stamped
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.store.driver import drive, store_answers
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from lithify.store.port import NewId, Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.compactor.scripted_engine import ScriptedEngine
from tests.properties.log import GRACE_MS, View
from tests.properties.model import Row, latest
from tests.refs import segment_ref

__all__ = ["RowLog"]

KEYS = PartitionKeys("t", "0123456789abcdef", 0)
FIRST = Manifest(format=FORMAT, topic="t", topic_id="0123456789abcdef", partition=0)
STEPS_MAX = 100  # of one pass
ROW_BYTES = 100

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Row]).decode


def by_key(row: Row) -> tuple[bool, bytes, int]:
    return row.key is not None, row.key or b"", row.offset


def reference(segment_id: str, rows: Sequence[Row], order: str) -> SegmentRef:
    """As the Parquet writer makes it, but for bytes and checksum."""
    keys = sorted(row.key for row in rows if row.key is not None)
    bounds = key_bounds(keys[0], keys[-1]) if keys else (None, None)
    times, offsets = [row.timestamp_ms for row in rows], [row.offset for row in rows]
    horizons = [row.horizon_ms for row in rows if row.horizon_ms is not None]
    return segment_ref(
        segment_id,
        bytes=ROW_BYTES * len(rows),
        raw_bytes=ROW_BYTES * len(rows),
        rows=len(rows),
        min_key=bounds[0],
        max_key=bounds[1],
        min_offset=min(offsets),
        max_offset=max(offsets),
        min_timestamp_ms=min(times),
        max_timestamp_ms=max(times),
        tombstones=sum(row.value is None for row in rows),
        min_horizon_ms=min(horizons, default=None),
        max_horizon_ms=max(horizons, default=None),
        order=order,
    )


class RowLog:
    """One partition, with one compactor."""

    row_bytes = ROW_BYTES

    def __init__(self, clock: Callable[[], int], config: Mapping[str, str]) -> None:
        self._clock = clock
        self._store = MemoryStore(clock=clock)
        self._from_store = store_answers(only_here(self._store), clock)
        self._ids = itertools.count(1)
        self._engine = _Engine(self)
        self._fails_after: int | None = None
        self._known: dict[str, list[Row]] = {}
        self._stored = validate(config)
        self.config: TopicConfig = parse(self._stored)
        self._version = 1  # of the configuration
        self.reopen()
        self._run(self._files.manifest.commit(CreatePartition(replace(FIRST, retention=retention_of(self.config)))))

    def reopen(self) -> None:
        self._files = PartitionFiles(KEYS)
        self._coordinator = Coordinator(PartitionFiles(KEYS), "here")

    def _run(self, coroutine: Any) -> Any:
        return drive(coroutine, self._answer)

    def _answer(self, request: Request[Any]) -> Any:
        match request:
            case NewId():
                number = next(self._ids)
                return f"{number:08x}{number:08x}"
            case Together(requests):
                return tuple(one_after_the_other([partial(self._answer, each) for each in requests]))
            case _:
                return self._engine.answer(request) if self._engine.knows(request) else self._from_store(request)

    def append(self, records: Sequence[Row]) -> range:
        order = "key" if self.config.compacted else "offset"
        rows = [row._replace(offset=delta) for delta, row in enumerate(records)]
        if self.config.message_timestamp_type == "LogAppendTime":
            rows = [row._replace(timestamp_ms=self._clock()) for row in rows]
        rows.sort(key=by_key if order == "key" else None)
        return self._run(append(self._files, _encode(rows), reference("", rows, order), l0_segments_max=1_000))

    def alter(self, changes: Mapping[str, str]) -> None:
        stored = validate({**self._stored, **changes})
        self._version += stored != self._stored  # what is set already writes no version
        self._stored, self.config = stored, parse(stored)
        if KEEPING_KEYS & changes.keys():
            bounds = retention_of(self.config)
            self._run(self._files.manifest.commit(SetBounds(bounds, self._version, bounds)))

    def delete_records(self, before: int) -> int:
        return self._run(self._files.manifest.commit(RaiseFloor(before))).result

    def submit(self, sources: Sequence[str]) -> None:
        head = self.head()
        choose_requested(head, sources, self._clock(), self.config)
        job_id = SegmentId.for_job(head.id, self._answer(NewId()))
        job = Job(id=job_id, status="submitted", origin="manual", requested=tuple(sources), created_at_ms=self._clock())
        self._run(self._files.compactor.commit(Submit(first_state(head), job)))

    def compact(self, fails_after: int | None = None) -> None:
        """One pass, until nothing is due; `fails_after`: the engine fails when it has done so many tasks."""
        self._fails_after, step = fails_after, None
        for _ in range(STEPS_MAX):
            step = self._run(self._coordinator.step(self.config, take_over=True))
            if step.outcome != "worked" and (step.job is None or step.job.active):
                self._fails_after = None
                return
        raise AssertionError(f"a pass of {STEPS_MAX} steps did not end: {step}")

    def collect(self, *, sweeping: bool) -> None:
        files = PartitionFiles(KEYS)
        self._run(collect(files, GRACE_MS))
        if sweeping:
            self._run(sweep(files, GRACE_MS))

    def pin(self, name: str) -> None:
        self._run(checkpoints.pin(self._files, name, None))

    def unpin(self, name: str) -> None:
        self._run(checkpoints.delete(self._files, name))

    def head(self) -> Manifest:
        return self._run(self._files.head())

    def manifest(self, number: int) -> Manifest:
        return self._run(self._files.manifest.read(number)).value

    def state(self) -> CompactorState | None:
        return self._run(self._files.compactor_state())

    def holds(self, ref: SegmentRef) -> bool:
        return self._store.head(KEYS.segment(ref.id)) is not None

    def rows(self, ref: SegmentRef) -> list[Row]:
        found = self._known.get(ref.id)
        if found is None:
            body = self._store.get(KEYS.segment(ref.id))
            assert body is not None, f"{ref.id} is gone"
            base = ref.base_offset or 0
            found = self._known[ref.id] = [row._replace(offset=row.offset + base) for row in _decode(body.body)]
        return found

    def view(self) -> View:
        head = self.head()
        return self._shown(head, floor_at(head, self._clock()))

    def pinned(self, name: str) -> View:
        number = next(c.manifest for c in self.head().checkpoints if c.name == name)
        pinned = self.manifest(number)
        assert all(map(self.holds, pinned.segments())), "a pinned segment is gone"
        return self._shown(pinned, pinned.log_start_offset)

    def _shown(self, manifest: Manifest, floor: int) -> View:
        rows = sorted(r._replace(horizon_ms=None) for s in manifest.segments() for r in self.rows(s))
        rows = [row for row in rows if row.offset >= floor]
        found = latest(rows, floor)
        return View(floor, manifest.next_offset, rows, [found[key] for key in sorted(found)], found.get)

    def work(self, task: MergeTask) -> TaskResult | TaskFailure:
        if self._fails_after is not None:
            if self._fails_after <= 0:
                return TaskFailure(task.range_index, Category.UNAVAILABLE, "the engine was told to fail")
            self._fails_after -= 1
        return self._merge(task)

    def _merge(self, task: MergeTask) -> TaskResult:
        rules = task.rules
        rows = sorted((r for source in task.sources for ref in source for r in self.rows(ref)), key=by_key)
        rows = [row for row in rows if _within(row.key, task.bounds.low, task.bounds.high)]
        newest = {row.key: row.offset for row in rows}
        kept: list[Row] = []
        lost, stays, dropped_to = [0] * len(rules.buckets), [0] * len(rules.buckets), 0
        for row in rows:
            at, dead, until_ms = row.offset, row.value is None, row.horizon_ms
            superseded = row.key is not None and at < newest[row.key]
            bucket = bisect_right(rules.buckets, at) - 1
            verdict = fate(rules, key=row.key, offset=at, tombstone=dead, superseded=superseded, horizon_ms=until_ms)
            if verdict is Fate.KEPT:
                kept.append(row._replace(horizon_ms=stamped(rules, offset=at, tombstone=dead, horizon_ms=until_ms)))
                if bucket >= 0:
                    stays[bucket] += ROW_BYTES
                continue
            if bucket >= 0:
                lost[bucket] += 1
            if verdict is Fate.EXPIRED:
                dropped_to = max(dropped_to, row.offset + 1)
        outputs = self._write(task, kept)
        counts = MergeCounts(rows_in=len(rows), rows_out=len(kept))
        told = tuple(lost) if any(lost) else ()
        return TaskResult(
            range_index=task.range_index,
            outputs=outputs,
            counts=counts,
            lost=told,
            kept_bytes=tuple(stays),
            lost_bytes=tuple(rows * ROW_BYTES for rows in lost),
            dropped_to=dropped_to,
        )

    def _write(self, task: MergeTask, kept: list[Row]) -> tuple[SegmentRef, ...]:
        """Cut at the target size, and in key order between keys alone (R5)."""
        order = task.rules.order
        if order == "offset":
            kept.sort()
        cuts: list[list[Row]] = []
        for row in kept:
            full = cuts and len(cuts[-1]) * ROW_BYTES >= task.output_bytes
            if not cuts or (full and (order == "offset" or cuts[-1][-1].key != row.key)):
                cuts.append([])
            cuts[-1].append(row)
        refs: list[SegmentRef] = []
        for rows in cuts:
            nonce = self._answer(NewId())
            segment_id = SegmentId.for_output(task.job, task.attempt, task.range_index, nonce)
            self._store.put(KEYS.segment(segment_id), _encode(rows))
            refs.append(replace(reference(segment_id, rows, order), base_offset=None))
        return tuple(refs)


class _Engine(ScriptedEngine):
    def __init__(self, log: RowLog) -> None:
        super().__init__(log.work)
        self._log = log

    def verify(self, request: VerifyOutputs) -> frozenset[str]:
        return frozenset(s.id for s in request.segments if not self._log.holds(s))


def _within(key: bytes | None, low: bytes | None, high: bytes | None) -> bool:
    if key is None:
        return low is None
    return (low is None or low <= key) and (high is None or key < high)
