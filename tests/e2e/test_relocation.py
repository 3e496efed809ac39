"""Segments move to a cold home and back, as jobs (docs/rfcs/0031): what is read stays the same, and nothing is left."""

from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.compactor.info import MaintenanceReport
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import Setting
from lithify.manifest.model import FORMAT, FORMAT_HOMES, FORMAT_LISTS, Manifest
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from tests.clock import HandClock
from tests.log.compaction import files_of

GRACE_MS = 60_000
COLD = "memory://cold"
DAY_MS = 86_400_000
CONFIG: dict[str, Setting] = {
    "cold.location": COLD,
    "local.retention.ms": 3_600_000,
    "hot.retain.segments": 0,
    "retention.ms": 30 * DAY_MS,
    "l0.segments.tier": 2,
    "compaction.output.bytes": 1024,
}


@pytest.fixture
def warehouse(cold: MemoryStore, clock: HandClock) -> Warehouse:
    return Warehouse(Driver(Homes({HERE: MemoryStore(), COLD: cold}), clock))


@pytest.fixture(params=["compact", "delete", "compact,delete"])
def policy(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def written(warehouse: Warehouse, clock: HandClock, policy: str) -> Callable[[], list[Any]]:
    """A partition with several segments in a run; answers with what a reader sees of it."""
    topic = warehouse.create_topic("users", config={**CONFIG, "cleanup.policy": policy}, probe=False)
    for batch in range(4):
        rows = [lithify.Record(f"{batch}{key:04d}".encode(), bytes(20), timestamp_ms=clock.now_ms) for key in range(99)]
        topic.partition(0).append(rows)
    assert compact(warehouse).jobs
    return lambda: [(r.offset, r.key, r.value) for r in warehouse.topic("users").partition(0).read()]


def format_of(manifest: Manifest, otherwise: int) -> int:
    """Run lists (`make listed`) have a format of their own."""
    return FORMAT_LISTS if manifest.lists or manifest.retired_lists else otherwise


def compact(warehouse: Warehouse) -> MaintenanceReport:
    return lithify.Compactor(warehouse, engine="local").run_once()


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users").head())


def collect(warehouse: Warehouse, clock: HandClock, *, sweep: bool = False) -> None:
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=sweep)


def segments_in(store: Any) -> dict[str, int]:
    found = store.list("", None).objects
    return {
        each.key.rpartition("/")[2].removesuffix(".parquet"): each.size for each in found if "/segments/" in each.key
    }


def sizes(warehouse: Warehouse, home: str) -> dict[str, int]:
    return {segment.id: segment.bytes for segment in head(warehouse).segments() if segment.home == home}


def test_old_segments_move_and_come_back(
    warehouse: Warehouse, cold: MemoryStore, clock: HandClock, written: Callable[[], list[Any]]
) -> None:
    before, hot = written(), sizes(warehouse, HERE)
    assert len(hot) > 2
    clock.now_ms += 3_600_001
    (job,) = compact(warehouse).jobs
    assert (job.kind, job.status, job.destination, job.progress.ranges_done) == (
        "relocate",
        "completed",
        COLD,
        len(hot),
    )
    moved = sizes(warehouse, COLD)
    assert (sizes(warehouse, HERE), sorted(moved.values())) == ({}, sorted(hot.values()))
    assert moved.keys().isdisjoint(hot)
    assert written() == before
    assert not compact(warehouse).jobs
    collect(warehouse, clock)
    assert (segments_in(warehouse.store), segments_in(cold)) == ({}, moved)
    assert head(warehouse).format == format_of(head(warehouse), FORMAT_HOMES)

    warehouse.topic("users").alter({"local.retention.ms": None})
    asked = lithify.Admin(warehouse).recall("users", 0)
    assert (asked.kind, asked.status) == ("relocate", "submitted")
    (job,) = compact(warehouse).jobs
    assert (job.id, job.status, job.destination) == (asked.id, "completed", "the warehouse")
    assert written() == before
    collect(warehouse, clock, sweep=True)
    assert (segments_in(warehouse.store), segments_in(cold)) == (sizes(warehouse, HERE), {})
    assert (head(warehouse).homes, head(warehouse).format) == ((), format_of(head(warehouse), FORMAT))
    (check,) = Verifier(warehouse.driver, local_checks).verify().partitions
    assert not check.findings


def test_the_newest_segments_stay(warehouse: Warehouse, clock: HandClock, written: Callable[[], list[Any]]) -> None:
    hot = len(sizes(warehouse, HERE))
    warehouse.topic("users").alter({"hot.retain.segments": hot - 1})
    clock.now_ms += 3_600_001
    compact(warehouse)
    assert (len(sizes(warehouse, HERE)), len(sizes(warehouse, COLD))) == (hot - 1, 1)


def test_what_is_beyond_the_bytes_goes_oldest_first(warehouse: Warehouse, written: Callable[[], list[Any]]) -> None:
    hot = head(warehouse).segments()
    keep = sum(segment.bytes for segment in hot) // 2
    warehouse.topic("users").alter({"local.retention.ms": None, "local.retention.bytes": keep})
    compact(warehouse)
    assert sum(sizes(warehouse, HERE).values()) <= keep
    assert sizes(warehouse, COLD)


def test_a_merge_takes_what_is_cold_and_writes_here(
    warehouse: Warehouse, cold: MemoryStore, clock: HandClock, written: Callable[[], list[Any]]
) -> None:
    before = written()
    clock.now_ms += 3_600_001
    compact(warehouse)
    lithify.Admin(warehouse).submit("users", 0)
    jobs = [job.kind for job in compact(warehouse).jobs]
    assert jobs[0] in ("clean", "tier")
    assert written() == before
    collect(warehouse, clock, sweep=True)
    assert segments_in(cold) == sizes(warehouse, COLD)
    assert segments_in(warehouse.store) == sizes(warehouse, HERE)


def test_a_home_that_another_warehouse_owns_is_left_alone(
    warehouse: Warehouse, written: Callable[[], list[Any]]
) -> None:
    with pytest.raises(InvalidRequest, match="nothing to move"):
        lithify.Admin(warehouse).recall("users", 0)


def test_without_a_cold_home_there_is_nothing_to_ask_for(warehouse: Warehouse) -> None:
    warehouse.create_topic("plain", probe=False)
    with pytest.raises(InvalidRequest, match=r"topic plain has no cold home: set cold\.location"):
        lithify.Admin(warehouse).relocate("plain", 0)
