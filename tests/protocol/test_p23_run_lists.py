"""P23: a run list is stored whole before the first manifest that names it; and whoever reads a manifest that is not
dead finds its lists."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect, sweep
from lithify.gc.reachable import Reach, next_boundary
from lithify.manifest.appends import Append
from lithify.manifest.floor import DropSegments, RaiseFloor
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.keys import RunListId, SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import FORMAT_LISTS, Manifest, RetiredList
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import AccessDenied, CommitUnknown, Corrupt, Unavailable
from lithify.store.port import Delete, Get, Outcome, Request
from tests.interleave import World
from tests.protocol.days import Partition, is_list, lists_there, old_partition
from tests.protocol.scene import (
    FIRST,
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    append,
    appends,
    claim,
    creates_in,
    new_partition,
    replacing,
    upload,
)


@pytest.fixture(autouse=True)
def _short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is listed, two segments to a list."""
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    monkeypatch.setattr("lithify.manifest.list_layout.LIST_MAX", 2)


def creates_list(request: Request[Any]) -> bool:
    return any(is_list(each.key) for each in creates_in(request))


def creates_manifest(request: Request[Any]) -> bool:
    return any(KEYS.manifest.number(each.key) is not None for each in creates_in(request))


def begun() -> tuple[World, PartitionFiles, int]:
    """A partition with one owner and a few appends."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    return world, files, epoch


def compacting(world: World, files: PartitionFiles, epoch: int) -> Held:
    head = world.alone(files.head())
    return Held(world, files.manifest.commit(replacing(head, head.l0, epoch)))


def compacting_runs(world: World, files: PartitionFiles, epoch: int) -> Held:
    head = world.alone(files.head())
    done = tuple(job.id for job in head.completed_jobs)
    job = SegmentId.for_job(head.id, "e" * 16)
    return Held(world, files.manifest.commit(replacing(head, head.segments(), epoch, job=job, forget=done)))


def test_a_list_is_stored_before_the_manifest_that_names_it() -> None:
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    (made,) = creates_in(held.until(creates_list))
    held.go()
    assert made.key in world.objects
    held.until(creates_manifest)
    named = held.end().version.value.lists
    assert [KEYS.run_list(each.id) for each in named] == [made.key]
    assert made.frees, "a compaction may use the reserve of a full disk, and so may its lists"


@pytest.mark.parametrize("arrives", [False, True])
def test_no_manifest_is_created_until_it_is_certain_that_its_list_is_there(arrives: bool) -> None:
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    made = held.until(creates_list)
    if arrives:
        world._answer(made)
    for _ in range(3):
        held.until(creates_list)
        held.reply(Outcome.UNKNOWN)
    held.until(creates_manifest)
    assert lists_there(world) == {KEYS.run_list_id(each.key) for each in creates_in(made)}


def test_a_reply_that_did_not_come_from_the_store_proves_no_list() -> None:
    """A proxy says that it exists, and nothing is there."""
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    held.until(creates_list)
    held.reply(Outcome.EXISTS)
    again = held.until(lambda request: creates_list(request) or creates_manifest(request))
    assert creates_list(again)


def test_where_a_list_cannot_be_stored_nothing_is_committed() -> None:
    world, files, epoch = begun()
    before = world.alone(PartitionFiles(KEYS).head())
    held = compacting(world, files, epoch)
    held.until(creates_list)
    with pytest.raises(AccessDenied, match="no right to write"):
        held.fail(AccessDenied("no right to write"))
    held = compacting(world, files, epoch)
    with pytest.raises(Unavailable, match="no certain answer"):
        held.end_in_silence()
    assert world.alone(PartitionFiles(KEYS).head()) == before
    assert not lists_there(world)


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("fails", ["the last list", "the manifest"])
def test_what_was_stored_of_the_lists_goes_if_the_rest_cannot_be(
    fails: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk they would take the room that a deletion of the topic needs. Who may not delete leaves them to the
    sweep."""
    partition = Partition()
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 8)
    partition.append()
    partition.compact()
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    monkeypatch.setattr("lithify.manifest.list_layout.LIST_MAX", 1)
    partition.append()
    world = partition.world
    held = compacting(world, partition.files, partition.epoch)
    made = creates_in(held.until(creates_list))
    assert len(made) == 2
    full = Unavailable("the disk is full")
    if fails == "the manifest":
        held.until(creates_manifest)
        held.fail(full)
    else:
        held.answers(lambda request: full if getattr(request, "key", "") == made[-1].key else None)
    assert made[0].key in world.objects
    assert isinstance(held.request, Delete)
    with pytest.raises(Unavailable, match="the disk is full"):
        held.fail(AccessDenied("no right to delete")) if refused else held.end()
    assert (made[0].key in world.objects) == refused


