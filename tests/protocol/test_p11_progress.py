"""P11: a finished output is recorded before it counts; outputs that finish together share one write."""

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.job_edits import Admit, Record, StartAttempt
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import CompactorState, MergeCounts, RangeDone
from lithify.manifest.model import FORMAT
from lithify.manifest.partition import PartitionFiles
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.errors import Unavailable
from lithify.store.port import Create
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import CONFIG, KEYS, ROWS, TOPIC_ID, Held, append_rows, job, new_partition, segment

EMPTY = CompactorState(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, epoch=1, owner="me")


def done(index: int, attempt: int = 1) -> RangeDone:
    ref = segment(f"000000000001-0000abcd-{attempt}-{index}-00000000")
    return RangeDone(index=index, attempt=attempt, outputs=(ref,), counts=MergeCounts(rows_in=1, rows_out=1))


def started() -> CompactorState:
    admitted = Admit(1, job()).apply(EMPTY, 2, 0)
    assert isinstance(admitted, Next)
    begun = StartAttempt(1, job().id, 1, "me:1").apply(admitted.value, 3, 0)
    assert isinstance(begun, Next)
    return begun.value


def test_outputs_that_finish_together_share_one_write() -> None:
    verdict = Record(1, job().id, (done(0), done(2))).apply(started(), 4, 50)
    assert isinstance(verdict, Next)
    known = verdict.value.job(job().id)
    assert [d.index for d in known.done] == [0, 2]
    assert known.attempts[0].ranges_done == 2
    assert verdict.value.heartbeat_at_ms == 50


def test_a_range_counts_once() -> None:
    first = Record(1, job().id, (done(0),)).apply(started(), 4, 0)
    assert isinstance(first, Next)
    assert isinstance(Record(1, job().id, (done(0, attempt=2),)).apply(first.value, 5, 0), Already)
    mixed = Record(1, job().id, (done(0, attempt=2), done(1))).apply(first.value, 5, 0)
    assert isinstance(mixed, Next)
    assert [(d.index, d.attempt) for d in mixed.value.job(job().id).done] == [(0, 1), (1, 1)]


def test_a_job_that_is_not_in_progress_takes_no_progress() -> None:
    assert isinstance(Record(1, job().id, (done(0),)).apply(EMPTY, 2, 0), Refused)


def test_all_progress_is_stored_before_the_manifest_names_the_outputs() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    while held.request is not None:
        if isinstance(held.request, Create) and b'"runs":[{' in held.request.body:
            break
        held.go()
    assert isinstance(held.request, Create)
    stored = world.alone(PartitionFiles(KEYS).compactor_state())
    outputs = [ref.id for ref in stored.jobs[0].outputs()]
    assert len(outputs) > 0
    assert all(name.encode() in held.request.body for name in outputs)
    assert len(stored.jobs[0].done) == len(stored.jobs[0].plan.ranges)


def test_what_could_not_be_recorded_does_not_count() -> None:
    """The write that records a finished range fails: the manifest is not committed, and the range is not shown."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    before = world.alone(files.head())
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"done":[{' in r.body)
    held.fail(Unavailable("the disk is full"))
    step = held.end()
    assert (step.outcome, step.job.attempts[0].error.category) == ("failed", "unavailable")
    after = world.alone(files.head())
    assert [s.id for s in after.segments()] == [s.id for s in before.segments()]
    assert world.alone(files.compactor_state()).jobs[0].done == ()


def test_tasks_and_results_hold_no_manifest() -> None:
    """Executors could not write a numbered file if they wanted to: they are told no number and no chain."""
    told = set(MergeTask.__struct_fields__) | set(TaskResult.__struct_fields__)
    assert not told & {"manifest", "manifest_id", "epoch", "boundary", "compactor"}
