"""The same log over real Parquet: the public face, a real engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import lithify
from lithify.compactor.engine import Engine, Running
from lithify.log.record import to_records
from lithify.manifest.categories import Category
from lithify.manifest.config import TopicConfig
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.segment.read import SegmentReader
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.homes import Homes
from tests.properties.log import GRACE_MS, View
from tests.properties.model import Row

__all__ = ["ParquetLog"]

TOPIC = "t"


class _Failing:
    """A real engine that fails once it has done `fails_after` tasks; None: never."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name
        self.fails_after: int | None = None

    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> Running:
        if self.fails_after is None:
            return self._engine.start(homes, tasks, label)
        done, failed = tasks[: self.fails_after], tasks[self.fails_after :]
        self.fails_after -= len(done)
        return _PartlyFailed(self._engine.start(homes, done, label) if done else None, len(done), failed)

    def close(self) -> None:
        """The engine under it serves other histories."""


class _PartlyFailed:
    def __init__(self, running: Running | None, expected: int, failed: Sequence[JobTask]) -> None:
        self._running = running
        self._expected = expected
        self._failed = [TaskFailure(task.range_index, Category.UNAVAILABLE, "told to fail") for task in failed]

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        if self._running is not None and self._expected:
            found = self._running.results(timeout_ms)
            self._expected -= len(found)
            return found
        failed, self._failed = self._failed, []
        return failed

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()


class ParquetLog:
    """One topic of one partition, with one compactor, in a warehouse of its own."""

    row_bytes = 700

    def __init__(self, clock: Callable[[], int], config: Mapping[str, str], engine: Engine, url: str) -> None:
        self._clock = clock
        self._url = url
        self._engine = _Failing(engine)
        self._known: dict[str, list[Row]] = {}
        lithify.open(url, clock).create_topic(TOPIC, config=config, probe=False)
        self.reopen()
        self._keys = PartitionKeys(TOPIC, self._topic.describe().topic_id, 0)
        self._files = PartitionFiles(self._keys)

    def reopen(self) -> None:
        self._warehouse = lithify.open(self._url, self._clock)
        self._topic = self._warehouse.topic(TOPIC)
        self._partition = self._topic.partition(0)
        self._compactor = lithify.Compactor(self._warehouse, self._engine)
        self._collector = lithify.Collector(self._warehouse, grace_ms=GRACE_MS)
        self._admin = lithify.Admin(self._warehouse)

    @property
    def config(self) -> TopicConfig:
        return self._topic.parsed_config

    def append(self, records: Sequence[Row]) -> range:
        return self._partition.append([lithify.Record(r.key, r.value, r.timestamp_ms, r.headers) for r in records])

    def alter(self, changes: Mapping[str, str]) -> None:
        self._topic.alter(changes)

    def delete_records(self, before: int) -> int:
        return self._partition.delete_records(before)

    def submit(self, sources: Sequence[str]) -> None:
        self._admin.submit(TOPIC, 0, sources or "full")

    def compact(self, fails_after: int | None = None) -> None:
        self._engine.fails_after = fails_after
        for _ in range(2):  # a compactor at rest looks for requests in every second pass
            (report,) = self._compactor.run_once(take_over=True).partitions
            refused = any(job.status == "failed" for job in report.jobs)
            assert report.outcome != "failed" or refused or fails_after is not None, report.detail
        self._engine.fails_after = None

    def collect(self, *, sweeping: bool) -> None:
        (done,) = self._collector.run_once(sweep=sweeping).partitions
        assert done.fault is None, done.fault

    def pin(self, name: str) -> None:
        self._partition.snapshot(pin=name)

    def unpin(self, name: str) -> None:
        self._partition.delete_checkpoint(name)

    def head(self) -> Manifest:
        return self._run(self._files.head())

    def manifest(self, number: int) -> Manifest:
        return self._run(self._files.manifest.read(number)).value

    def state(self) -> CompactorState | None:
        return self._run(self._files.compactor_state())

    def _run(self, coroutine: Any) -> Any:
        return self._warehouse.driver.run(coroutine)

    def holds(self, ref: SegmentRef) -> bool:
        return self._warehouse.store.head(self._keys.segment(ref.id)) is not None

    def rows(self, ref: SegmentRef) -> list[Row]:
        found = self._known.get(ref.id)
        if found is None:
            reader = SegmentReader(self._warehouse.store, self._keys.segment(ref.id), ref)
            found = self._known[ref.id] = [row for batch in reader.batches() for row in _rows(batch)]
        return found

    def view(self) -> View:
        snapshot = self._partition.snapshot()
        assert snapshot.log_start_offset == self._partition.describe().log_start_offset
        return self._shown(snapshot)

    def pinned(self, name: str) -> View:
        return self._shown(self._partition.snapshot(pin=name))

    def _shown(self, snapshot: lithify.Snapshot) -> View:
        def get(key: bytes) -> Row | None:
            record = snapshot.get(key)
            return None if record is None else _row(record)

        read = [_row(record) for record in snapshot.read()]
        scan = [_row(record) for record in to_records(iter(snapshot.scan()))]
        return View(snapshot.log_start_offset, snapshot.next_offset, read, scan, get)


def _row(record: lithify.Record) -> Row:
    assert record.offset is not None
    assert record.timestamp_ms is not None
    return Row(record.offset, record.key, record.value, record.timestamp_ms, record.headers)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    horizons = batch.column("horizon_ms").to_pylist()
    for record, horizon_ms in zip(to_records(iter([batch.drop_columns(["horizon_ms"])])), horizons, strict=True):
        yield _row(record)._replace(horizon_ms=horizon_ms)