def test_lists_of_a_commit_that_may_have_happened_stay() -> None:
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    held.until(creates_manifest)
    held.reply(Outcome.UNKNOWN)
    held.until(creates_manifest)
    held.fail(AccessDenied("no right any more"))
    with pytest.raises(CommitUnknown):
        held.end()
    assert lists_there(world)


def test_a_rival_whose_list_is_damaged_stops_nobody_who_does_not_need_it() -> None:
    """It won one number; whoever came after it has other lists."""
    world, files, epoch = begun()
    held = Held(world, PartitionFiles(KEYS).manifest.commit(Append(world.alone(upload(files)), L0_MAX)))
    held.until(creates_manifest)
    compacting(world, files, epoch).end()
    (damaged,) = lists_there(world)
    world.alone(appends(files, 2))
    compacting_runs(world, files, epoch).end()
    world.objects[KEYS.run_list(damaged)] = (b"{}", world.now_ms)
    assert held.end().result == range(4, 5)


def test_a_commit_that_loses_a_race_names_the_list_that_it_has_stored() -> None:
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    held.until(creates_manifest)
    world.alone(append(PartitionFiles(KEYS)))
    made = held.end().version.value
    assert len(lists_there(world)) == len(made.lists) == 1
    assert made.lists[0].added_at == made.id
    assert made.segments() == world.alone(PartitionFiles(KEYS).head()).segments()
    assert {s.added_at for run in made.runs for s in run.segments} == {made.id}


def test_a_list_that_a_sweep_may_have_taken_is_not_named() -> None:
    """1. A compactor stores a list, and stalls. 2. Manifests are collected, and a sweep takes the list. 3. Its commit
    loses the race, and would name the list."""
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    held.until(creates_manifest)
    (stored,) = lists_there(world)
    rival = PartitionFiles(KEYS)
    world.alone(appends(rival, 3))
    for _ in range(4):
        world.now_ms += GRACE_MS
        world.alone(sweep(rival, GRACE_MS))
        world.alone(appends(rival, 2))
    assert stored not in lists_there(world)
    made = held.end().version.value
    assert {each.id for each in made.lists} == lists_there(world)
    assert world.alone(PartitionFiles(KEYS).head()) == made


def test_a_young_list_stays_until_its_commit_can_name_it_no_more() -> None:
    world, files, epoch = begun()
    held = compacting(world, files, epoch)
    held.until(creates_manifest)
    world.alone(sweep(PartitionFiles(KEYS), GRACE_MS))
    kept = world.alone(sweep(PartitionFiles(KEYS), GRACE_MS, dry_run=True)).kept
    assert [g.reason.partition(",")[0] for g in kept if is_list(g.key)] == ["it was written for manifest 5"]
    held.end()
    assert world.alone(PartitionFiles(KEYS).head()).lists


def test_an_append_writes_no_list_and_reads_none_that_it_knows() -> None:
    world, files, epoch = begun()
    compacting(world, files, epoch).end()
    ref = world.alone(upload(files))
    held = Held(world, files.manifest.commit(Append(ref, L0_MAX)))
    held.end()
    assert not [each for each in held.asked if creates_list(each)]
    assert not [each for each in held.asked_for(Get) if is_list(each.key)]  # type: ignore[attr-defined]


def test_a_rival_whose_list_cannot_be_read_leaves_no_doubt_about_an_append() -> None:
    """It lost the race for that number, whatever the rival's manifest says."""
    world, files, epoch = begun()
    held = Held(world, PartitionFiles(KEYS).manifest.commit(Append(world.alone(upload(files)), L0_MAX)))
    held.until(creates_manifest)
    compacting(world, files, epoch).end()
    held.until(lambda request: isinstance(request, Get) and is_list(request.key))
    with pytest.raises(Unavailable) as raised:
        held.fail(Unavailable("no answer"))
    assert type(raised.value) is Unavailable


def test_a_missing_list_of_a_manifest_that_is_not_dead_is_damage() -> None:
    world, files, epoch = begun()
    compacting(world, files, epoch).end()
    (name,) = lists_there(world)
    del world.objects[KEYS.run_list(name)]
    with pytest.raises(Corrupt, match=rf"{name}\.runs is missing, and .*manifest needs it.* Restore the object"):
        world.alone(PartitionFiles(KEYS).head())


