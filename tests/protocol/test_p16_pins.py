"""P16: what only checkpoints keep leaves the retired list, and is found again once they are gone."""

import random

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect, sweep
from lithify.manifest.edits import Next
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import UNPINNED_MAX, Checkpoint, Manifest, Retired
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint, handed_over, unpinned
from lithify.store.port import Create
from tests.everyday import seeds
from tests.protocol.days import PER_DAY, Partition
from tests.protocol.scene import FIRST, GRACE_MS, KEYS, Held, at

RETIRED = 24  # the bound of the list in these tests


@pytest.fixture(autouse=True)
def _small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("compactions", "floor", "invariants"):
        monkeypatch.setattr(f"lithify.manifest.{module}.RETIRED_MAX", RETIRED)


def test_a_checkpoint_a_day_never_stops_compaction() -> None:
    partition = Partition()
    for day in range(3 * RETIRED // PER_DAY):
        partition.day(f"day {day}")
    assert partition.named() == partition.stored()
    assert partition.head.retired == ()


def test_what_a_checkpoint_kept_goes_with_the_pass_after_its_deletion() -> None:
    partition = Partition()
    for day in range(4):
        partition.day(f"day {day}")
    pinned = partition.pins["day 1"]
    partition.unpin("day 1")
    assert partition.head.unpinned == (pinned.id,)
    (done,) = partition.collect()
    only_there = {KEYS.segment(s.id) for s in pinned.segments()} - {KEYS.segment(i) for i in partition.named()}
    assert only_there
    assert only_there <= {g.key for g in done.deleted}
    assert partition.named() == partition.stored()
    assert not partition.files_of(pinned), "its file is dead, too, and nothing else would find it before a sweep"
    assert partition.head.unpinned == ()


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_pins_come_and_go_in_any_order_and_nothing_is_lost_or_left(seed: int) -> None:
    """Any order of appends, pins, deletions, compactions and passes: what somebody may read is there at every moment,
    and at rest nothing else is, without a sweep."""
    say, partition = random.Random(seed), Partition()
    acts = "append", "append", "compact", "compact", "compact", "pin", "pin", "unpin", "unpin", "collect", "collect"
    for number in range(120):
        match say.choice(acts):
            case "append" if len(partition.head.l0) < PER_DAY:
                partition.append()
            case "compact" if partition.head.l0:
                partition.compact(runs=say.random() < 0.4)
            case "pin" if len(partition.pins) < 5:
                partition.pin(f"c{number}")
            case "unpin" if partition.pins:
                partition.unpin(say.choice([*partition.pins]))
            case "collect":
                *_, done = partition.collect(say.choice((1, 1, 3)))
                assert done.waiting == len(partition.head.retired), "what it tells to wait is what it left in the list"
                assert partition.readable() <= partition.stored()
            case _:
                continue
        # So that the list is never full of what has not been collected yet.
        if len(partition.head.retired) + len(partition.head.segments()) > RETIRED - PER_DAY:
            if len(partition.head.runs) > RETIRED // 4:
                partition.compact(runs=True)
            partition.collect(3)
    partition.collect(4)
    assert partition.stored() == partition.named()
    assert (partition.head.retired, partition.head.unpinned) == ((), ())


@pytest.mark.parametrize("passes", [0, 1])
def test_an_entry_is_handed_over_to_a_checkpoint_that_is_still_there(passes: int) -> None:
    """The collector has looked, and is slow; meanwhile the checkpoint goes, and perhaps another pass was there."""
    partition = Partition()
    partition.append()
    partition.pin("c")
    partition.compact()
    partition.collect()
    partition.world.now_ms += GRACE_MS
    slow = Held(partition.world, collect(PartitionFiles(KEYS), GRACE_MS))
    slow.until(lambda request: isinstance(request, Create) and KEYS.manifest.number(request.key) is not None)
    partition.unpin("c")
    partition.collect(passes)
    slow.end()
    partition.collect(3)
    assert partition.stored() == partition.named()


def test_nothing_is_handed_over_to_a_checkpoint_that_goes_in_the_same_commit() -> None:
    partition = Partition()
    partition.append()
    partition.world.alone(partition.files.manifest.commit(CreateCheckpoint("c", "c", 3 * GRACE_MS // 2)))
    partition.compact()
    _, done = partition.collect(2)
    assert done.checkpoints_expired == 1
    partition.collect(2)
    assert partition.stored() == partition.named()


def test_what_the_store_will_not_delete_is_tried_again() -> None:
    partition = Partition()
    partition.day("c")
    locked = min(KEYS.segment(s.id) for s in partition.pins["c"].segments())
    partition.world.locked.add(locked)
    partition.unpin("c")
    (done,) = partition.collect()
    assert [g.key for g in done.refused] == [locked]
    assert partition.head.unpinned
    partition.world.locked.clear()
    (done,) = partition.collect()
    assert locked in {g.key for g in done.deleted}
    assert partition.stored() == partition.named()


@pytest.mark.parametrize("what", ["unpinned", "above"])
def test_a_damaged_manifest_stops_nothing_and_is_named_until_it_is_restored(what: str) -> None:
    partition = Partition()
    partition.day("c")
    partition.day("d")
    damaged = KEYS.manifest.key(partition.pins["c" if what == "unpinned" else "d"].id)
    body, at_ms = partition.world.objects[damaged]
    partition.unpin("c")
    partition.world.objects[damaged] = (body[:-9], at_ms)
    before = partition.stored()
    partition.append()
    partition.compact()
    *_, done = partition.collect(3)
    assert partition.head.retired == (), "other garbage goes as ever"
    assert partition.stored() >= before - {s.id for s in partition.head.segments()} - done_of(partition)
    assert damaged in "".join(g.reason for g in done.kept)
    partition.world.objects[damaged] = (body, at_ms)
    partition.collect()
    assert partition.stored() == partition.named()


def done_of(partition: Partition) -> set[str]:
    """What the latest run replaced, and no checkpoint names."""
    return partition.stored() - partition.named()


def test_what_a_sweep_took_is_forgotten() -> None:
    partition = Partition()
    partition.day("c")
    partition.unpin("c")
    partition.world.alone(sweep(partition.files, GRACE_MS))
    assert partition.stored() == partition.named()
    partition.collect()
    assert partition.head.unpinned == ()


def test_what_an_earlier_lithify_forgets_to_note_is_left_to_the_sweep() -> None:
    """It deletes a checkpoint, or commits anything else, and knows no `unpinned`."""
    partition = Partition()
    partition.day("c")
    partition.unpin("c")
    partition.world.alone(partition.files.manifest.commit(Forgets()))
    partition.collect(2)
    assert partition.stored() > partition.named()
    partition.world.alone(sweep(partition.files, GRACE_MS))
    assert partition.stored() == partition.named()


class Forgets:
    """What a commit of it makes of the field."""

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(head, unpinned=()), None)


def test_a_deleted_topic_lets_go_of_what_its_checkpoints_kept() -> None:
    partition = Partition()
    for day in range(3):
        partition.day(f"day {day}")
    partition.world.alone(partition.files.manifest.commit(Seal()))
    *_, done = partition.collect(4)
    assert done.finished
    assert partition.stored() == set()


def test_a_dry_run_names_the_checkpoint_that_keeps_a_segment_and_what_lets_it_go() -> None:
    partition = Partition()
    partition.day("c")
    objects = dict(partition.world.objects)
    (done,) = [partition.world.alone(collect(partition.files, GRACE_MS, dry_run=True))]
    assert partition.world.objects == objects
    kept = {g.key: g.reason for g in done.kept}
    assert {KEYS.segment(s.id) for s in partition.pins["c"].segments()} == kept.keys()
    assert all("`lithify checkpoint delete t c`" in reason for reason in kept.values())
    partition.unpin("c")
    (done,) = [partition.world.alone(collect(partition.files, GRACE_MS, dry_run=True))]
    assert kept.keys() <= {g.key for g in done.deleted}


def entry(added_at: int, retired_at: int, home: str = "") -> Retired:
    return Retired(id=f"{added_at}-{retired_at}", bytes=1, rows=1, added_at=added_at, retired_at=retired_at, home=home)


def pins(*numbers: int) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(id=f"c{n}", name=f"c{n}", manifest=n, created_at_ms=0) for n in numbers)


def test_only_what_has_had_its_grace_and_is_pinned_here_is_handed_over() -> None:
    retired = (entry(5, 9), entry(9, 12), entry(5, 21), entry(5, 10, "elsewhere"), entry(1, 5))
    assert handed_over(retired, pins(30, 7), 20, ONLY_HERE) == {"5-9"}
    assert handed_over(retired, pins(8, 9, 2), 12, ONLY_HERE) == {"5-9", "9-12", "1-5"}
    assert handed_over(retired, pins(9, 21), 20, ONLY_HERE) == {"9-12"}
    assert handed_over(retired, (), 20, ONLY_HERE) == frozenset()


def test_of_a_checkpoint_that_came_and_went_within_a_grace_period_nothing_is_noted() -> None:
    """Nothing can have been handed over to it: that was retired below the orphan floor."""
    head = replace(at(FIRST, 50), checkpoints=pins(10, 20, 30), orphan_floor=20)
    assert unpinned(head, pins(20)) == (10,)
    assert unpinned(head, ()) == (10,)
    assert unpinned(replace(head, orphan_floor=21), pins(30)) == (10, 20)


def test_at_its_bound_the_oldest_are_left_to_the_sweep() -> None:
    many = tuple(range(1, UNPINNED_MAX + 1))
    head = replace(at(FIRST, 2_000), checkpoints=pins(1_000), orphan_floor=1_500, unpinned=many)
    following = DeleteCheckpoint("c1000").apply(head, 2_001, 0)
    assert isinstance(following, Next)
    assert following.value.unpinned == (*many[1:], 1_000)
    assert isinstance(
        verdict := Collect(1_500, frozenset(), looked_at=frozenset(many[1:]), homes=ONLY_HERE).apply(
            following.value, 2_002, 0
        ),
        Next,
    )
    assert verdict.value.unpinned == (1_000,)
