"""P18: the sweep lists, commits, reads jobs, then manifests, and deletes what none of them names."""

import pytest

from lithify.compactor.job_edits import Admit
from lithify.gc.collect import collect, sweep
from lithify.manifest.appends import Append, BelowOrphanFloor
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.port import Create, Delete, Get, List, Put
from tests.interleave import World
from tests.protocol.scene import (
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    append,
    appends,
    claim,
    compact,
    is_get,
    job,
    looks_at,
    new_partition,
    upload,
)


def sweep_far(world: World, files: PartitionFiles, passes: int = 4) -> None:
    for _ in range(passes):
        world.alone(sweep(files, GRACE_MS))
        world.now_ms += GRACE_MS


def test_an_orphan_goes_and_what_is_named_stays() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    orphan = KEYS.segment(world.alone(upload(files)).id)
    live, _ = world.alone(append(files))
    sweep_far(world, files)
    assert orphan not in world.objects
    assert KEYS.segment(live.id) in world.objects


def test_files_of_others_stay_and_are_told() -> None:
    """Copies that a person made, exports, folders: only a name that a lithify gave may be deleted."""
    world, files = new_partition(), PartitionFiles(KEYS)
    orphan = world.alone(upload(files)).id
    world.alone(append(files))
    names = (
        "2-my-export",
        "1",
        "notes",
        "2-\u0663",
        f"{orphan}.orig",
        f"{orphan}/part",
        f"{orphan}-copy",
        f"old/{orphan}",
    )
    others = {KEYS.segment(name) for name in names} | {KEYS.root + "README", KEYS.manifest.key(1) + ".bak"}
    for key in others:
        world.objects[key] = world.objects[KEYS.segment(orphan)]
    sweep_far(world, files)
    assert KEYS.segment(orphan) not in world.objects
    assert others <= world.objects.keys()
    kept = world.alone(sweep(files, GRACE_MS, dry_run=True)).kept
    assert {g.key for g in kept if g.reason == "its name is not one of lithify's"} == others


def test_the_order_is_list_commit_jobs_manifest_delete() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(claim(files))
    world.alone(upload(files))
    sweep_far(world, files, 1)
    world.alone(upload(files))
    held = Held(world, sweep(files, GRACE_MS))
    held.end()
    listed = max(n for n, r in enumerate(held.asked) if isinstance(r, List))
    committed = next(n for n, r in enumerate(held.asked) if isinstance(r, Create) and KEYS.manifest.number(r.key))
    tail = held.asked[committed + 1 :]
    jobs = [n for n, r in enumerate(tail) if isinstance(r, Get) and KEYS.compactor.number(r.key)]
    heads = [n for n, r in enumerate(tail) if isinstance(r, Get) and KEYS.manifest.number(r.key)]
    assert listed < committed
    assert jobs[-1] < heads[-1]
    deletes = [n for n, r in enumerate(tail) if isinstance(r, Delete)]
    assert all(heads[-1] < n for n in deletes)


def test_a_dry_sweep_writes_and_deletes_nothing_and_tells_what_a_real_one_does() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(upload(files))
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch))
    sweep_far(world, files, 2)
    before = dict(world.objects)
    held = Held(world, sweep(PartitionFiles(KEYS), GRACE_MS, dry_run=True))
    told = held.end()
    assert held.asked_for(Create, Put, Delete) == []
    assert world.objects == before
    done = world.alone(sweep(files, GRACE_MS))
    assert {g.key for g in told.deleted} == {g.key for g in done.deleted} == before.keys() - world.objects.keys()


def test_an_append_that_commits_before_the_floor_rises_is_kept() -> None:
    """Uploaded before the listing, committed after it: the head is read last, and names it."""
    world, files = new_partition(), PartitionFiles(KEYS)
    ref = world.alone(upload(files))
    sweep_far(world, PartitionFiles(KEYS), 1)
    held = Held(world, sweep(PartitionFiles(KEYS), GRACE_MS))
    held.until(lambda r: isinstance(r, Create) and KEYS.manifest.number(r.key) is not None)
    world.alone(files.manifest.commit(Append(ref, L0_MAX)))
    held.end()
    assert KEYS.segment(ref.id) in world.objects


def test_an_append_that_comes_after_the_floor_rose_is_refused() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    ref = world.alone(upload(files))
    sweep_far(world, PartitionFiles(KEYS))
    assert KEYS.segment(ref.id) not in world.objects
    with pytest.raises(BelowOrphanFloor):
        world.alone(PartitionFiles(KEYS).manifest.commit(Append(ref, L0_MAX)))


