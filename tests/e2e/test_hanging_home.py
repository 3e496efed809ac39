"""A cold home whose requests never return, as those to a network disk or through a library without timeouts: whatever
does not need it goes on (docs/rfcs/0031)."""

from collections.abc import Iterator

import fsspec
import pytest

import lithify
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import Setting
from lithify.manifest.model import Manifest
from lithify.store.cold import Cold
from lithify.store.deadline import Deadline
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.fsspec_store import FsspecStore
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from tests.clock import HandClock
from tests.log.compaction import files_of
from tests.store.hanging import Gate, hanging_filesystem

COLD = "hang://cold"
HOUR_MS = 3_600_000
GRACE_MS = 60_000
CONFIG: dict[str, Setting] = {
    "cleanup.policy": "compact",
    "cold.location": COLD,
    "local.retention.ms": HOUR_MS,
    "hot.retain.segments": 0,
    "l0.segments.tier": 2,
    "min.cleanable.dirty.ratio": 0,
}
PARTITIONS = 3


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Opened at the end, so that no thread stays."""
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def warehouse(gate: Gate, clock: HandClock) -> Warehouse:
    """Its first partition has a run in the cold home, and L0 segments to be merged with it; the others were never
    there. The home hangs."""
    fsspec.register_implementation("hang", hanging_filesystem(gate), clobber=True)
    cold = Cold(COLD, FsspecStore(COLD), Deadline(clock=clock, wait=gate.wait))
    warehouse = Warehouse(Driver(Homes({HERE: MemoryStore(), COLD: cold}), clock))
    warehouse.create_topic("users", PARTITIONS, config=CONFIG, probe=False)
    append(warehouse, clock, 0, b"old")
    compact(warehouse)
    clock.now_ms += HOUR_MS + 1
    compact(warehouse)
    assert {segment.home for segment in head(warehouse, 0).segments()} == {COLD}
    append(warehouse, clock, 0, b"new")
    for partition in (1, 2):
        append(warehouse, clock, partition, b"hot")
    gate.close()
    return warehouse


def append(warehouse: Warehouse, clock: HandClock, partition: int, value: bytes) -> None:
    for number in range(2):
        record = lithify.Record(b"%d" % number, value, timestamp_ms=clock.now_ms)
        warehouse.topic("users").partition(partition).append([record])


def compact(warehouse: Warehouse) -> lithify.MaintenanceReport:
    return lithify.Compactor(warehouse, engine="local").run_once()


def head(warehouse: Warehouse, partition: int) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users", partition).head())


def values(warehouse: Warehouse, partition: int) -> set[bytes | None]:
    return {record.value for record in warehouse.topic("users").partition(partition).read()}


def test_the_compactor_serves_all_other_partitions(warehouse: Warehouse, clock: HandClock, gate: Gate) -> None:
    compact(warehouse)
    for partition in (1, 2):
        assert not head(warehouse, partition).l0, "merged, beside the partition whose segments are cold"
    lithify.Admin(warehouse).relocate("users", 1)
    report = compact(warehouse)
    (job,) = report.jobs
    assert (job.kind, job.status) == ("relocate", "failed")
    assert COLD in job.reason
    for _ in range(3):
        clock.now_ms += HOUR_MS
        append(warehouse, clock, 2, b"more")
        compact(warehouse)
        assert not head(warehouse, 2).l0
    gate.open()


def test_appends_and_hot_reads_go_on_and_cold_ones_name_the_home(warehouse: Warehouse, clock: HandClock) -> None:
    with pytest.raises(Unavailable, match=f"home {COLD}"):
        values(warehouse, 0)
    append(warehouse, clock, 0, b"last")
    append(warehouse, clock, 1, b"last")
    assert values(warehouse, 1) == {b"hot", b"last"}
    tail = warehouse.topic("users").partition(0).read(head(warehouse, 0).next_offset - 1)
    assert [record.value for record in tail] == [b"last"]


def test_the_collector_finishes_its_pass(warehouse: Warehouse, clock: HandClock, gate: Gate) -> None:
    """Though it has something to delete in the home."""
    gate.open()
    compact(warehouse)
    gate.close()
    retired = [{each.home for each in head(warehouse, partition).retired} for partition in range(PARTITIONS)]
    assert retired == [{HERE, COLD}, {HERE}, {HERE}]
    for _ in range(4):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)
    assert not head(warehouse, 1).retired
    assert not head(warehouse, 2).retired
    assert {each.home for each in head(warehouse, 0).retired} == {COLD}
    assert head(warehouse, 0).homes == (COLD,), "a home that hangs is not taken for an empty one"


def test_once_it_answers_everything_is_done(warehouse: Warehouse, clock: HandClock, gate: Gate) -> None:
    compact(warehouse)
    gate.open()
    for _ in range(4):
        clock.now_ms += HOUR_MS + 1
        compact(warehouse)
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)
    assert len(values(warehouse, 0)) == 1
    for partition in range(PARTITIONS):
        assert {segment.home for segment in head(warehouse, partition).segments()} == {COLD}
