"""P23: the run lists of manifests that checkpoints pin, and pinned, stay as long as they are needed; then they go."""

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect, sweep
from lithify.gc.reachable import collectable_lists, waits_for
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.keys import RunListId
from lithify.manifest.lifetime import Touch
from lithify.manifest.model import Manifest, RetiredList
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint
from lithify.store.port import Delete
from tests.protocol.days import Partition, is_list, lists_there, old_partition
from tests.protocol.scene import (
    FIRST,
    GRACE_MS,
    KEYS,
    Held,
    after,
    at,
    creates_in,
)


@pytest.fixture(autouse=True)
def _short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is listed, two segments to a list."""
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    monkeypatch.setattr("lithify.manifest.list_layout.LIST_MAX", 2)


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


@pytest.mark.parametrize(("unpinned", "goes"), [((), True), ((2,), True), ((5,), False), ((9,), True)])
def test_a_retired_list_stays_while_a_manifest_that_names_it_was_not_looked_at(
    unpinned: tuple[int, ...], goes: bool
) -> None:
    """1. A pass deletes the list, and what only manifest 5 named. 2. It dies before its commit. 3. The next one cannot
    read manifest 5, and nobody would know what else it named."""
    retired = RetiredList(id=RunListId.of(3, "0" * 16, 0), bytes=1, added_at=3, retired_at=9)
    head = replace(at(FIRST, 12), retired_lists=(retired,), unpinned=unpinned)
    assert (collectable_lists(head, 10) == [retired]) == goes
    assert ("a collection must read that first" in waits_for(retired, head, GRACE_MS, ONLY_HERE)) != goes


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
