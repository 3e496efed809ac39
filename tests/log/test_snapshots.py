"""Snapshots and pins: one manifest, readable for as long as it was promised (P16, P17, P20)."""

from datetime import timedelta
from typing import Any

import pytest

from lithify.log import checkpoints
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.log.warehouse import Warehouse
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, RefreshCheckpoint
from lithify.store.errors import AlreadyExists, InvalidRequest, NotFound, SnapshotExpired
from tests.clock import HandClock
from tests.log.compaction import collect, compact, raise_floor
from tests.protocol.scene import KEYS, new_partition

COMPACTED = {"cleanup.policy": "compact"}


def values(snapshot: Snapshot) -> list[bytes | None]:
    return [record.value for record in snapshot.read()]


def later(warehouse: Warehouse) -> None:
    """Everything the snapshot read is replaced and, unless pinned, collected."""
    part = warehouse.topic("t").partition(0)
    part.append([Record(b"k", b"later")])
    compact(warehouse, "t")
    part.append([Record(b"k", b"last")])
    collect(warehouse, "t")


@pytest.mark.slow
def test_a_pin_outlives_compaction_and_collection_and_is_found_by_name(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"0"), Record(b"j", b"1")])
    pinned = part.snapshot(pin="before", ttl=timedelta(hours=1))
    assert pinned.checkpoint is not None
    assert pinned.checkpoint.manifest == pinned.manifest_id == part.describe().manifest_id
    later(any_warehouse)
    found = any_warehouse.topic("t").partition(0).snapshot(pin="before")
    assert (found.manifest_id, found.checkpoint) == (pinned.manifest_id, pinned.checkpoint)
    for snapshot in (pinned, found):
        assert values(snapshot) == [b"0", b"1"]
        assert snapshot.scan().read_all().column("value").to_pylist() == [b"1", b"0"]
        assert snapshot.get(b"k") == Record(b"k", b"0", snapshot.get(b"j").timestamp_ms, (), 0)  # pyright: ignore
    assert [record.value for record in part.read()] == [b"1", b"later", b"last"]


def test_a_snapshot_shows_its_manifest_and_nothing_later(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"0"), Record(b"j", b"1")])
    snapshot = part.snapshot()
    reading = snapshot.read()
    assert next(reading).value == b"0"
    part.append([Record(b"k", b"2")])
    raise_floor(warehouse, 2)
    compact(warehouse, "t")
    assert [record.value for record in reading] == [b"1"]
    assert (values(snapshot), snapshot.next_offset, snapshot.log_start_offset) == ([b"0", b"1"], 2, 0)


@pytest.mark.slow
def test_what_outlived_its_manifest_is_expired_not_corrupt(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"0")])
    snapshot = part.snapshot()
    reading = snapshot.read()
    later(any_warehouse)
    for use in (
        lambda: values(snapshot),
        lambda: snapshot.scan().read_all(),
        lambda: snapshot.get(b"k"),
        lambda: next(reading),
    ):
        with pytest.raises(SnapshotExpired, match="give it a pin"):
            use()


def test_a_deleted_checkpoint_lets_its_manifest_go(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"0")])
    pinned = part.snapshot("a")
    part.snapshot("b")
    assert [checkpoint.name for checkpoint in part.checkpoints()] == ["a", "b"]
    part.delete_checkpoint("a")
    assert [checkpoint.name for checkpoint in part.checkpoints()] == ["b"]
    part.delete_checkpoint("b")
    later(warehouse)
    with pytest.raises(SnapshotExpired):
        values(pinned)
    again = part.snapshot("a")
    assert again.manifest_id > pinned.manifest_id
    for use in (part.delete_checkpoint, part.refresh_checkpoint):
        with pytest.raises(NotFound, match="no checkpoint 'b'"):
            use("b")


def test_an_expiry_is_set_and_refreshed_by_the_stores_clock(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t").partition(0)
    pinned = part.snapshot("a", ttl=1000).checkpoint
    assert pinned is not None
    assert (pinned.created_at_ms, pinned.expires_at_ms) == (clock.now_ms, clock.now_ms + 1000)
    clock.now_ms += 500
    found = part.snapshot("a", ttl=9).checkpoint
    assert found == pinned
    assert part.refresh_checkpoint("a", timedelta(seconds=2)).expires_at_ms == clock.now_ms + 2000
    assert part.refresh_checkpoint("a").expires_at_ms is None
    assert [checkpoint.expires_at_ms for checkpoint in part.checkpoints()] == [None]


@pytest.mark.parametrize(
    "arguments", [{"ttl": 0}, {"ttl": 3_600_001}, {"pin": ""}, {"pin": "x" * 250}, {"pin": 7}, {"pin": "a\nb"}]
)
def test_pins_have_names(warehouse: Warehouse, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        warehouse.create_topic("t").partition(0).snapshot(**arguments)


@pytest.mark.parametrize("ttl", [0, -1, 1.5, True, "1", timedelta(0), timedelta(days=36_501), 2**63])
def test_a_ttl_is_above_zero(warehouse: Warehouse, ttl: Any) -> None:
    with pytest.raises(InvalidRequest, match="ttl"):
        warehouse.create_topic("t").partition(0).snapshot("a", ttl=ttl)


def test_what_is_pinned_is_opened_without_pinning(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append([Record(key=b"k", value=b"v")])
    made = part.snapshot("a")
    part.append([Record(key=b"k", value=b"w")])
    found = part.pinned("a")
    assert (found.manifest_id, found.checkpoint) == (made.manifest_id, made.checkpoint)
    assert [record.value for record in found.read()] == [b"v"]
    with pytest.raises(NotFound, match="no checkpoint 'b'"):
        part.pinned("b")
    assert [checkpoint.name for checkpoint in part.checkpoints()] == ["a"]


def test_a_name_that_has_expired_is_nobodys_whether_or_not_it_was_collected(
    warehouse: Warehouse, clock: HandClock
) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"old")])
    old = part.snapshot(pin="daily", ttl=1_000)
    part.append([Record(b"k", b"new")])
    clock.now_ms += 999
    assert values(part.snapshot(pin="daily", ttl=1_000)) == [b"old"], "it has not expired"
    clock.now_ms += 1
    with pytest.raises(NotFound, match=r"'daily' has expired.*take a new one"):
        part.pinned("daily")
    with pytest.raises(NotFound, match="expired"):
        part.refresh_checkpoint("daily", 1_000)
    assert [pinned.name for pinned in part.checkpoints()] == ["daily"], "it keeps its bytes until a commit removes it"
    new = part.snapshot(pin="daily", ttl=1_000)
    assert values(new) == [b"old", b"new"]
    assert (new.checkpoint in part.checkpoints(), len(part.checkpoints())) == (True, 1), "the expired one went with it"
    assert values(old) == [b"old"], "its manifest is still retained"
    clock.now_ms += 1_000
    part.delete_checkpoint("daily")
    assert part.checkpoints() == ()


def test_one_that_was_refreshed_since_it_was_found_expired_is_not_replaced() -> None:
    world = new_partition()
    files = PartitionFiles(KEYS)
    _, stale = world.alone(checkpoints.pin(files, "daily", 1_000))
    world.now_ms += 500
    fresh = world.alone(files.manifest.commit(RefreshCheckpoint(stale.id, None))).result
    edit = CreateCheckpoint("another", "daily", None, stale)
    with pytest.raises(AlreadyExists, match="'daily'"):
        world.alone(files.manifest.commit(edit))
    assert world.alone(PartitionFiles(KEYS).head()).checkpoints == (fresh,)
