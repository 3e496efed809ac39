"""P17: the boundary may reach the head that a boundary file of one grace period ago saw, less one."""

import pytest

from lithify.gc.collect import collect, sweep
from lithify.gc.collector import GRACE_MS_MIN
from lithify.gc.when import goes_at
from lithify.log.append import append
from lithify.manifest.commit import FRESH_MS
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.store.errors import CommitUnknown
from tests.interleave import World
from tests.protocol.scene import GRACE_MS, KEYS, L0_MAX, appends, claim, compact, new_partition, segment, upload
from tests.unreadable import UNREADABLE, Rewrite, rewrite_in


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


def test_where_no_compactor_ever_was_none_of_its_files_is_noted_as_seen() -> None:
    """An orphan waits for the boundary, so a pass notes the heads."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(upload(files))
    world.alone(sweep(files, GRACE_MS))
    noted = world.alone(files.boundary.refresh()).value
    assert noted is not None
    assert (noted.manifest, noted.manifest_head, noted.compactor, noted.compactor_head) == (0, 1, 0, 0)


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


@pytest.mark.parametrize("change", UNREADABLE)
def test_an_older_boundary_that_cannot_be_read_only_makes_collection_wait(change: Rewrite) -> None:
    """It is asked only until a newer one is old enough, and a pass that meets it does the rest of its work."""
    world, files, head = compacted()
    world.alone(collect(files, GRACE_MS))
    world.now_ms += GRACE_MS
    world.alone(appends(files, 5))
    world.alone(compact(files, world.alone(claim(files)), job="000000000040-0000beef"))
    world.alone(appends(files, 1))
    world.alone(collect(files, GRACE_MS))
    moved = boundary(world, files)
    assert (moved, world.alone(files.boundary.refresh()).number) == (head - 1, 2)
    rewrite_in(world, KEYS.boundary.key(1), change)
    world.now_ms += GRACE_MS // 2
    for work in (collect(files, GRACE_MS), sweep(files, GRACE_MS)):
        assert world.alone(work).boundary == moved
    world.alone(goes_at(files, GRACE_MS))
    world.now_ms += GRACE_MS
    world.alone(collect(files, GRACE_MS))
    assert boundary(world, files) > moved


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


@pytest.mark.parametrize(("grace_ms", "known"), [(10_000, False), (GRACE_MS_MIN, True)])
def test_a_slow_writer_learns_what_became_of_its_appends_if_the_grace_is_long_enough(
    grace_ms: int, known: bool
) -> None:
    """It appends once in a while, upon the head that its last append left, while others append and collect. So the
    shortest grace period that the command line takes is longer than such a head is trusted."""
    assert GRACE_MS_MIN > 2 * FRESH_MS
    unknown = 0
    for rest_ms in (FRESH_MS // 2, FRESH_MS - 1, FRESH_MS, 2 * FRESH_MS, GRACE_MS_MIN, 3 * GRACE_MS_MIN):
        world, slow, others = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
        epoch = world.alone(claim(others))
        for _ in range(3):
            try:
                world.alone(append(slow, b"x", segment(""), l0_segments_max=L0_MAX))
            except CommitUnknown:
                unknown += 1
            for _ in range(3):
                world.alone(appends(others, 2))
                world.alone(compact(others, epoch))
                world.now_ms += rest_ms // 3
                world.alone(collect(others, grace_ms))
    assert (unknown == 0) == known
