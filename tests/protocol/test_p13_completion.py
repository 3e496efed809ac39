"""P13: manifest first, then the job; the manifest remembers the job until `.compactor` shows it terminal."""

import json

import pytest
from msgspec.structs import replace

from lithify.compactor import job_edits
from lithify.compactor.attempt import JobWork
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.plan import Proposal, freeze
from lithify.compactor.policy import Settle, decide
from lithify.compactor.request_edits import RequestCancel
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.edits import Already, Next
from lithify.manifest.jobs import CompactorState, KeyRange
from lithify.manifest.model import CompletedJob, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from lithify.store.errors import Fenced
from lithify.store.port import Create
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    KEYS,
    ROWS,
    TOPIC_ID,
    Held,
    append_rows,
    at,
    claim,
    compact,
    creates_in,
    job,
    new_partition,
    replacing,
)


def state(**fields: object) -> CompactorState:
    plain = {"format": 1, "topic": "t", "topic_id": TOPIC_ID, "partition": 0, "epoch": 1, "owner": "me"}
    return CompactorState(**{**plain, **fields})


def test_the_manifest_is_committed_before_the_job_is_completed() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.end()
    creates = [r for r in held.asked if isinstance(r, Create)]
    manifest = next(n for n, r in enumerate(creates) if b'"completed_jobs":[{' in r.body)
    completed = next(n for n, r in enumerate(creates) if b'"status":"completed"' in r.body)
    assert manifest < completed


def test_a_crash_between_the_two_writes_finishes_as_completed() -> None:
    """Even though its sources are gone, and a cancellation was asked for."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"status":"completed"' in r.body)  # and dies here
    job_id = world.alone(files.compactor_state()).jobs[0].id
    world.alone(files.compactor.commit(RequestCancel(job_id)))
    successor = Coordinator(PartitionFiles(KEYS), "next:1")
    world.alone(with_engine(KEYS, successor.step(CONFIG, take_over=True), []))
    after = world.alone(files.compactor_state())
    assert after.jobs == ()
    assert [(j.id, j.status) for j in after.history] == [(job_id, "completed")]


def test_a_job_in_the_manifests_list_is_completed_whatever_was_requested() -> None:
    head = replace(at(FIRST, 9), completed_jobs=(CompletedJob(job().id, 8),), compactor_epoch=1)
    action = decide(Reading.of(head, state(jobs=(job(cancel_requested=True),)), CONFIG, 0))
    assert action == Settle(job(cancel_requested=True), "completed", "committed")


@pytest.mark.parametrize("survivors", [True, False])
def test_a_replay_finds_that_it_was_committed(survivors: bool) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(append_rows(files, ROWS))
    head = world.alone(files.head())
    edit = replacing(head, head.l0, epoch)
    if not survivors:
        edit = replacing(head, head.l0, epoch, run=SortedRun(id=edit.job, segments=()))
    first = world.alone(files.manifest.commit(edit))
    again = world.alone(PartitionFiles(KEYS).manifest.commit(edit))
    assert (first.repeated, again.repeated) == (False, True)
    assert len(world.alone(files.head()).runs) == int(survivors)


def test_a_replay_by_a_fenced_compactor_after_the_list_forgot_is_fenced() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(append_rows(files, ROWS))
    edit = world.alone(compact(files, epoch))
    newer = world.alone(claim(files, "new"))
    world.alone(append_rows(files, ROWS))
    world.alone(compact(files, newer, job="000000000090-0000beef", forget=(edit.job,)))
    with pytest.raises(Fenced):
        world.alone(PartitionFiles(KEYS).manifest.commit(edit))


def test_an_id_leaves_the_list_only_after_its_job_is_terminal() -> None:
    """Three jobs in a row: the list holds no more than the latest, and never forgets one that is still active."""
    world, files = new_partition(), PartitionFiles(KEYS)
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    for _ in range(3):
        world.alone(append_rows(files, ROWS))
        held = Held(world, with_engine(KEYS, coordinator.step(CONFIG), []))
        held.until(lambda r: isinstance(r, Create) and b'"status":"completed"' in r.body)
        listed = {done.id for done in world.alone(files.head()).completed_jobs}
        active = {j.id for j in world.alone(files.compactor_state()).jobs}
        assert active <= listed
        held.end()
    assert len(world.alone(files.head()).completed_jobs) == 1


def test_a_job_of_which_the_end_is_not_written_down_yet_is_forgotten_by_no_other() -> None:
    """Between the two writes of a job another one of the same claim commits. Forgotten, the first would be resumed, and
    its sources are gone."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"status":"completed"' in r.body)
    world.alone(append_rows(files, ROWS))
    head, earlier = world.alone(files.head()), world.alone(files.compactor_state()).jobs[0].id
    units_left = [unit for unit in units(head) if not unit.is_run]
    reading = Reading.of(head, None, CONFIG, world.now_ms)
    other = freeze(reading, Proposal(units_left, "tier", "beside"), (KeyRange(),), "000000000090-0000beef")
    world.alone(files.compactor.commit(job_edits.Admit(head.compactor_epoch, other)))
    work = JobWork(files, head.compactor_epoch, "me:1", CONFIG, topic_lineage("t"))
    assert world.alone(with_engine(KEYS, work.run(head, other), [])).outcome == "worked"
    assert {done.id for done in world.alone(files.head()).completed_jobs} == {earlier, other.id}
    assert held.end().outcome == "worked"
    assert world.alone(files.compactor_state()).jobs == ()


def test_outputs_are_verified_before_the_commit() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda request: any(len(_outputs(each.body)) == 3 for each in creates_in(request)))
    held.go()
    recorded = world.alone(files.compactor_state()).jobs[0].outputs()
    del world.objects[KEYS.segment(recorded[1].id)]
    step = held.end()
    assert step.outcome == "failed"
    assert world.alone(files.head()).runs == ()


def _outputs(body: bytes) -> list[object]:
    jobs = json.loads(body).get("jobs", [])
    return [o for j in jobs for done in j.get("done", []) for o in done["outputs"]]


def test_the_edit_is_committed_once_per_job_id() -> None:
    head = replace(at(FIRST, 9), completed_jobs=(CompletedJob("j", 8),))
    edit = CommitCompaction(7, "j", (), SortedRun(id="j", segments=()), 0, False, (), 0)
    assert isinstance(edit.apply(head, 10, 0), Already)
    assert not isinstance(edit.apply(replace(head, completed_jobs=()), 10, 0), Next)
