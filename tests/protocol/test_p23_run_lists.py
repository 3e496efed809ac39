"""P23: a run list is stored whole before the first manifest that names it; and whoever reads a manifest that is not
dead finds its lists."""

from typing import Any

import pytest

from lithify.gc.collect import collect, sweep
from lithify.manifest.appends import Append
from lithify.manifest.floor import DropSegments, RaiseFloor
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.lifetime import Seal, Touch
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint
from lithify.store.errors import AccessDenied, Corrupt, Unavailable
from lithify.store.port import Delete, Get, Outcome, Request
from tests.interleave import World
from tests.protocol.days import Partition
from tests.protocol.scene import (
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    after,
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
    monkeypatch.setattr("lithify.manifest.run_lists.INLINE_MAX", 0)
    monkeypatch.setattr("lithify.manifest.run_lists.LIST_MAX", 2)


def is_list(key: str) -> bool:
    return KEYS.run_list_id(key) is not None


def creates_list(request: Request[Any]) -> bool:
    return any(is_list(each.key) for each in creates_in(request))


def creates_manifest(request: Request[Any]) -> bool:
    return any(KEYS.manifest.number(each.key) is not None for each in creates_in(request))


def lists_there(world: World) -> set[str]:
    return {i for key in world.objects if (i := KEYS.run_list_id(key)) is not None}


def begun() -> tuple[World, PartitionFiles, int]:
    """A partition with one owner and a few appends."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    return world, files, epoch


def compacting(world: World, files: PartitionFiles, epoch: int) -> Held:
    head = world.alone(files.head())
    return Held(world, files.manifest.commit(replacing(head, head.l0, epoch)))


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
    with pytest.raises(AccessDenied):
        held.fail(AccessDenied("no right to write"))
    held = compacting(world, files, epoch)
    with pytest.raises(Unavailable, match="no certain answer"):
        held.end_in_silence()
    assert world.alone(PartitionFiles(KEYS).head()) == before
    assert not lists_there(world)


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


def old_partition() -> Partition:
    """Three days of runs, one list a day or two, and everything replaced after that."""
    partition = Partition()
    for _ in range(3):
        partition.append()
        partition.compact()
    return partition


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
    assert partition.world.alone(PartitionFiles(KEYS).manifest.read(number)) is None


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


def readable(partition: Partition, name: str) -> Manifest:
    """The manifest of a checkpoint, read anew."""
    found = partition.world.alone(PartitionFiles(KEYS).manifest.read(partition.pins[name].id))
    assert found is not None
    assert found.value == partition.pins[name]
    return found.value


def test_what_a_checkpoint_pins_keeps_its_lists() -> None:
    partition = old_partition()
    partition.pin("kept")
    partition.compact(runs=True)
    partition.append()
    partition.collect(4)
    assert partition.head.retired_lists == (), "only the checkpoint names them now"
    assert {each.id for each in readable(partition, "kept").lists} <= lists_there(partition.world)
    dry = partition.world.alone(collect(PartitionFiles(KEYS), GRACE_MS, dry_run=True))
    assert any("kept only by checkpoint kept" in g.reason for g in dry.kept if is_list(g.key))
    partition.unpin("kept")
    partition.collect(2)
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}
    assert partition.named() == partition.stored()


def two_pins() -> Partition:
    """Two checkpoints that share a list, of which each names a segment that the other does not."""
    partition = old_partition()
    partition.append()
    partition.pin("first")
    partition.compact()
    partition.append()
    partition.pin("second")
    first, second = (partition.pins[name] for name in ("first", "second"))
    assert {each.id for each in first.lists} & {each.id for each in second.lists}
    partition.compact(runs=True)
    partition.append()
    partition.collect(4)
    return partition


def test_a_list_that_another_checkpoint_needs_stays() -> None:
    partition = two_pins()
    partition.unpin("first")
    partition.collect(2)
    readable(partition, "second")
    partition.unpin("second")
    partition.collect(2)
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}
    assert partition.named() == partition.stored()


def test_a_list_stays_while_a_manifest_that_names_it_was_not_looked_at() -> None:
    """The store refuses to delete a segment that only the second named: it must be found again."""
    partition = two_pins()
    only = {s.id for s in partition.pins["second"].segments()} - {s.id for s in partition.pins["first"].segments()}
    second = partition.pins["second"]
    only -= {s.id for s in partition.head.segments()}
    assert only
    partition.world.locked |= {KEYS.segment(name) for name in only}
    partition.unpin("first")
    partition.unpin("second")
    partition.collect(2)
    assert partition.head.unpinned == (second.id,)
    assert {each.id for each in second.lists} <= lists_there(partition.world)
    partition.world.locked.clear()
    partition.collect(2)
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}
    assert partition.named() == partition.stored()


@pytest.mark.parametrize("stops_before", range(12))
def test_a_pass_that_stops_anywhere_leaves_nothing_behind(stops_before: int) -> None:
    """Nothing that a sweep would be needed for, but what was left after the last commit: dead files, and lists."""
    partition = two_pins()
    partition.unpin("first")
    partition.unpin("second")
    held = Held(partition.world, collect(PartitionFiles(KEYS), GRACE_MS))
    writes = 0
    while held.request is not None and writes < stops_before:
        writes += bool(creates_in(held.request)) or isinstance(held.request, Delete)
        held.go()
    partition.collect(3)
    assert partition.named() == partition.stored()
    assert partition.head.unpinned == ()
    for _ in range(3):
        partition.world.now_ms += GRACE_MS
        partition.world.alone(sweep(partition.files, GRACE_MS))
    assert lists_there(partition.world) == {each.id for each in partition.head.lists}


def test_a_manifest_whose_list_a_sweep_took_is_not_said_to_be_looked_at() -> None:
    """1. A sweep deletes a manifest that nobody pins any more, with its lists, and stops after the lists. 2. A pass
    cannot know what else it named. 3. The next sweep takes that."""
    partition = two_pins()
    partition.unpin("second")
    second, head = partition.pins.get("second"), partition.head
    assert second is None
    (number,) = head.unpinned
    kept = {each.id for each in partition.pins["first"].lists} | {each.id for each in head.lists}
    for name in lists_there(partition.world) - kept:
        del partition.world.objects[KEYS.run_list(name)]
    partition.collect(2)
    assert partition.head.unpinned == (number,)
    for _ in range(4):
        partition.world.now_ms += GRACE_MS
        partition.world.alone(sweep(partition.files, GRACE_MS))
        partition.collect()
    assert partition.head.unpinned == ()
    assert partition.named() == partition.stored()


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


def test_a_checkpoint_that_goes_after_the_pass_looked_keeps_its_lists_in_the_books() -> None:
    """As for segments: what is handed over is decided by the checkpoints of the head that is committed."""
    partition = old_partition()
    partition.pin("kept")
    partition.compact(runs=True)
    partition.append()
    partition.collect(1)
    partition.world.now_ms += 3 * GRACE_MS
    head = partition.head
    (pin,) = head.checkpoints
    pinned = {each.id for each in partition.pins["kept"].lists}
    assert pinned <= {each.id for each in head.retired_lists}
    for first, left in ((Touch(), set[str]()), (DeleteCheckpoint(pin.id), pinned)):
        following = after(head, first, Collect(head.id, frozenset(), homes=ONLY_HERE, always=True))
        assert {each.id for each in following.retired_lists} & pinned == left


def test_a_pin_of_the_head_itself_reads_as_it() -> None:
    partition = old_partition()
    partition.world.alone(partition.files.manifest.commit(CreateCheckpoint("x", "x", None)))
    partition.pins["x"] = partition.head
    readable(partition, "x")
