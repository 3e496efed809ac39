"""A relocation that cannot go on ends, and lets go of its segments: while it waited, no clean could have them."""

from typing import Any
from unittest.mock import patch

import pytest

import lithify
from lithify.compactor.failures import RETRY_FIRST_MS
from lithify.compactor.info import CompactionInfo
from lithify.log.warehouse import Warehouse
from lithify.manifest.categories import EndedBy
from lithify.manifest.config import Setting
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from tests.clock import HandClock

COLD = "memory://cold"
CONFIG: dict[str, Setting] = {
    "cleanup.policy": "delete",
    "cold.location": COLD,
    "local.retention.bytes": 0,
    "hot.retain.segments": 0,
    "l0.segments.tier": 2,
}


class Cold(MemoryStore):
    """Takes no segment, as long as `error` is set."""

    error: LithifyError | None = None

    def output(self, key: str) -> Any:
        if self.error is not None:
            raise self.error
        return super().output(key)


@pytest.fixture
def cold() -> Cold:
    return Cold()


@pytest.fixture
def warehouse(cold: Cold, clock: HandClock) -> Warehouse:
    warehouse = Warehouse(Driver(Homes({HERE: MemoryStore(), COLD: cold}), clock))
    topic = warehouse.create_topic("t", config=CONFIG, probe=False)
    for _ in range(2):
        topic.partition(0).append([lithify.Record(b"k", b"v")])
    return warehouse


def relocation(warehouse: Warehouse) -> CompactionInfo:
    """The last job of a pass of the compactor."""
    return lithify.Compactor(warehouse, engine="local").run_once().jobs[-1]


@pytest.mark.parametrize(
    ("error", "category"), [(Unavailable("no answer"), "unavailable"), (AccessDenied("refused"), "store_denied")]
)
def test_when_its_home_is_away_or_refuses(
    warehouse: Warehouse, cold: Cold, clock: HandClock, error: LithifyError, category: str
) -> None:
    """And it is not planned again at once, but after a pause."""
    cold.error = error
    job = relocation(warehouse)
    assert job.error is not None
    assert (job.kind, job.status, job.error.category) == ("relocate", "failed", category)
    assert job.ended_by == EndedBy.HOME
    cold.error = None
    assert not lithify.Compactor(warehouse, engine="local").run_once().jobs
    clock.now_ms += RETRY_FIRST_MS
    assert relocation(warehouse).status == "completed"


@pytest.mark.slow
def test_when_the_partition_has_too_many_homes(warehouse: Warehouse) -> None:
    with patch("lithify.manifest.relocations.HOMES_MAX", 0):
        job = relocation(warehouse)
    assert job.error is not None
    assert (job.status, job.error.category) == ("failed", "invalid")
    assert "recall some of them" in job.reason
    assert relocation(warehouse).status == "completed"


class Shut(Homes):
    """Another warehouse has the home, or it is away."""

    error: LithifyError | None = None

    def own(self, home: str, key: str, *, claims: bool, renews: bool) -> None:
        if self.error is not None and home != HERE:
            raise self.error
        super().own(home, key, claims=claims, renews=renews)


@pytest.mark.parametrize(
    ("error", "category"), [(Unavailable("no answer"), "unavailable"), (InvalidRequest("another's"), "invalid")]
)
def test_a_request_does_not_wait_for_a_home(cold: Cold, error: LithifyError, category: str) -> None:
    """Otherwise nothing else would be compacted meanwhile."""
    homes = Shut({HERE: MemoryStore(), COLD: cold})
    warehouse = Warehouse(Driver(homes, HandClock()))
    topic = warehouse.create_topic("t", config={**CONFIG, "local.retention.bytes": -2}, probe=False)
    for _ in range(2):
        topic.partition(0).append([lithify.Record(b"k", b"v")])
    assert relocation(warehouse).kind == "tier"
    asked = lithify.Admin(warehouse).relocate("t", 0)
    homes.error = error
    job = relocation(warehouse)
    assert job.error is not None
    assert (job.id, job.status, job.error.category) == (asked.id, "failed", category)
