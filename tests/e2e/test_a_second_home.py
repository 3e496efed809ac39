"""A process that has the store of another home works with segments there as with those of the warehouse.

Each test moves a segment by hand, as a relocation does: a copy with a new id (P21).
"""

from typing import Any

import pytest
from msgspec.structs import replace

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.log.warehouse import Warehouse
from lithify.manifest.edits import Next
from lithify.manifest.model import FORMAT_HOMES, Manifest
from lithify.manifest.retired import retire
from lithify.store.driver import Driver
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.owners import claim_home
from tests.clock import HandClock
from tests.log.compaction import files_of

GRACE_MS = 60_000
ROWS = {b"a": b"1", b"b": b"2", b"c": b"3"}


class Move:
    """Refer to the only segment of the only run by its copy `to` in home "cold"."""

    repeatable = True
    frees = False

    def __init__(self, to: str) -> None:
        self._to = to

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        (run,) = head.runs
        (old,) = run.segments
        moved = replace(run, segments=(replace(old, id=self._to, home="cold", added_at=number),))
        head = replace(head, format=FORMAT_HOMES, homes=("cold",))
        return Next(replace(head, runs=(moved,), retired=(*head.retired, *retire([old], number))), None)


@pytest.fixture
def warehouse(cold: MemoryStore, clock: HandClock) -> Warehouse:
    """Two appends in one run, whose segment lives in `cold`, and a third one here."""
    opened = Warehouse(Driver(Homes({HERE: MemoryStore(), "cold": cold}), clock))
    config: dict[str, Any] = {"cleanup.policy": "compact", "l0.segments.tier": 2}
    part = opened.create_topic("users", config=config, probe=False).partition(0)
    for key, value in ROWS.items():
        part.append([lithify.Record(key, value)])
        if key == b"b":
            lithify.Admin(opened).submit("users", 0)
            lithify.Compactor(opened, engine="local").run_once()
    files = files_of(opened, "users")
    old = opened.driver.run(files.head()).runs[0].segments[0].id
    new = f"{old[:-1]}{'0' if old[-1] != '0' else '1'}"
    found = opened.store.get(files.keys.segment(old))
    assert found is not None
    cold.put(files.keys.segment(new), found.body)
    claim_home(cold, files.keys.owner, opened.store)
    opened.driver.run(files.manifest.commit(Move(new)))
    return opened


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users").head())


def contents(warehouse: Warehouse) -> dict[bytes, bytes]:
    table = warehouse.topic("users").scan().read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def segments_in(store: Any) -> int:
    return sum(found.key.endswith(".parquet") for found in store.list("", None).objects)


def test_it_is_read(warehouse: Warehouse) -> None:
    part = warehouse.topic("users").partition(0)
    assert contents(warehouse) == ROWS
    assert [record.key for record in part.read()] == list(ROWS)
    found = part.get(b"a")
    assert found is not None
    assert found.value == b"1"


@pytest.mark.parametrize("whole", [True, False])
def test_verify_looks_into_it(warehouse: Warehouse, cold: MemoryStore, whole: bool) -> None:
    (moved,) = (each for each in cold.list("", None).objects if each.key.endswith(".parquet"))
    if not whole:
        cold.delete([moved.key])
    (check,) = Verifier(warehouse.driver, local_checks).verify().partitions
    assert (check.segments, [each.kind for each in check.findings]) == (2, [] if whole else ["missing"])


def test_it_is_compacted_and_its_bytes_are_collected_where_they_are(
    warehouse: Warehouse, cold: MemoryStore, clock: HandClock
) -> None:
    admin = lithify.Admin(warehouse)
    admin.submit("users", 0)
    lithify.Compactor(warehouse, engine="local").run_once()
    assert not head(warehouse).l0
    assert contents(warehouse) == ROWS
    (moved,) = (each for each in head(warehouse).retired if each.home == "cold")
    assert segments_in(cold) == 1
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once()
    assert moved.id not in {each.id for each in head(warehouse).retired}
    assert (segments_in(cold), segments_in(warehouse.store)) == (0, 1)
    assert contents(warehouse) == ROWS


def test_the_copy_that_a_move_leaves_behind_is_collected(
    warehouse: Warehouse, cold: MemoryStore, clock: HandClock
) -> None:
    assert (segments_in(cold), segments_in(warehouse.store)) == (1, 4)
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once()
    assert (segments_in(cold), segments_in(warehouse.store)) == (1, 1)
    assert contents(warehouse) == ROWS


def test_a_checkpoint_keeps_it_there(warehouse: Warehouse, cold: MemoryStore, clock: HandClock) -> None:
    """After its grace period it leaves the list of what is retired; the pinned manifest names it."""
    pinned = warehouse.topic("users").partition(0).snapshot(pin="before")
    lithify.Admin(warehouse).submit("users", 0)
    lithify.Compactor(warehouse, engine="local").run_once()
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once()
    assert not head(warehouse).retired
    assert pinned.scan().read_all().num_rows == len(ROWS)
    warehouse.topic("users").partition(0).delete_checkpoint("before")
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once()
    assert (segments_in(cold), segments_in(warehouse.store)) == (0, 1)
