"""P18 in other homes: what nothing names there is deleted there, and a home is forgotten once nothing is or may be
there (docs/rfcs/0031)."""

from msgspec.structs import replace

from lithify.compactor.job_edits import Heartbeat
from lithify.gc.collect import Pass, collect, sweep
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import FORMAT, FORMAT_HOMES
from lithify.manifest.pins import CreateCheckpoint
from lithify.manifest.relocations import CommitRelocation, UseHome
from lithify.store.errors import Unavailable
from lithify.store.port import Delete, List
from tests.interleave import World
from tests.protocol.homes import COLD, begun, cold_keys, compacted, copied, ended, head, moved, opened, relocation
from tests.protocol.scene import GRACE_MS, KEYS, Held


def sweeps(world: World, count: int = 4) -> list[Pass]:
    done: list[Pass] = []
    for _ in range(count):
        world.alone(collect(opened(), GRACE_MS))
        done.append(world.alone(sweep(opened(), GRACE_MS)))
        world.now_ms += GRACE_MS
    return done


def test_what_is_named_there_stays_and_an_orphan_goes() -> None:
    world, files, epoch = compacted()
    made = moved(world, files, epoch)
    orphan = copied(world, relocation(head(world)), made, "1" * 16)
    before = head(world).homes
    sweeps(world)
    assert cold_keys(world) == {KEYS.segment(made.id)}
    assert KEYS.segment(orphan.id) not in world.objects
    assert (before, head(world).homes) == ((COLD,), (COLD,))


def test_a_job_protects_its_copies_there_even_after_its_end() -> None:
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    made = copied(world, job, head(world).runs[0].segments[0])
    sweeps(world)
    ended(world, files, epoch, job, "cancelled")
    sweeps(world)
    assert cold_keys(world) == {KEYS.segment(made.id)}
    assert head(world).homes == (COLD,)


def test_a_job_that_was_left_in_a_deleted_topic_protects_a_home_for_a_grace_period() -> None:
    """No compactor comes back to end it, and the collector would look at the partition for ever."""
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    copied(world, job, head(world).runs[0].segments[0])
    world.alone(files.manifest.commit(Seal()))
    homes: list[tuple[str, ...]] = []
    for _ in range(2):
        world.alone(files.compactor.commit(Heartbeat(epoch)))
        sweeps(world, 1)
        homes.append(head(world).homes)
    assert homes == [(COLD,)] * 2
    assert [done.finished for done in sweeps(world)][-1]
    assert (cold_keys(world), head(world).homes) == (set(), ())


def test_a_home_is_forgotten_when_everything_has_come_back() -> None:
    world, files, epoch = compacted()
    made = moved(world, files, epoch)
    back = relocation(head(world), id=SegmentId.for_job(99, "b" * 16), home="")
    here = replace(made, id=SegmentId.for_output(back.id, 1, 0, "0" * 16), home="", added_at=0)
    world.objects[KEYS.segment(here.id)] = (b"copy", world.now_ms)
    world.alone(files.manifest.commit(CommitRelocation(epoch, back.id, ((made.id, here),), ())))
    assert head(world).format == FORMAT_HOMES
    sweeps(world)
    assert (cold_keys(world), head(world).homes, head(world).format) == (set(), (), FORMAT)


def test_a_home_that_a_checkpoint_keeps_something_in_is_not_forgotten() -> None:
    world, files, epoch = compacted()
    made = moved(world, files, epoch)
    world.alone(files.manifest.commit(CreateCheckpoint("c" * 16, "before", None)))
    back = relocation(head(world), id=SegmentId.for_job(99, "b" * 16), home="")
    here = replace(made, id=SegmentId.for_output(back.id, 1, 0, "0" * 16), home="", added_at=0)
    world.objects[KEYS.segment(here.id)] = (b"copy", world.now_ms)
    world.alone(files.manifest.commit(CommitRelocation(epoch, back.id, ((made.id, here),), ())))
    sweeps(world)
    assert (cold_keys(world), head(world).homes) == ({KEYS.segment(made.id)}, (COLD,))


def test_a_home_is_not_forgotten_under_a_job_that_begins_meanwhile() -> None:
    """The sweep finds the home empty, and no job; then a job finds the home noted, and copies a segment there."""
    world, files, epoch = compacted()
    world.alone(files.manifest.commit(UseHome(epoch, COLD)))
    asked = 0
    while True:
        held = Held(world, sweep(opened(), GRACE_MS))
        held.until(lambda r: isinstance(r, List) and r.home == COLD)
        for _ in range(asked):
            if held.request is not None:
                held.go()
        if held.request is None:
            break
        job = begun(world, files, epoch)
        held.end()
        assert head(world).homes == (COLD,), f"after {asked} requests"
        ended(world, files, epoch, job, "completed")
        world.now_ms += 1
        asked += 1
    assert asked > 3


def test_a_home_that_is_away_is_told_and_keeps_nothing_else() -> None:
    world, files, epoch = compacted()
    made = moved(world, files, epoch)
    world.now_ms += GRACE_MS
    held = Held(world, sweep(opened(), GRACE_MS))
    while held.request is not None:
        away = isinstance(held.request, List | Delete) and held.request.home == COLD
        held.fail(Unavailable(f"{COLD} does not answer")) if away else held.go()
    (refused,) = held.result.refused
    assert (refused.home, refused.reason) == (COLD, f"it cannot be listed: {COLD} does not answer")
    assert cold_keys(world) == {KEYS.segment(made.id)}
