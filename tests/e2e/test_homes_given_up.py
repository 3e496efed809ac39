"""A home that the topic names no more: nothing moves there, whatever was begun or asked for before (docs/rfcs/0031)."""

from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.log.warehouse import Warehouse
from lithify.manifest.categories import EndedBy
from lithify.manifest.config import Setting
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.clock import HandClock
from tests.log.compaction import files_of

COLD, COLDER = "memory://cold", "memory://colder"
OLD: dict[str, Setting] = {"local.retention.bytes": 0, "hot.retain.segments": 0}
GONE: dict[str, Setting | None] = {"cold.location": None}


class Store(MemoryStore):
    """Just before a commit of a job arrives, something happens, once."""

    happens: Callable[[], object] | None = None

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        name, _, kind = key.rpartition("/")[2].partition(".")
        if kind == "manifest" and b'"committed_at":%d}' % int(name) in body:  # of a job: by this manifest
            happens, self.happens = self.happens, None
            if happens is not None:
                happens()
        return super().create(key, body, frees)


class Stopped(KeyboardInterrupt):
    """The process ends."""


class Stops(LocalEngine):
    def start(self, *told: Any, **more: Any) -> Any:
        raise Stopped


@pytest.fixture
def here() -> Store:
    return Store()


@pytest.fixture
def warehouse(here: Store, cold: MemoryStore) -> Warehouse:
    """Its run may move to the cold home, if somebody asks for it."""
    warehouse = Warehouse(Driver(Homes({HERE: here, COLD: cold, COLDER: MemoryStore()}), HandClock()))
    config: dict[str, Setting] = {"cleanup.policy": "delete", "cold.location": COLD, "l0.segments.tier": 2}
    topic = warehouse.create_topic("t", config=config, probe=False)
    for _ in range(2):
        topic.partition(0).append([lithify.Record(b"k", b"v")])
    assert ended(warehouse) == [("tier", "completed", None)]
    return warehouse


def ended(warehouse: Warehouse) -> list[tuple[str | None, str, str | None]]:
    jobs = lithify.Compactor(warehouse, engine="local").run_once(take_over=True).jobs
    return [(job.kind, job.status, job.ended_by) for job in jobs]


def homes(warehouse: Warehouse) -> set[str]:
    return {segment.home for segment in warehouse.driver.run(files_of(warehouse, "t").head()).segments()}


def segments_in(store: MemoryStore) -> list[str]:
    return [each.key for each in store.list("", None).objects if "/segments/" in each.key]


def begun(warehouse: Warehouse) -> None:
    warehouse.topic("t").alter(OLD)
    with pytest.raises(Stopped):
        lithify.Compactor(warehouse, engine=Stops(1)).run_once()


def asked_for(warehouse: Warehouse) -> None:
    lithify.Admin(warehouse).relocate("t", 0)


@pytest.mark.parametrize("before", [begun, asked_for])
def test_what_was_left_ends_and_a_recall_waits_for_it(
    warehouse: Warehouse, cold: MemoryStore, before: Callable[[Warehouse], None]
) -> None:
    """Otherwise a recall finds nothing to do, and then the move goes on."""
    before(warehouse)
    warehouse.topic("t").alter(GONE)
    assert lithify.Admin(warehouse).recall("t", 0).status == "submitted"
    assert ended(warehouse) == [
        ("relocate", "cancelled", EndedBy.ALTERATION),
        ("relocate", "completed", None),
    ]
    assert (homes(warehouse), segments_in(cold)) == ({HERE}, [])
    with pytest.raises(InvalidRequest, match="nothing to move: everything is in the warehouse already"):
        lithify.Admin(warehouse).recall("t", 0)
    assert ended(warehouse) == []


@pytest.mark.parametrize("before", [begun, asked_for])
def test_another_home_is_another_home(
    warehouse: Warehouse, cold: MemoryStore, before: Callable[[Warehouse], None]
) -> None:
    before(warehouse)
    warehouse.topic("t").alter({"cold.location": COLDER, **OLD})
    assert ended(warehouse) == [("relocate", "cancelled", EndedBy.ALTERATION), ("relocate", "completed", None)]
    assert (homes(warehouse), segments_in(cold)) == ({COLDER}, [])


@pytest.mark.parametrize("before", [begun, asked_for])
def test_the_same_home_goes_on(warehouse: Warehouse, before: Callable[[Warehouse], None]) -> None:
    before(warehouse)
    warehouse.topic("t").alter({"hot.retain.segments": 9})
    assert ended(warehouse) == [("relocate", "completed", None)]
    assert homes(warehouse) == {COLD}


@pytest.mark.parametrize("changes", [GONE, {"cold.location": COLDER}])
def test_a_home_that_is_given_up_beside_the_commit_gets_nothing(
    warehouse: Warehouse, here: Store, changes: dict[str, Setting | None]
) -> None:
    asked_for(warehouse)
    here.happens = lambda: warehouse.topic("t").alter(changes)
    assert ended(warehouse) == [("relocate", "cancelled", EndedBy.ALTERATION)]
    assert homes(warehouse) == {HERE}


def test_what_comes_back_comes_back_whatever_is_altered(warehouse: Warehouse, here: Store) -> None:
    asked_for(warehouse)
    assert ended(warehouse) == [("relocate", "completed", None)]
    lithify.Admin(warehouse).recall("t", 0)
    here.happens = lambda: warehouse.topic("t").alter(GONE)
    assert ended(warehouse) == [("relocate", "completed", None)]
    assert homes(warehouse) == {HERE}