def test_a_job_that_ended_between_the_two_reads_has_its_outputs_in_the_head() -> None:
    """Jobs before manifest: were it the other way round, a job that commits and ends between the two reads would be
    in neither."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    job_id = SegmentId.for_job(1, "d" * 16)
    world.alone(files.compactor.commit(Admit(epoch, job(job_id))))
    output = KEYS.segment(SegmentId.for_output(job_id, 1, 0, "0" * 16))
    world.objects[output] = (b"merged", world.now_ms)
    for _ in range(3):  # the floor is above the job's number by now
        sweep_far(world, PartitionFiles(KEYS), 1)
        world.alone(appends(files, 1))
    held = Held(world, sweep(PartitionFiles(KEYS), GRACE_MS))
    held.until(lambda r: isinstance(r, Create) and KEYS.manifest.number(r.key) is not None)
    held.go()
    held.until(lambda r: isinstance(r, Get) and KEYS.compactor.number(r.key) is not None)
    held.go()  # the jobs are read
    world.alone(compact(files, epoch, job=job_id))
    held.end()
    assert output in {KEYS.segment(s.id) for s in world.alone(files.head()).segments()}
    assert output in world.objects


def test_a_sweep_always_commits() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    before = world.alone(files.head()).id
    world.alone(sweep(files, GRACE_MS))
    assert world.alone(files.head()).id == before + 1


def test_dead_and_unpinned_numbers_go() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c", "c", None))).version.number
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    world.alone(compact(files, epoch))
    for _ in range(3):
        world.now_ms += GRACE_MS
        done = world.alone(collect(files, GRACE_MS))
    assert done.boundary > pin
    revenant = KEYS.manifest.key(1)
    world.objects[revenant] = (b"a stalled writer", world.now_ms)
    world.alone(sweep(files, GRACE_MS))
    assert revenant not in world.objects
    assert KEYS.manifest.key(pin) in world.objects


def test_a_pinned_manifest_that_is_missing_stops_the_sweep_before_it_deletes() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(upload(files))
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c", "c", None))).version.number
    world.alone(appends(files, 3))
    del world.objects[KEYS.manifest.key(pin)]
    for _ in range(4):
        world.now_ms += GRACE_MS
        held = Held(world, sweep(files, GRACE_MS))
        with pytest.raises(Corrupt, match="pinned by checkpoint c, but missing"):
            held.end()
        assert held.asked_for(Delete) == []


def test_jobs_that_cannot_be_read_stop_the_sweep_before_it_deletes() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(claim(files))
    world.alone(upload(files))
    sweep_far(world, files, 2)
    held = Held(world, sweep(PartitionFiles(KEYS), GRACE_MS))
    asked = held.until(looks_at(KEYS.compactor.key(1)))
    with pytest.raises(Unavailable):
        held.reply((Unavailable("no answer"),) * len(asked.requests))
    assert held.asked_for(Delete) == []


def test_names_that_are_not_lithifys_stay() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    strangers = {KEYS.segment("photo"), KEYS.segments + "notes.txt", KEYS.root + "README"}
    world.objects |= dict.fromkeys(strangers, (b"x", 0))
    sweep_far(world, files)
    assert strangers <= world.objects.keys()


def test_the_first_jobs_file_collected_while_it_was_looked_for_does_not_look_like_no_jobs() -> None:
    """A cold sweep meets a compactor's chain whose number 1 is collected under its eyes. "No jobs" would delete what
    a running job has written."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    job_id = SegmentId.for_job(1, "d" * 16)
    world.alone(files.compactor.commit(Admit(epoch, job(job_id))))
    world.alone(compact(files, epoch))
    world.alone(appends(files, 1))
    output = KEYS.segment(SegmentId.for_output(job_id, 1, 0, "0" * 16))
    world.objects[output] = (b"merged", world.now_ms)
    world.near = True
    held = Held(world, PartitionFiles(KEYS).compactor_state())
    held.until(looks_at(KEYS.compactor.key(1)))
    for _ in range(3):
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
    assert KEYS.compactor.key(1) not in world.objects
    assert held.end().job(job_id) is not None


def test_in_a_sealed_partition_a_job_that_nobody_will_end_protects_nothing() -> None:
    """The topic was deleted while a job ran. No compactor comes back to end it, and nothing can be committed."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    job_id = SegmentId.for_job(1, "d" * 16)
    world.alone(files.compactor.commit(Admit(epoch, job(job_id))))
    output = KEYS.segment(SegmentId.for_output(job_id, 1, 0, "0" * 16))
    world.objects[output] = (b"merged", world.now_ms)
    world.alone(files.manifest.commit(Seal()))
    sweep_far(world, files)
    assert output not in world.objects


def test_a_pin_that_is_let_go_while_the_sweep_looks_is_no_damage() -> None:
    """A sweep reads the head; before it reads the manifest that is pinned there the checkpoint goes, and with it the
    file. It was there as long as it was named."""
    world, files = new_partition(), PartitionFiles(KEYS)
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c1", "report", None))).result.manifest
    world.alone(appends(files, 3))
    sweep_far(world, PartitionFiles(KEYS), 3)
    world.alone(files.head())
    held = Held(world, sweep(files, GRACE_MS))
    held.until(is_get(KEYS.manifest.key(pin)))
    world.alone(PartitionFiles(KEYS).manifest.commit(DeleteCheckpoint("c1")))
    world.alone(upload(PartitionFiles(KEYS)))  # an orphan, so that the boundary moves
    sweep_far(world, PartitionFiles(KEYS), 3)
    assert KEYS.manifest.key(pin) not in world.objects
    held.end()
