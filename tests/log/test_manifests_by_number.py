"""A manifest by its number, and the pin of a scan that whoever reads renews (RFC 0016, 0021; P4, P20)."""

import pytest

from lithify.log.held import Renewal
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.model import SCAN_TTL_MS_MAX
from lithify.segment.read_task import Hold
from lithify.store.errors import InvalidRequest, NotFound, SnapshotExpired, Unavailable
from lithify.store.port import Create
from tests.clock import HandClock
from tests.log.compaction import collect, compact, files_of
from tests.log.planned import union

HOUR_MS = 3_600_000


def made(warehouse: Warehouse) -> Partition:
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    part.append([Record(b"k", b"0"), Record(b"j", b"1")])
    return part


def later(warehouse: Warehouse) -> None:
    part = warehouse.topic("t").partition(0)
    part.append([Record(b"k", b"later")])
    compact(warehouse, "t")
    part.append([Record(b"k", b"last")])
    collect(warehouse, "t")


def values(part: Partition, number: int) -> list[bytes]:
    return part.snapshot(manifest=number).scan().read_all().column("value").to_pylist()


def test_a_retained_manifest_is_opened_by_its_number(warehouse: Warehouse) -> None:
    part = made(warehouse)
    number = part.snapshot().manifest_id
    part.append([Record(b"k", b"2")])
    assert values(part, number) == [b"1", b"0"]
    assert values(part, number + 1) == [b"1", b"2"]
    with pytest.raises(NotFound, match=f"no manifest {number + 2} yet"):
        part.snapshot(manifest=number + 2)
    later(warehouse)
    for known in (number, number + 1):
        with pytest.raises(SnapshotExpired, match="no longer retained"):
            part.snapshot(manifest=known)


def test_a_number_that_is_created_anew_after_its_collection_is_not_believed(warehouse: Warehouse) -> None:
    part = made(warehouse)
    number, files = part.snapshot().manifest_id, files_of(warehouse, "t")
    body = warehouse.store.get(files.keys.manifest.key(number))
    assert body is not None
    later(warehouse)
    warehouse.driver.answer(Create(files.keys.manifest.key(number), body.body))
    with pytest.raises(SnapshotExpired, match="no longer retained"):
        part.snapshot(manifest=number)


def test_the_pin_of_a_scan_keeps_its_manifest_and_is_renewed_by_number(warehouse: Warehouse, clock: HandClock) -> None:
    part = made(warehouse)
    held = part.snapshot(ttl=HOUR_MS)
    assert held.checkpoint is not None
    assert [pin.owner for pin in part.checkpoints(owner=None)] == ["scan"]
    later(warehouse)
    clock.now_ms += HOUR_MS // 2
    again = warehouse.topic("t").partition(0).snapshot(manifest=held.manifest_id, ttl=HOUR_MS)
    assert again.checkpoint is not None
    assert again.checkpoint.expires_at_ms == clock.now_ms + HOUR_MS
    clock.now_ms += HOUR_MS - 1
    assert values(part, held.manifest_id) == [b"1", b"0"]
    clock.now_ms += 1
    with pytest.raises(SnapshotExpired):
        part.snapshot(manifest=held.manifest_id)


def test_what_nothing_pins_cannot_be_kept(warehouse: Warehouse) -> None:
    part = made(warehouse)
    number = part.snapshot().manifest_id
    with pytest.raises(SnapshotExpired, match="cannot be pinned"):
        part.snapshot(manifest=number, ttl=1_000)


def test_a_users_checkpoint_is_read_by_number_and_left_alone(warehouse: Warehouse, clock: HandClock) -> None:
    part = made(warehouse)
    users = part.snapshot("kept", ttl=HOUR_MS)
    clock.now_ms += HOUR_MS // 2
    by_number = part.snapshot(manifest=users.manifest_id, ttl=HOUR_MS)
    for snapshot in (users, by_number):
        snapshot.renew()
        snapshot.release()
    assert part.checkpoints() == (users.checkpoint,)
    assert all(task.hold is None for task in by_number.plan())


def test_a_scan_pins_for_an_hour_at_most(warehouse: Warehouse) -> None:
    part = made(warehouse)
    with pytest.raises(InvalidRequest, match="a scan pins for at most"):
        part.snapshot(ttl=SCAN_TTL_MS_MAX + 1)
    with pytest.raises(InvalidRequest, match="either a pin or"):
        part.snapshot("name", manifest=1)
    for number in (0, -1, "1", True):
        with pytest.raises(InvalidRequest, match="integer above 0"):
            part.snapshot(manifest=number)  # pyright: ignore[reportArgumentType]


def test_tasks_renew_the_pin_while_they_are_read_and_commit_only_when_it_is_due(
    warehouse: Warehouse, clock: HandClock
) -> None:
    part = made(warehouse)
    held = part.snapshot(ttl=9_000)
    tasks, head = held.plan(view="log", target_bytes=1), part.snapshot().manifest_id
    clock.now_ms += 2_999
    files, hold = files_of(warehouse, "t"), tasks[0].hold
    assert hold is not None
    for waited_ms, commits in ((0, 0), (1, 1), (1, 1), (3_001, 2)):
        clock.now_ms += waited_ms
        warehouse.driver.run(Renewal(files, hold).keep())
        assert part.snapshot().manifest_id == head + commits
    (pin,) = part.checkpoints(owner="scan")
    assert pin.expires_at_ms == clock.now_ms + 9_000


@pytest.mark.parametrize("error", [Unavailable("away"), NotFound("gone")])
def test_a_renewal_that_fails_ends_no_read(
    warehouse: Warehouse, clock: HandClock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    part = made(warehouse)
    held = part.snapshot(ttl=9_000)
    hold = held.plan()[0].hold
    assert hold is not None

    renewal = Renewal(files_of(warehouse, "t"), hold)

    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("lithify.manifest.partition.PartitionFiles.head", fails)
    for _ in range(3):
        clock.now_ms += 5_000
        warehouse.driver.run(renewal.keep())


def test_a_pin_that_was_let_go_ends_no_read_until_a_file_is_missing(warehouse: Warehouse, clock: HandClock) -> None:
    part = made(warehouse)
    held = part.snapshot(ttl=9_000)
    tasks = held.plan()
    assert tasks[0].hold == Hold(held.checkpoint.id if held.checkpoint else "", 9_000, clock.now_ms + 9_000)
    held.release()
    held.release()
    assert part.checkpoints(owner=None) == ()
    assert [row["value"] for row in union(tasks, warehouse.store)] == [b"1", b"0"]
    later(warehouse)
    with pytest.raises(SnapshotExpired, match="no longer retained"):
        union(tasks, warehouse.store)
