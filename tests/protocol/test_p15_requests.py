"""P15: an admin writes requests into the next `.compactor`; only the owner of the epoch makes a job terminal."""

import pytest
from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.job_edits import Admit, Finish
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.gc.collect import collect
from lithify.gc.reachable import BOUNDARY_STEP_MIN
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.store.errors import CommitUnknown, NotFound
from lithify.store.port import Create
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import CONFIG, GRACE_MS, KEYS, ROWS, TOPIC_ID, Held, append_rows, claim, job, new_partition

JOB = "000000000001-0000beef"
EMPTY = CompactorState(format=1, topic="t", topic_id=TOPIC_ID, partition=0, epoch=4, owner="me")


def request(**fields: object) -> object:
    return job(JOB, status="submitted", origin="manual", kind=None, plan=None, segments=(), sources=(), **fields)


def test_the_first_file_has_the_manifests_epoch_and_no_owner() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(claim(files))
    world.objects = {k: v for k, v in world.objects.items() if KEYS.compactor.number(k) is None}
    admin = PartitionFiles(KEYS)
    head = world.alone(admin.head())
    world.alone(admin.compactor.commit(Submit(first_state(head), request())))
    state = world.alone(admin.compactor_state())
    assert (state.id, state.epoch, state.owner) == (1, head.compactor_epoch, "")


def test_a_request_keeps_the_epoch_and_owner_of_the_head_it_replaces() -> None:
    verdict = Submit(EMPTY, request()).apply(EMPTY, 2, 7)
    assert isinstance(verdict, Next)
    assert (verdict.value.epoch, verdict.value.owner) == (4, "me")
    assert [(j.id, j.created_at_ms) for j in verdict.value.jobs] == [(JOB, 7)]


def test_a_repeated_request_changes_nothing() -> None:
    verdict = Submit(EMPTY, request()).apply(EMPTY, 2, 7)
    assert isinstance(verdict, Next)
    assert isinstance(Submit(EMPTY, request()).apply(verdict.value, 3, 9), Already)


def test_a_request_that_is_admitted_stays_what_was_asked_for_and_when() -> None:
    head = Submit(EMPTY, request(requested=("a", "b"))).apply(EMPTY, 2, 7)
    assert isinstance(head, Next)
    admitted = Admit(4, job(JOB, origin="manual", created_at_ms=9)).apply(head.value, 3, 9)
    assert isinstance(admitted, Next)
    (found,) = admitted.value.jobs
    assert (found.requested, found.created_at_ms, found.started_at_ms) == (("a", "b"), 7, 9)


def test_cancel_only_asks() -> None:
    head = Submit(EMPTY, request()).apply(EMPTY, 2, 7)
    assert isinstance(head, Next)
    asked = RequestCancel(JOB).apply(head.value, 3, 8)
    assert isinstance(asked, Next)
    assert [(j.status, j.cancel_requested) for j in asked.value.jobs] == [("submitted", True)]
    assert asked.value.history == ()
    assert isinstance(RequestCancel(JOB).apply(asked.value, 4, 9), Already)


def test_cancelling_what_nobody_knows_is_not_found() -> None:
    verdict = RequestCancel(JOB).apply(EMPTY, 2, 0)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, NotFound)


def test_the_owner_ends_a_cancelled_job() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request())))
    world.alone(files.compactor.commit(RequestCancel(JOB)))
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
    assert step.job.status == "cancelled"
    assert world.alone(files.compactor_state()).owner_name == "me:1"


def test_a_running_job_meets_its_cancellation_at_the_next_write() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    before = world.alone(files.head()).segments()
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"done":[{' in r.body)
    world.alone(files.compactor.commit(RequestCancel(world.alone(files.compactor_state()).jobs[0].id)))
    step = held.end()
    assert step.job.status == "cancelled"
    assert step.job.ranges_done == 1
    assert [s.id for s in world.alone(files.head()).segments()] == [s.id for s in before]


def test_a_full_request_is_run_as_a_clean() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS[:2]))
    job_id = SegmentId.for_job(1, "c" * 16)
    world.alone(
        files.compactor.commit(
            Submit(
                first_state(world.alone(files.head())),
                job(job_id, status="submitted", origin="manual", kind=None, plan=None, segments=(), sources=()),
            )
        )
    )
    step = world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    assert (step.job.id, step.job.status, step.job.kind) == (job_id, "completed", "clean")
    assert world.alone(files.head()).cleaned_to == 2


def test_a_request_whose_number_died_is_not_made_again() -> None:
    """The admin stands still after its create. Meanwhile the job is done, the bounded history forgets it, and the
    number is collected: nothing shows any more that it was asked for once."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    asked = Held(world, PartitionFiles(KEYS).compactor.commit(Submit(EMPTY, request())))
    asked.until(lambda r: isinstance(r, Create))
    asked.go()
    assert world.alone(files.compactor_state()).job(JOB) is not None
    world.alone(files.compactor.commit(Finish(epoch, JOB, "completed", "done")))
    for number in range(BOUNDARY_STEP_MIN):
        other = SegmentId.for_job(1, f"{number:08x}")
        world.alone(files.compactor.commit(Submit(EMPTY, replace(request(), id=other))))
        world.alone(files.compactor.commit(Finish(epoch, other, "completed", "done")))
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    with pytest.raises(CommitUnknown):
        asked.end()
    assert world.alone(files.compactor_state()).jobs == ()


def test_a_request_that_is_repeated_with_its_key_is_one_job() -> None:
    """Also after it has ended, and at another number of the manifest; for as long as it is remembered."""
    first, second = replace(request(), id="000000000007-0000abcd"), replace(request(), id="000000000009-0000abcd")
    other = replace(request(), id="000000000007-0000abce")
    verdict = Submit(EMPTY, first, once=True).apply(EMPTY, 2, 7)
    assert isinstance(verdict, Next)
    head, asked = verdict.value, verdict.result
    assert asked == replace(first, created_at_ms=7)
    assert Submit(EMPTY, second, once=True).apply(head, 3, 9) == Already(asked)
    assert isinstance(Submit(EMPTY, second).apply(head, 3, 9), Next)
    assert isinstance(Submit(EMPTY, other, once=True).apply(head, 3, 9), Next)
    ended = replace(asked, status="cancelled")
    gone = replace(head, jobs=(), history=(ended,))
    assert Submit(EMPTY, second, once=True).apply(gone, 4, 11) == Already(ended)
    assert isinstance(Submit(EMPTY, second, once=True).apply(replace(gone, history=()), 5, 13), Next)
