"""However long it takes to read what is verified, a standby waits: a look shows life between its stretches (P5)."""

from typing import Any

import pytest

import lithify
from lithify.compactor.policy import LEASE_MS
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome, Store
from tests.e2e.workload import CONFIG, Workload, scanned

READ_MS = 4_000


class SlowLine:
    """A store from which each read of an output takes READ_MS; then the standby makes a pass."""

    def __init__(self) -> None:
        self.now_ms = 1_795_000_000_000
        self.inner = MemoryStore("long-looks", lambda: self.now_ms)
        self.standby: lithify.Compactor | None = None
        self.stops: lithify.Compactor | None = None  # as soon as something is recorded
        self.outcomes: list[str] = []

    def once(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    view = Store.view  # a read, as any other

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        if self.stops is not None and key.endswith(".compactor") and b'"done":[' in body:
            self.stops.stop()
        return self.inner.create(key, body, frees)

    def read(self, key: str, start: int, length: int) -> bytes:
        standby, self.standby = self.standby, None  # what it reads itself takes no time
        if standby is not None and key.count("-") == 4:
            self.now_ms += READ_MS
            self.outcomes += [part.outcome for part in standby.run_once().partitions]
        self.standby = standby
        return self.inner.read(key, start, length)


def test_a_standby_waits_while_recorded_outputs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.segment.verify._STEP_BYTES", 500)
    line = SlowLine()
    warehouse = lithify.Warehouse(Driver(line))
    topic = warehouse.create_topic("users", 1, CONFIG, probe=False)
    workload = Workload(1)
    for _ in range(3):
        workload.append(topic.partition(0), 1_000)
    first, second, standby = (lithify.Compactor(warehouse, engine="local", concurrency=1) for _ in range(3))
    line.stops = first
    assert [part.outcome for part in first.run_once().partitions] == ["stopped"]
    line.stops = None
    line.now_ms += 2 * LEASE_MS
    line.standby, began_ms = standby, line.now_ms
    assert [part.outcome for part in second.run_once().partitions] == ["worked"]
    assert line.now_ms - began_ms > 2 * LEASE_MS, "the look was longer than the lease"
    assert set(line.outcomes) == {"standby"}
    line.standby = None
    assert scanned(topic.partition(0)) == workload.model
