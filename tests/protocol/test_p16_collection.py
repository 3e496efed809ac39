"""P16: bytes go when no manifest above the boundary and no pinned one names them; bytes first, then the commit."""

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect, sweep
from lithify.gc.reachable import collectable
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.model import Checkpoint, Manifest, Retired
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, CreateCheckpoint
from lithify.store.port import Create, Delete, Get, Head, List
from tests.interleave import World
from tests.protocol.scene import FIRST, GRACE_MS, KEYS, Held, appends, at, claim, compact, new_partition

GONE = Retired(id="s", bytes=1, rows=1, added_at=5, retired_at=9)


def pinned(*numbers: int) -> Manifest:
    pins = tuple(Checkpoint(id=f"c{n}", name=f"c{n}", manifest=n, created_at_ms=0) for n in numbers)
    return replace(at(FIRST, 50), retired=(GONE,), checkpoints=pins)


def test_all_bytes_go_however_many_requests_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.gc.objects.DELETE_KEYS_MAX", 2)
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 5))
    replaced = {KEYS.segment(s.id) for s in world.alone(files.head()).l0}
    world.alone(compact(files, epoch))
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert len(replaced) == 5
    assert not replaced & world.objects.keys()


@pytest.mark.parametrize(("boundary", "goes"), [(8, False), (9, True), (10, True)])
def test_bytes_go_when_the_boundary_reaches_their_retirement(boundary: int, goes: bool) -> None:
    assert (collectable(pinned(), boundary, ONLY_HERE) == [GONE]) == goes


@pytest.mark.parametrize(("pin", "goes"), [(4, True), (5, False), (8, False), (9, True)])
def test_a_checkpoint_holds_what_its_manifest_names(pin: int, goes: bool) -> None:
    assert (collectable(pinned(pin), 20, ONLY_HERE) == [GONE]) == goes


def compacted(files: PartitionFiles, world: World) -> set[str]:
    """Two appends, merged; answers with the keys of the replaced segments."""
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    replaced = {KEYS.segment(s.id) for s in world.alone(files.head()).l0}
    world.alone(compact(files, epoch))
    return replaced


def ripe(world: World, files: PartitionFiles) -> set[str]:
    """One pass short of collecting what `compacted` replaced."""
    replaced = compacted(files, world)
    world.alone(collect(files, GRACE_MS))
    world.now_ms += GRACE_MS
    assert replaced <= world.objects.keys()
    return replaced


def test_bytes_first_then_the_commit_that_forgets_them() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    replaced = ripe(world, files)
    held = Held(world, collect(files, GRACE_MS))
    held.until(lambda r: isinstance(r, Create) and KEYS.manifest.number(r.key) is not None)
    assert replaced <= held.deleted
    assert not replaced & world.objects.keys()
    boundary = held.end().boundary
    head = world.alone(files.head())
    assert head.retired == ()
    assert head.orphan_floor == boundary >= 5


def test_a_crash_after_the_bytes_leaves_entries_that_the_next_pass_forgets() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    ripe(world, files)
    held = Held(world, collect(files, GRACE_MS))
    held.until(lambda r: isinstance(r, Create) and KEYS.manifest.number(r.key) is not None)
    assert len(world.alone(files.head()).retired) == 2
    world.alone(collect(PartitionFiles(KEYS), GRACE_MS))
    assert world.alone(files.head()).retired == ()


def test_no_reader_of_a_retained_manifest_meets_a_missing_file() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    for _ in range(6):
        compacted(files, world)
        world.now_ms += GRACE_MS // 2
        world.alone(collect(files, GRACE_MS))
        retained = [n for key in world.objects if (n := KEYS.manifest.number(key)) is not None]
        boundary = world.alone(files.boundary.refresh()).value
        for number in (n for n in retained if boundary is None or n > boundary.manifest):
            manifest = world.alone(files.manifest.read(number)).value
            assert all(KEYS.segment(s.id) in world.objects for s in manifest.segments())
    assert boundary is not None
    assert boundary.manifest > 1


def test_a_pinned_manifest_keeps_its_segments() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 2))
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c", "c", None))).version
    replaced = compacted(files, world)
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    held_by_pin = {KEYS.segment(s.id) for s in pin.value.segments()}
    assert held_by_pin <= world.objects.keys()
    assert not (replaced - held_by_pin) & world.objects.keys()
    assert world.alone(PartitionFiles(KEYS).manifest.read(pin.number)).value == pin.value


def test_normal_collection_lists_nothing_and_with_nothing_to_do_writes_nothing() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    ripe(world, files)
    held = Held(world, collect(files, GRACE_MS))
    held.end()
    world.alone(collect(files, GRACE_MS))
    idle = Held(world, collect(files, GRACE_MS))
    idle.end()
    assert held.asked_for(List) == idle.asked_for(List) == []
    assert idle.asked_for(Create, Delete) == []
    assert len(idle.asked_for(Get, Head)) <= 8


def test_a_dry_run_names_what_would_go_and_touches_nothing() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    replaced = ripe(world, files)
    before = dict(world.objects)
    held = Held(world, collect(files, GRACE_MS, dry_run=True))
    done = held.end()
    assert world.objects == before
    assert held.asked_for(Create, Delete) == []
    assert replaced <= {g.key for g in done.deleted}


def test_what_the_head_itself_retired_is_not_stuck_in_an_idle_partition() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    replaced = compacted(files, world)  # and nobody commits any more
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert not replaced & world.objects.keys()


def test_forgetting_raises_the_floor_and_the_floor_never_falls() -> None:
    head = replace(pinned(), orphan_floor=12)
    for boundary, floor in ((20, 20), (9, 12)):
        verdict = Collect(boundary, frozenset({"s"}), homes=ONLY_HERE).apply(head, 51, 0)
        assert verdict.value.orphan_floor == floor
        assert verdict.value.retired == ()


def test_an_object_that_cannot_be_deleted_keeps_no_other_entry() -> None:
    """A lock on one object: it alone stays in the list, is named by every pass, and goes once the lock is gone."""
    world, files = new_partition(), PartitionFiles(KEYS)
    replaced = ripe(world, files)
    locked, *others = sorted(replaced)
    world.locked.add(locked)
    first = world.alone(collect(files, GRACE_MS))
    assert [g.key for g in first.refused] == [locked]
    assert locked not in {g.key for g in first.deleted}
    assert set(others) <= {g.key for g in first.deleted}
    assert [KEYS.segment(r.id) for r in world.alone(files.head()).retired] == [locked]
    swept = world.alone(sweep(files, GRACE_MS))
    assert locked not in {g.key for g in swept.deleted}
    world.locked.clear()
    assert [g.key for g in world.alone(collect(files, GRACE_MS)).deleted] == [locked]
    assert world.alone(files.head()).retired == ()
