"""P13, P5, P18 where segments change their home: a relocation is committed once, by the owner alone, and no edit
forgets a home in which something is (docs/rfcs/0031)."""

import pytest
from msgspec.structs import replace

from lithify.compactor.job_edits import Admit
from lithify.compactor.own_home import home_refuses
from lithify.compactor.relocating import gives_way
from lithify.gc.collect import sweep
from lithify.manifest.categories import Category
from lithify.manifest.edits import Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.relocations import CommitRelocation, ForgetHomes, UseHome
from lithify.store.errors import AccessDenied, Corrupt, Fenced, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import HERE
from tests.protocol.homes import COLD, begun, compacted, copied, head, moved, relocation
from tests.protocol.scene import GRACE_MS, KEYS, Held, append, claim, compact

COLDER = "memory://colder"


def test_a_relocation_whose_answer_was_lost_is_committed_once() -> None:
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    (ref,) = head(world).runs[0].segments
    edit = CommitRelocation(epoch, job.id, ((ref.id, copied(world, job, ref)),), ())
    world.alone(files.manifest.commit(edit))
    once = head(world)
    world.alone(files.manifest.commit(edit))
    assert head(world) == once


def test_a_copy_says_when_it_was_moved_and_what_comes_back_does_not() -> None:
    """Another clock than that of the commit would be that of a worker."""
    world, files, epoch = compacted()
    made = moved(world, files, epoch)
    there = head(world)
    assert [s.moved_ms for s in there.runs[0].segments] == [there.committed_at_ms]
    job = relocation(there, id=SegmentId.for_job(there.id, "b" * 16), home=HERE)
    world.now_ms += 5
    world.alone(files.compactor.commit(Admit(epoch, job, "worker")))
    back = replace(there.runs[0].segments[0], id=SegmentId.for_output(job.id, 1, 0, "1" * 16), home=HERE, added_at=0)
    world.alone(files.manifest.commit(CommitRelocation(epoch, job.id, ((made.id, back),), ())))
    assert [s.moved_ms for s in head(world).runs[0].segments] == [0]


def test_a_relocation_without_copies_is_committed_once() -> None:
    world, files, epoch = compacted()
    edit = CommitRelocation(epoch, begun(world, files, epoch).id, (), ())
    world.alone(files.manifest.commit(edit))
    once = head(world)
    assert [done.id for done in once.completed_jobs][-1] == edit.job
    world.alone(files.manifest.commit(edit))
    assert head(world) == once


def test_a_fenced_compactor_neither_notes_a_home_nor_commits() -> None:
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    (ref,) = head(world).runs[0].segments
    made = copied(world, job, ref)
    world.alone(claim(files))
    before = head(world)
    for edit in (CommitRelocation(epoch, job.id, ((ref.id, made),), ()), UseHome(epoch, COLD)):
        with pytest.raises(Fenced):
            world.alone(files.manifest.commit(edit))
    assert head(world) == before


def test_a_move_is_refused_by_a_manifest_that_goes_by_a_later_configuration() -> None:
    """The topic may name another cold home since, or none."""
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    (ref,) = head(world).runs[0].segments
    made = copied(world, job, ref)
    at = replace(head(world), config_at=3)
    for judged, refused in ((2, True), (3, False), (4, False)):
        verdict = CommitRelocation(epoch, job.id, ((ref.id, made),), (), judged).apply(at, at.id + 1, 0)
        assert isinstance(verdict, Refused) == refused
        assert not refused or isinstance(verdict.error, Unavailable)


def test_a_home_in_which_a_segment_is_stays_noted() -> None:
    """Whatever a sweep found: a home that is not mounted looks empty."""
    world, files, epoch = compacted()
    moved(world, files, epoch)
    world.alone(files.manifest.commit(ForgetHomes((COLD,), head(world).id)))
    assert head(world).homes == (COLD,)


def test_a_sweep_lists_every_home() -> None:
    world, _, epoch = compacted()
    files = PartitionFiles(KEYS, homes=frozenset({HERE, COLD, COLDER}))
    moved(world, files, epoch)
    world.alone(files.manifest.commit(UseHome(epoch, COLDER)))
    world.alone(append(files))
    world.alone(compact(files, epoch))
    job = relocation(head(world), id=SegmentId.for_job(1, "d" * 16))
    (ref, *_) = head(world).runs[0].segments
    orphan = replace(ref, id=SegmentId.for_output(job.id, 1, 0, "2" * 16), home=COLDER)
    world.elsewhere[COLDER] = {KEYS.segment(orphan.id): (b"copy", world.now_ms)}
    for _ in range(3):
        world.now_ms += GRACE_MS
        world.alone(sweep(files, GRACE_MS))
    assert world.elsewhere[COLDER] == {}
    assert head(world).homes == (COLD,)


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (InvalidRequest("another warehouse's"), Category.INVALID),
        (Unavailable("away"), Category.UNAVAILABLE),
        (AccessDenied("refused"), Category.STORE_DENIED),
        (Corrupt("home.json names nobody", "home.json"), Category.UNAVAILABLE),
    ],
)
def test_a_relocation_lets_go_whatever_its_home_says(error: LithifyError, category: Category) -> None:
    """A damaged home.json is no damage of a segment: nothing else may wait for it."""
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    held = Held(world, home_refuses(KEYS, COLD))
    held.fail(error)
    refused = held.result
    assert refused is not None
    assert refused.category is category
    assert gives_way(job, head(world), None, refused)
