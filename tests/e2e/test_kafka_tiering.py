"""Bugs that Kafka's tiered storage had, each as a test by its number: none of them is possible here (docs/homes.md)."""

from contextlib import suppress
from typing import Any

import pytest

import lithify
from lithify.compactor.failures import RETRY_FIRST_MS
from lithify.compactor.info import CompactionInfo
from lithify.log.warehouse import Warehouse
from lithify.manifest.codec import encode
from lithify.manifest.config import Setting
from lithify.manifest.model import Manifest
from lithify.store.driver import Driver
from lithify.store.errors import Fenced, Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.port import Store
from tests.clock import HandClock
from tests.log.compaction import files_of

COLD = "memory://cold"
GRACE_MS = 60_000
HOUR_MS = 3_600_000
CONFIG: dict[str, Setting] = {
    "cleanup.policy": "delete",
    "hot.retain.segments": 0,
    "l0.segments.tier": 2,
    "compaction.output.bytes": 1024,
}


class Cold(MemoryStore):
    """Takes so many segments, then no more."""

    takes = 1_000

    def output(self, key: str) -> Any:
        self.takes -= 1
        if self.takes < 0:
            raise Unavailable("it takes no more")
        return super().output(key)


@pytest.fixture
def cold() -> Cold:
    return Cold()


@pytest.fixture
def warehouse(cold: Cold, clock: HandClock) -> Warehouse:
    """A partition with several segments in a run, all of which are to move to the cold home. What it may hold is
    what it holds: if one segment counted twice, retention would delete another."""
    made = Warehouse(Driver(Homes({HERE: MemoryStore(), COLD: cold}), clock))
    topic = made.create_topic("t", config=CONFIG, probe=False)
    for batch in range(2):
        rows = [lithify.Record(f"{batch}{key:04d}".encode(), bytes(20), timestamp_ms=clock.now_ms) for key in range(99)]
        topic.partition(0).append(rows)
    compact(made)
    held = sum(segment.bytes for segment in head(made).segments())
    topic.alter({"cold.location": COLD, "local.retention.bytes": 0, "retention.bytes": held})
    return made


def compact(warehouse: Warehouse) -> list[CompactionInfo]:
    report = lithify.Compactor(warehouse, engine=lithify.LocalEngine(1)).run_once(take_over=True)
    return list(report.jobs)


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "t").head())


def collect(warehouse: Warehouse, clock: HandClock) -> None:
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)


def there_and_back(warehouse: Warehouse, clock: HandClock) -> None:
    compact(warehouse)
    warehouse.topic("t").alter({"local.retention.bytes": None})
    lithify.Admin(warehouse).recall("t", 0)
    compact(warehouse)
    warehouse.topic("t").alter({"local.retention.bytes": 0})
    collect(warehouse, clock)


def segments_in(store: Store) -> dict[str, int]:
    found = store.list("").objects
    return {o.key.rpartition("/")[2].removesuffix(".parquet"): o.size for o in found if "/segments/" in o.key}


def counted(warehouse: Warehouse) -> tuple[int, int, int]:
    """Segments, bytes and records of all homes, as an operator sees them."""
    homes = lithify.Admin(warehouse).homes("t", 0).homes
    return sum(h.segments for h in homes), sum(h.bytes for h in homes), sum(h.records for h in homes)


def offsets(warehouse: Warehouse) -> list[int]:
    return [record.offset for record in warehouse.topic("t").partition(0).read()]


def test_kafka_17062_failed_copies_do_not_count(warehouse: Warehouse, cold: Cold, clock: HandClock) -> None:
    """Kafka counted what it had failed to copy as remote bytes, and retention.bytes then deleted good segments."""
    before, read = counted(warehouse), offsets(warehouse)
    for attempt in range(3):
        cold.takes = 2
        job = compact(warehouse)[-1]
        assert (job.kind, job.status) == ("relocate", "failed")
        assert len(segments_in(cold)) == 2 * (attempt + 1), "copies that nobody refers to"
        assert counted(warehouse) == before
        assert (head(warehouse).log_start_offset, offsets(warehouse)) == (0, read)
        clock.now_ms += RETRY_FIRST_MS << 3
    cold.takes = 1_000
    clock.now_ms += HOUR_MS
    assert compact(warehouse)[-1].status == "completed"
    assert counted(warehouse) == before
    assert (head(warehouse).log_start_offset, offsets(warehouse)) == (0, read)


