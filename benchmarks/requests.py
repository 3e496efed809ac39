"""What the protocol asks of the store, counted at the port (lithify.store.metered): nothing here depends on speed."""

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa

import lithify
from benchmarks.generate import TOPIC
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.store.driver import Driver
from lithify.store.file import FileStore
from lithify.store.metered import Metered
from lithify.store.request_counts import RequestCounts

__all__ = ["Requests", "requests"]

_APPENDS = 64
_POLLS = 8
_PARTITIONS = 9
_ROWS = 100


class Requests(msgspec.Struct, frozen=True):
    """The most of any one append or poll, after the first of each."""

    append_puts: int
    append_gets: int
    poll_puts: float  # of one idle partition: what more partitions add
    poll_gets: float
    manifest_bytes_per_segment: float


def _puts(counts: RequestCounts) -> int:
    return counts.creates + counts.puts + counts.output_requests


def _gets(counts: RequestCounts) -> int:
    return counts.gets + counts.reads + counts.heads + counts.lists


class _Counted:
    """A warehouse whose requests are counted."""

    def __init__(self, root: Path, partitions: int) -> None:
        shutil.rmtree(root, ignore_errors=True)
        self._store = Metered(FileStore(root))
        self.warehouse = lithify.Warehouse(Driver(self._store))
        self.topic = self.warehouse.create_topic(TOPIC, partitions, config={"cleanup.policy": "compact"})
        self._before = self._store.requests()

    def since(self) -> RequestCounts:
        """Since the last time it was asked."""
        now = self._store.requests()
        counts, self._before = now - self._before, now
        return counts

    def manifest_bytes(self) -> int:
        """Of partition 0's head."""
        keys = partition_keys(self.warehouse.driver.run(live_topic(topic_lineage(TOPIC), TOPIC)))[0]
        number = self.topic.partition(0).describe().manifest_id
        found = self._store.get(keys.manifest.key(number))
        assert found is not None
        return len(found.body)


def _rows(seed: int) -> pa.Table:
    keys = [b"account-%08d" % (seed * _ROWS + row) for row in range(_ROWS)]
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([b"v" * 20] * _ROWS, pa.binary())})


def requests(folder: Path) -> Requests:
    root = folder / "work-requests"
    counted = _Counted(root, 1)
    partition = counted.topic.partition(0)
    partition.append(_rows(0))
    small_bytes = counted.manifest_bytes()
    counted.since()
    appends: list[RequestCounts] = []
    for seed in range(_APPENDS):
        partition.append(_rows(seed))
        appends.append(counted.since())
    bytes_per_segment = (counted.manifest_bytes() - small_bytes) / _APPENDS
    one, many = _idle_polls(root, 1), _idle_polls(root, _PARTITIONS)
    shutil.rmtree(root)
    return Requests(
        append_puts=max(map(_puts, appends)),
        append_gets=max(map(_gets, appends)),
        poll_puts=(max(map(_puts, many)) - max(map(_puts, one))) / (_PARTITIONS - 1),
        poll_gets=(max(map(_gets, many)) - max(map(_gets, one))) / (_PARTITIONS - 1),
        manifest_bytes_per_segment=bytes_per_segment,
    )


def _idle_polls(root: Path, partitions: int) -> list[RequestCounts]:
    """Of passes over a compacted topic in which nothing is due."""
    counted = _Counted(root, partitions)
    for partition in range(partitions):
        counted.topic.partition(partition).append(_rows(partition))
    compactor = lithify.Compactor(counted.warehouse, engine="local")
    for _ in range(2):
        compactor.run_once()
    counted.since()
    polls: list[RequestCounts] = []
    for _ in range(_POLLS):
        report = compactor.run_once()
        assert all(each.outcome == "idle" for each in report.partitions), report
        polls.append(counted.since())
    compactor.close()
    return polls
