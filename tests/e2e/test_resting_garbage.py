"""Partitions in which there is nothing to collect cost few requests, and no garbage is forgotten (docs/rfcs/0026)."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.gc.collector import GRACE_MS, INTERVAL_MS, REST_MS
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.request_counts import RequestCounts

PARTITIONS = 6
HOUR_MS = 3_600_000


class Yard:
    """A warehouse as a collector has it, and the same as seen by another process."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        inner = MemoryStore(new_id(), clock=lambda: self.now_ms)
        self.store = Metered(inner)
        self.here = Warehouse(Driver(self.store, lambda: self.now_ms))
        self.elsewhere = Warehouse(Driver(inner, lambda: self.now_ms))
        self.elsewhere.create_topic("users", PARTITIONS, {"cleanup.policy": "compact"}, probe=False)
        for number in range(PARTITIONS):
            self.append(self.elsewhere, number)
        self.collector = lithify.Collector(self.here, rest_ms=REST_MS)

    def append(self, warehouse: Warehouse, number: int) -> None:
        warehouse.topic("users").partition(number).append([lithify.Record(b"k", b"v")])

    def compact(self, warehouse: Warehouse) -> None:
        compactor = lithify.Compactor(warehouse, engine="local")
        compactor.run_once()
        compactor.close()

    def passes(self, span_ms: int) -> list[RequestCounts]:
        return [self.one()[0] for _ in range(span_ms // INTERVAL_MS)]

    def one(self) -> tuple[RequestCounts, lithify.GcReport]:
        before = self.store.requests()
        report = self.collector.run_once()
        assert len(report.partitions) == PARTITIONS
        assert not any(part.fault for part in report.partitions)
        self.now_ms += INTERVAL_MS
        return self.store.requests() - before, report

    def collected_after_ms(self) -> int:
        began_ms = self.now_ms
        while not self.one()[1].deleted:
            assert self.now_ms - began_ms < 24 * HOUR_MS, "it is never collected"
        return self.now_ms - INTERVAL_MS - began_ms


@pytest.fixture
def yard() -> Iterator[Yard]:
    yard = Yard()
    yard.passes(6 * HOUR_MS)
    yield yard
    yard.here.close()


def test_a_day_of_rest(yard: Yard) -> None:
    costs = yard.passes(24 * HOUR_MS)
    passes = len(costs)
    assert sum(cost.lists for cost in costs) == passes
    assert sum(cost.creates + cost.puts + cost.heads + cost.reads for cost in costs) == 0
    looks = (sum(cost.gets for cost in costs) - passes) / PARTITIONS
    assert looks <= 4 * 24, "of each chain within the hour, and of the boundary"


def test_what_another_process_replaced_goes_within_the_bound_and_the_grace_period(yard: Yard) -> None:
    for _ in range(8):
        yard.append(yard.elsewhere, 3)
    yard.compact(yard.elsewhere)
    assert yard.collected_after_ms() <= REST_MS + GRACE_MS + 2 * INTERVAL_MS


def test_what_this_process_replaced_waits_for_the_grace_period_alone(yard: Yard) -> None:
    for _ in range(8):
        yard.append(yard.here, 3)
    yard.compact(yard.here)
    assert yard.collected_after_ms() <= GRACE_MS + 2 * INTERVAL_MS


def test_a_checkpoint_that_expires_is_collected_by_the_next_pass(yard: Yard) -> None:
    yard.here.topic("users").partition(5).snapshot(pin="for a day", ttl=24 * HOUR_MS)
    yard.passes(23 * HOUR_MS)
    while yard.elsewhere.topic("users").partition(5).checkpoints():
        yard.one()
        assert yard.now_ms < 1_700_000_000_000 + 40 * HOUR_MS
    expired_ms = 1_700_000_000_000 + 30 * HOUR_MS
    assert expired_ms <= yard.now_ms - INTERVAL_MS <= expired_ms + INTERVAL_MS


def test_a_sweep_and_a_dry_run_look_everywhere(yard: Yard) -> None:
    for options in ({"sweep": True}, {"dry_run": True}):
        before = yard.store.requests()
        yard.collector.run_once(**options)
        assert (yard.store.requests() - before).gets >= 3 * PARTITIONS


def test_a_bound_of_zero_looks_everywhere_in_each_pass(yard: Yard) -> None:
    yard.collector = lithify.Collector(yard.here, rest_ms=0)
    yard.one()
    assert all(cost.gets >= 2 * PARTITIONS for cost in yard.passes(HOUR_MS))