def test_kafka_20732_after_a_failover_nothing_counts_twice(warehouse: Warehouse, cold: Cold, clock: HandClock) -> None:
    """Kafka's new leader counted local segments that had been copied as well as their copies."""
    before, read = counted(warehouse), offsets(warehouse)
    epoch = head(warehouse).compactor_epoch
    (job,) = fail_over(warehouse, cold)
    assert (job.kind, job.status) == ("relocate", "completed")
    assert len(segments_in(cold)) > before[0], "the first compactor's copies are there, too"
    assert head(warehouse).compactor_epoch > epoch + 1, "another compactor took over"
    assert counted(warehouse) == before
    assert (head(warehouse).log_start_offset, offsets(warehouse)) == (0, read)
    collect(warehouse, clock)
    assert (sum(segments_in(cold).values()), segments_in(warehouse.store)) == (before[1], {})


def fail_over(warehouse: Warehouse, cold: Cold) -> list[CompactionInfo]:
    """While a compactor makes its second copy, another takes over and ends the job; then the first goes on, and is
    fenced. Returns the jobs of the other."""
    output, jobs, copies = cold.output, list[CompactionInfo](), 0

    def taken_over(key: str) -> Any:
        nonlocal copies
        copies += 1
        if copies == 2:
            assert segments_in(cold), "the first copy is there, and so is what it was copied from"
            jobs.extend(compact(warehouse))
        return output(key)

    cold.output = taken_over
    with suppress(Fenced):
        lithify.Compactor(warehouse, engine=lithify.LocalEngine(1)).run_once()
    cold.output = output
    return jobs


def test_kafka_16511_nothing_that_expired_stays_in_the_cold_home(
    warehouse: Warehouse, cold: Cold, clock: HandClock
) -> None:
    """Kafka left remote segments for ever if their offsets overlapped those of others, after a change of leaders."""
    fail_over(warehouse, cold)
    collect(warehouse, clock)
    live = head(warehouse).segments()
    assert segments_in(cold) == {segment.id: segment.bytes for segment in live}, "no offset lies there twice"
    warehouse.topic("t").alter({"retention.ms": HOUR_MS, "local.retention.ms": -2})
    clock.now_ms += 2 * HOUR_MS
    for _ in range(3):
        compact(warehouse)
        collect(warehouse, clock)
    assert not segments_in(cold)
    assert not segments_in(warehouse.store)
    assert head(warehouse).next_offset == 198


def test_kafka_15479_a_segment_counts_once_whatever_epochs_it_has_seen(warehouse: Warehouse, clock: HandClock) -> None:
    """Kafka counted a remote segment once for each leader epoch in it."""
    before, read = counted(warehouse), offsets(warehouse)
    epoch = head(warehouse).compactor_epoch
    for _ in range(3):
        clock.now_ms += HOUR_MS
        there_and_back(warehouse, clock)
    compact(warehouse)
    assert head(warehouse).compactor_epoch >= epoch + 6
    assert counted(warehouse) == before
    assert (head(warehouse).log_start_offset, offsets(warehouse)) == (0, read)


def test_kafka_20033_the_metadata_of_what_moved_does_not_grow(warehouse: Warehouse, clock: HandClock) -> None:
    """Kafka's topic of remote log metadata grew with every segment ever copied."""
    sizes: list[int] = []
    for _ in range(6):
        there_and_back(warehouse, clock)
        manifest = head(warehouse)
        assert not manifest.retired
        assert not manifest.homes
        sizes.append(len(encode(manifest)))
    assert max(sizes[2:]) - min(sizes[2:]) < 64, f"only numbers became longer: {sizes}"