def test_a_dead_manifest_without_its_list_is_no_damage() -> None:
    partition = old_partition()
    number = partition.head.id
    body = partition.world.objects[KEYS.manifest.key(number)]
    gone = {each.id for each in partition.head.lists}
    partition.compact(runs=True)
    partition.append()
    partition.collect(4)
    assert not gone & lists_there(partition.world)
    partition.world.objects[KEYS.manifest.key(number)] = body  # its deletion did not arrive
    found = partition.world.alone(PartitionFiles(KEYS).manifest.read(number))
    assert found.value is None
    assert KEYS.run_list_id(found.lacks) in gone


def test_a_replaced_list_goes_after_its_grace_period_and_no_earlier() -> None:
    partition = old_partition()
    was = {each.id for each in partition.head.lists}
    partition.compact(runs=True)
    assert {each.id for each in partition.head.retired_lists} >= was
    partition.append()
    partition.world.alone(collect(partition.files, GRACE_MS))
    assert was <= lists_there(partition.world)
    partition.collect(4)
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}
    assert partition.head.retired_lists == ()


def test_the_boundary_moves_for_a_list_alone() -> None:
    """What was replaced with it may be in a home that this process cannot reach."""
    retired = RetiredList(id=RunListId.of(3, "0" * 16, 0), bytes=1, added_at=3, retired_at=5)
    waiting = replace(FIRST, id=9, format=FORMAT_LISTS, retired_lists=(retired,))
    assert next_boundary(waiting, None, Reach(8, 0), ONLY_HERE) == Reach(8, 0)
    assert next_boundary(replace(waiting, retired_lists=()), None, Reach(8, 0), ONLY_HERE) is None


def test_a_list_that_the_store_keeps_is_not_forgotten() -> None:
    """A lock on an object, a missing permission."""
    partition = old_partition()
    was = {each.id for each in partition.head.lists}
    partition.world.locked |= {KEYS.run_list(name) for name in was}
    partition.compact(runs=True)
    partition.append()
    partition.collect(4)
    assert was <= {each.id for each in partition.head.retired_lists}
    partition.world.locked.clear()
    partition.collect(2)
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}
    assert partition.head.retired_lists == ()


def test_a_dry_run_tells_what_a_list_waits_for_and_deletes_none() -> None:
    partition = old_partition()
    partition.compact(runs=True)
    partition.append()
    there = lists_there(partition.world)
    dry = partition.world.alone(collect(partition.files, GRACE_MS, dry_run=True))
    assert {KEYS.run_list_id(g.key) for g in dry.kept if is_list(g.key)} == {
        each.id for each in partition.head.retired_lists
    }
    assert all("readable for the grace period" in g.reason for g in dry.kept if is_list(g.key))
    assert lists_there(partition.world) == there


def test_a_deleted_topic_leaves_no_list() -> None:
    partition = old_partition()
    partition.world.alone(partition.files.manifest.commit(Seal()))
    assert partition.head.lists == ()
    done = partition.collect(6)
    assert not lists_there(partition.world)
    assert done[-1].finished


def test_a_drop_lists_what_is_left_anew() -> None:
    partition = old_partition()
    assert sum(each.segments for each in partition.head.lists) == 3
    first = partition.head.runs[0].segments[0]
    partition.world.alone(partition.files.manifest.commit(RaiseFloor(first.max_offset + 1)))
    partition.world.alone(partition.files.manifest.commit(DropSegments(partition.epoch, frozenset())))
    head = partition.head
    assert first.id not in {s.id for s in head.segments()}
    assert sum(each.segments for each in head.lists) == 2
    assert world_reads(partition) == head


def world_reads(partition: Partition) -> Manifest:
    return partition.world.alone(PartitionFiles(KEYS).head())


def test_a_head_whose_list_is_collected_while_it_is_looked_for_is_looked_for_again() -> None:
    """1. We find manifest 9 to be the last. 2. Others go on, and 9 is collected with its list. 3. We read its body,
    which was still there, and no list."""
    partition = old_partition()
    number = partition.head.id
    reader = PartitionFiles(KEYS)
    held = Held(partition.world, reader.head())
    held.until(lambda request: KEYS.manifest.key(number) in _keys(request))
    body = partition.world.objects[KEYS.manifest.key(number)]
    partition.compact(runs=True)
    partition.append()
    partition.collect(4)
    partition.world.objects[KEYS.manifest.key(number)] = body
    assert held.end() == partition.head


def _keys(request: Request[Any]) -> list[str]:
    requests = getattr(request, "requests", (request,))
    return [each.key for each in requests if isinstance(each, Get)]
