"""P4: a number is never reused; dead is not lost."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect
from lithify.gc.reachable import BOUNDARY_STEP_MIN, Reach, next_boundary
from lithify.manifest.appends import Append
from lithify.manifest.edits import Next
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown
from lithify.store.port import Create, Delete, Outcome
from tests.interleave import World
from tests.protocol.scene import (
    FIRST,
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    append,
    appends,
    claim,
    compact,
    new_partition,
    upload,
)


def is_create(request: object) -> bool:
    return isinstance(request, Create)


def collect_far(world: World, files: PartitionFiles) -> int:
    """Move the boundary as far as it goes; answers with it."""
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch))
    for _ in range(3):
        world.now_ms += GRACE_MS
        done = world.alone(collect(files, GRACE_MS))
    return done.boundary


def test_a_stalled_writer_that_creates_a_collected_number_has_not_committed_there() -> None:
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    ref = world.alone(upload(slow))
    held = Held(world, slow.manifest.commit(Append(ref, L0_MAX)))
    held.until(is_create)  # of number 2, and there it stalls
    assert collect_far(world, quick) >= 2
    assert KEYS.manifest.key(2) not in world.objects
    before = world.alone(quick.head())
    held.go()
    assert KEYS.manifest.key(2) in world.objects  # the store took it: a dead number is there anew
    with pytest.raises(CommitUnknown):  # its id is below the orphan floor by now, and its outcome was in doubt
        held.end()
    assert world.alone(PartitionFiles(KEYS).head()) == before


def test_dead_is_not_lost_an_append_is_found_again_in_the_head() -> None:
    """The reply of number 2 is lost; before it is asked for again the boundary passes 2. The segment is still live."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    ref = world.alone(upload(slow, 3))
    held = Held(world, slow.manifest.commit(Append(ref, L0_MAX)))
    create = held.until(is_create)
    assert isinstance(create, Create)
    world.objects[create.key] = (create.body, world.now_ms)
    world.alone(appends(quick, BOUNDARY_STEP_MIN + 8))
    for _ in range(3):
        world.now_ms += GRACE_MS
        done = world.alone(collect(quick, GRACE_MS))
    assert done.boundary >= 2
    held.reply(Outcome.UNKNOWN)
    committed = held.end()
    assert committed.repeated
    assert committed.result == range(3)
    assert sum(s.id == ref.id for s in world.alone(quick.head()).l0) == 1


@dataclass(frozen=True)
class Once:
    """An edit that cannot recognise itself in a head."""

    repeatable = False
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(head, last_compacted_at_ms=now_ms), None)


def test_an_edit_that_cannot_recognise_itself_is_not_applied_again() -> None:
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(slow.head())
    held = Held(world, slow.manifest.commit(Once()))
    held.until(is_create)
    collect_far(world, quick)
    with pytest.raises(CommitUnknown, match="manifest/"):
        held.end()
    assert len(held.asked_for(Create)) == 1


def test_the_boundary_is_advanced_before_numbers_are_deleted() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch))
    world.alone(collect(files, GRACE_MS))
    world.now_ms += GRACE_MS
    held = Held(world, collect(files, GRACE_MS))
    done = held.end()
    order = [
        "boundary" if isinstance(r, Create) else "delete"
        for r in held.asked
        if isinstance(r, Delete) or (isinstance(r, Create) and KEYS.boundary.number(r.key))
    ]
    assert order[0] == "boundary"
    assert "delete" in order
    assert {KEYS.manifest.number(k) for k in held.deleted} - {None} == set(range(1, done.boundary + 1))


def test_boundary_files_are_dense_and_never_deleted() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    for _ in range(3):
        collect_far(world, files)
    numbers = sorted(n for key in world.objects if (n := KEYS.boundary.number(key)) is not None)
    assert len(numbers) > 3
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(("numbers", "moves"), [(BOUNDARY_STEP_MIN - 1, False), (BOUNDARY_STEP_MIN, True)])
def test_the_boundary_moves_for_256_numbers(numbers: int, moves: bool) -> None:
    head = replace(FIRST, id=1_000)
    assert (next_boundary(head, None, Reach(numbers, 0), ONLY_HERE) is not None) == moves
    assert next_boundary(head, None, Reach(numbers, 0), ONLY_HERE, wanted=True) is not None


def test_an_acknowledged_append_survives_any_collection() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    _, offsets = world.alone(append(files, 2))
    collect_far(world, files)
    collect_far(world, files)
    covered = [(s.min_offset, s.max_offset) for s in world.alone(files.head()).segments()]
    assert any(low <= offsets.start and offsets.stop - 1 <= high for low, high in covered)
