"""P17: the boundary may reach the head that a boundary file of one grace period ago saw, less one."""

import pytest

from lithify.gc.collect import collect
from lithify.manifest.edits import CreateCheckpoint
from lithify.manifest.partition import PartitionFiles
from tests.interleave import World
from tests.protocol.scene import GRACE_MS, KEYS, appends, claim, compact, new_partition


def compacted() -> tuple[World, PartitionFiles, int]:
    """A partition with something to collect; the third is the head."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch))
    world.alone(appends(files, 1))
    return world, files, world.alone(files.head()).id


def boundary(world: World, files: PartitionFiles) -> int:
    found = world.alone(files.boundary.refresh()).value
    return 0 if found is None else found.manifest


def test_the_first_pass_only_notes_the_heads() -> None:
    world, files, head = compacted()
    world.alone(collect(files, GRACE_MS))
    noted = world.alone(files.boundary.refresh()).value
    assert noted is not None
    assert (noted.manifest, noted.manifest_head) == (0, head)


@pytest.mark.parametrize(("age_ms", "moves"), [(-5_000, False), (0, True)])
def test_the_boundary_waits_for_the_grace_period(age_ms: int, moves: bool) -> None:
    world, files, head = compacted()
    world.alone(collect(files, GRACE_MS))
    world.alone(appends(files, 5))
    world.now_ms = _modified_ms(world) + GRACE_MS + age_ms
    world.alone(collect(files, GRACE_MS))
    assert boundary(world, files) == (head - 1 if moves else 0)


def _modified_ms(world: World) -> int:
    return world.objects[KEYS.boundary.key(1)][1]


def test_the_head_that_was_seen_stays_readable() -> None:
    """Manifest `head` was the newest a grace period ago, so a reader may have opened it just then."""
    world, files, head = compacted()
    world.alone(collect(files, GRACE_MS))
    world.alone(appends(files, 5))
    world.now_ms += GRACE_MS
    world.alone(collect(files, GRACE_MS))
    assert KEYS.manifest.key(head) in world.objects
    assert KEYS.manifest.key(head - 1) not in world.objects


def test_many_passes_do_not_shorten_the_grace_period() -> None:
    world, files, _ = compacted()
    for _ in range(9):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS // 20
    assert boundary(world, files) == 0
    assert world.alone(files.boundary.refresh()).number == 1  # at most one boundary file ages at a time


def test_a_pinned_manifest_stays_readable_below_the_boundary() -> None:
    world, files, _ = compacted()
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c", "c", None))).version
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch, job="000000000040-0000beef"))
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert boundary(world, files) > pin.number
    assert world.alone(PartitionFiles(KEYS).manifest.read(pin.number)).value == pin.value
