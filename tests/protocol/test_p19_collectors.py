"""P19: collectors of one partition in several processes: boundary first, head after it, pins from that head only."""

import pytest

from lithify.gc.collect import collect, sweep
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.store.port import Create, Delete
from tests.interleave import World
from tests.protocol.scene import GRACE_MS, KEYS, Held, appends, claim, compact, keys_of, new_partition


def replaced(world: World, files: PartitionFiles) -> set[str]:
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    keys = {KEYS.segment(s.id) for s in world.alone(files.head()).l0}
    world.alone(compact(files, epoch))
    return keys


@pytest.mark.parametrize("work", [collect, sweep])
def test_the_boundary_is_read_before_the_head(work: object) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 2))
    held = Held(world, work(PartitionFiles(KEYS), GRACE_MS))  # type: ignore[operator]
    held.end()
    looks = list(map(keys_of, held.asked))
    first_head = next(n for n, keys in enumerate(looks) if any(KEYS.manifest.number(key) is not None for key in keys))
    assert any(KEYS.boundary.number(key) is not None for keys in looks[:first_head] for key in keys)


def test_a_pin_made_by_another_process_is_seen_by_a_collector_that_slept() -> None:
    """The collector knows an old head without the pin; what it deletes it takes from the head it reads now."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(slow.head())
    world.alone(appends(quick, 2))
    pin = world.alone(quick.manifest.commit(CreateCheckpoint("c", "c", None))).version.value
    replaced(world, quick)
    world.alone(collect(quick, GRACE_MS))
    world.now_ms += GRACE_MS
    world.alone(collect(slow, GRACE_MS))
    world.alone(collect(slow, GRACE_MS))
    assert world.alone(slow.boundary.refresh()).value.manifest > pin.id
    assert all(KEYS.segment(s.id) in world.objects for s in pin.segments())


def test_two_collectors_of_one_boundary_move_it_once() -> None:
    world, quick = new_partition(), PartitionFiles(KEYS)
    replaced(world, quick)
    world.alone(collect(quick, GRACE_MS))
    world.now_ms += GRACE_MS
    held = Held(world, collect(PartitionFiles(KEYS), GRACE_MS))
    held.until(lambda r: isinstance(r, Create) and KEYS.boundary.number(r.key) is not None)
    world.alone(collect(quick, GRACE_MS))
    before = world.alone(quick.boundary.refresh())
    held.end()
    assert world.alone(quick.boundary.refresh()) == before
    assert not any(KEYS.manifest.number(key) for key in held.deleted)  # whoever moved it deletes what it freed


@pytest.mark.parametrize("seed", range(8))
def test_rival_collectors_delete_nothing_that_is_live_or_pinned(seed: int) -> None:
    world = World(seed, fault_share=0.1, sleep_share=0.01)
    world.objects = new_partition().objects
    files = PartitionFiles(KEYS)
    pins = []
    for round_ in range(3):
        replaced(world, files)
        edit = CreateCheckpoint(f"c{round_}", f"c{round_}", None)
        pins.append(world.alone(files.manifest.commit(edit)).version.value)
        for index in range(3):
            world.start(f"collector {round_}.{index}", collector(world, 2))
        world.run()
        world.now_ms += GRACE_MS
    live = [*world.alone(PartitionFiles(KEYS).head()).segments(), *(s for pin in pins for s in pin.segments())]
    assert all(KEYS.segment(s.id) in world.objects for s in live)
    assert all(KEYS.manifest.key(pin.id) in world.objects for pin in pins)
    assert [a.failed for a in world.actors] == [None] * len(world.actors)


async def collector(world: World, passes: int) -> None:
    from lithify.store.errors import CommitUnknown, Unavailable

    for index in range(passes):
        try:
            await (sweep if index % 2 else collect)(PartitionFiles(KEYS), GRACE_MS)
        except (Unavailable, CommitUnknown):
            continue


def test_deleting_what_another_has_deleted_is_no_error() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    keys = replaced(world, files)
    world.alone(collect(files, GRACE_MS))
    world.now_ms += GRACE_MS
    held = Held(world, collect(PartitionFiles(KEYS), GRACE_MS))
    held.until(lambda r: isinstance(r, Delete))
    world.alone(collect(files, GRACE_MS))
    held.end()
    assert not keys & world.objects.keys()
    assert world.alone(files.head()).retired == ()
