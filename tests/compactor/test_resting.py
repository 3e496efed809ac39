"""Partitions at rest cost little, and what happens there is noticed: at once, when it is due, or within the bound."""

import threading
from collections.abc import Iterator

import pytest

import lithify
from lithify.compactor.compactor import IDLE_MS, REST_MS
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.rests import Asks
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.request_counts import RequestCounts

CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9", "max.compaction.lag.ms": "7200000"}
PARTITIONS = 6
HOUR_MS = 3_600_000
LAG_MS = 2 * HOUR_MS


class Hall:
    """A warehouse as a compactor has it, and the same as seen by another process, which stirs nothing here."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.inner = MemoryStore(new_id(), clock=lambda: self.now_ms)
        self.store = Metered(self.inner)
        self.here = Warehouse(Driver(self.store, lambda: self.now_ms))
        self.elsewhere = Warehouse(Driver(self.inner, lambda: self.now_ms))
        self.topic = self.elsewhere.create_topic("users", PARTITIONS, CONFIG, probe=False)
        for number in range(PARTITIONS):
            self.append(self.elsewhere, number)
        self.compactor = lithify.Compactor(self.here, engine="local", rest_ms=REST_MS)
        self.worked: list[int] = []

    def append(self, warehouse: Warehouse, number: int, key: bytes = b"k") -> None:
        record = lithify.Record(key, b"v", timestamp_ms=self.now_ms)
        warehouse.topic("users").partition(number).append([record] * 50)

    def round(self) -> RequestCounts:
        before = self.store.requests()
        report = self.compactor.run_once()
        self.worked = [part.partition for part in report.partitions if part.jobs and part.partition is not None]
        self.now_ms += IDLE_MS
        return self.store.requests() - before

    def rest(self, span_ms: int = HOUR_MS) -> list[RequestCounts]:
        return [self.round() for _ in range(span_ms // IDLE_MS)]


def keys_of(hall: Hall) -> PartitionKeys:
    """Of partition 0."""
    return partition_keys(hall.here.driver.run(live_topic(topic_lineage("users"), "users")))[0]


@pytest.fixture
def hall() -> Iterator[Hall]:
    hall = Hall()
    hall.rest()
    yield hall
    hall.compactor.close()


def test_an_hour_of_rest_costs_a_request_for_each_look_and_few_looks(hall: Hall) -> None:
    costs = hall.rest()
    rounds = HOUR_MS // IDLE_MS
    assert sum(cost.lists for cost in costs) == rounds
    assert sum(cost.creates + cost.puts + cost.heads + cost.reads for cost in costs) == 0
    looks = sum(cost.gets for cost in costs) / (PARTITIONS + 1)  # one more for the topic
    assert looks <= 2 * HOUR_MS / REST_MS * 1.1 + 3, "each chain once in the bound, the boundary once an hour"


def test_what_another_process_appends_is_noticed_within_the_bound(hall: Hall) -> None:
    for number in (2, 3):
        for _ in range(20):
            hall.append(hall.elsewhere, number)
    found: set[int] = set()
    for _ in range(REST_MS // IDLE_MS):
        hall.round()
        found |= set(hall.worked)
    assert found == {2, 3}


def test_what_this_process_appends_is_noticed_by_the_next_round(hall: Hall) -> None:
    for _ in range(20):
        hall.append(hall.here, 5)
    hall.round()
    assert hall.worked == [5]


def test_so_is_a_request_of_this_process(hall: Hall) -> None:
    asked = lithify.Admin(hall.here).submit("users", 2)
    hall.round()
    assert lithify.Admin(hall.here).compaction(asked.id).status == "completed"


def test_and_a_topic_that_this_process_has_altered(hall: Hall) -> None:
    hall.here.topic("users").alter({"min.cleanable.dirty.ratio": "0"})
    hall.append(hall.elsewhere, 4, b"another")
    hall.append(hall.here, 4, b"a third")
    hall.round()
    assert hall.worked == [4]


def test_what_falls_due_by_time_is_done_in_that_round() -> None:
    hall = Hall()
    hall.round()
    hall.now_ms += IDLE_MS
    began_ms = hall.now_ms
    hall.append(hall.elsewhere, 1)
    hall.worked = []
    while not hall.worked:
        hall.round()
    assert 0 <= hall.now_ms - IDLE_MS - began_ms - LAG_MS < 2 * IDLE_MS
    assert hall.worked == [1]
    hall.compactor.close()


def test_who_slept_while_numbers_were_collected_finds_out(hall: Hall) -> None:
    """It finds no next manifest, but a boundary that moved."""
    seen = hall.here.topic("users").partition(0).describe().manifest_id
    for number in range(30):
        hall.append(hall.elsewhere, 0, b"%d" % number)
    other = lithify.Compactor(hall.elsewhere, engine="local", rest_ms=0)
    other.run_once()
    collector = lithify.Collector(hall.elsewhere, grace_ms=300_000, rest_ms=0)
    for _ in range(4):
        hall.now_ms += 300_000
        collector.run_once()
    gone = keys_of(hall).manifest.key(seen + 1)
    assert hall.inner.get(gone) is None, "it is collected"
    report = hall.compactor.run_once()
    assert next(part.after.rows for part in report.partitions if part.partition == 0) == 31
    other.close()


def test_an_append_during_a_look_is_not_forgotten(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, appended = PartitionFiles.moved, threading.Event()

    async def and_then(self: PartitionFiles, asks: Asks) -> bool:
        answer = await moved(self, asks)
        if self.keys.partition == 4 and not appended.is_set():
            appended.set()
            for _ in range(20):
                hall.append(hall.here, 4)
        return answer

    monkeypatch.setattr(PartitionFiles, "moved", and_then)
    hall.round()
    assert appended.is_set()
    assert hall.worked == []
    hall.round()
    assert hall.worked == [4]


def test_a_bound_of_zero_looks_everywhere_in_each_round(hall: Hall) -> None:
    hall.compactor = lithify.Compactor(hall.here, engine="local", rest_ms=0)
    hall.round()
    for cost in hall.rest(4 * IDLE_MS):
        assert 1 + 2 * PARTITIONS <= cost.gets <= 1 + 3 * PARTITIONS
