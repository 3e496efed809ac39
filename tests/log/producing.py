"""What the tests of producers share."""

import threading
from collections.abc import Sequence

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock

WAIT_MS = 60_000  # a test that waits for so long has failed


def passes(hand: HandClock, ms: int) -> None:
    """A pause, by the clock of the test."""
    hand.now_ms += ms


def values(topic: Topic, number: int = 0) -> list[bytes | None]:
    return [record.value for record in topic.partition(number).read()]


def faulty(warehouse: Warehouse, before: int, plan: Sequence[Fault]) -> tuple[Warehouse, FaultyStore]:
    """`before` creates go well, then comes `plan`."""
    store = FaultyStore(warehouse.store, [*[Fault.NONE] * before, *plan])
    return Warehouse(Driver(store, HandClock())), store


class Gated(FaultyStore):
    """Uploads wait until the gate is opened; then creates meet `plan`."""

    def __init__(self, warehouse: Warehouse, plan: Sequence[Fault] = ()) -> None:
        super().__init__(warehouse.store, plan)
        self.gate, self.reached = threading.Event(), threading.Event()

    def put(self, key: str, body: bytes) -> None:
        self.reached.set()
        assert self.gate.wait(WAIT_MS / 1000)
        super().put(key, body)
