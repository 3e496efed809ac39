"""P10: output ids hold job, attempt, range and a nonce; a job protects its name as long as it is in `.compactor`."""

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.job_edits import Admit, Finish, StartAttempt
from lithify.gc.collect import collect, sweep
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.store.port import Create, Put
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import CONFIG, GRACE_MS, KEYS, Held, append_rows, appends, claim, job, new_partition

JOB = "000000000001-0000abcd"


def test_an_outputs_name_tells_job_attempt_and_range() -> None:
    name = SegmentId.for_output(JOB, 3, 7, "0123456789abcdef")
    assert name == f"{JOB}-3-7-01234567"
    assert SegmentId.of_job(name, JOB)
    assert not SegmentId.of_job(name, "000000000001-0000abc")
    assert not SegmentId.of_job(SegmentId.for_append(1, "0000abcd0000abcd"), JOB)


def test_every_start_of_work_is_a_new_attempt() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(files.compactor.commit(Admit(epoch, job(JOB))))
    for number in (1, 2, 3):
        world.alone(files.compactor.commit(StartAttempt(epoch, JOB, number, "me:1")))
    attempts = world.alone(files.compactor_state()).job(JOB).attempts
    assert [a.number for a in attempts] == [1, 2, 3]
    assert [a.ended_at_ms is None for a in attempts] == [False, False, True]


def test_the_job_is_recorded_before_anything_is_uploaded() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [[("k1", 0, "v", None)]] * 4))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.end()
    writes = [r for r in held.asked if isinstance(r, Create | Put)]
    first_upload = next(n for n, r in enumerate(writes) if isinstance(r, Put))
    before = [r for r in writes[:first_upload] if KEYS.compactor.number(r.key)]
    assert b'"in_progress"' in before[-1].body
    assert b'"attempts"' in before[-1].body
    job_id = (KEYS.segment_id(writes[first_upload].key) or "").rsplit("-", 3)[0]
    assert job_id.encode() in before[-1].body


def sweep_far(world: World, files: PartitionFiles) -> None:
    for _ in range(4):
        world.alone(appends(files, 1))
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
        world.alone(sweep(files, GRACE_MS))


@pytest.mark.parametrize("status", ["in_progress", "failed", "cancelled"])
def test_a_job_protects_its_name_whatever_its_status(status: str) -> None:
    """An output that was uploaded and never recorded: it stays while the job is known, however old it is."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(files.compactor.commit(Admit(epoch, job(JOB))))
    key = KEYS.segment(SegmentId.for_output(JOB, 1, 0, "e" * 16))
    stranger = KEYS.segment(SegmentId.for_output("000000000001-0000beef", 1, 0, "e" * 16))
    for name in (key, stranger):
        world.objects[name] = (b"x", world.now_ms)
    if status != "in_progress":
        world.alone(files.compactor.commit(Finish(epoch, JOB, status, "reason")))  # type: ignore[arg-type]
    sweep_far(world, files)
    assert key in world.objects
    assert stranger not in world.objects  # the sweep does work


def test_a_completed_job_protects_nothing_its_outputs_are_the_manifests() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(files.compactor.commit(Admit(epoch, job(JOB))))
    key = KEYS.segment(SegmentId.for_output(JOB, 1, 0, "e" * 16))
    world.objects[key] = (b"x", world.now_ms)
    world.alone(files.compactor.commit(Finish(epoch, JOB, "completed", "")))
    sweep_far(world, files)
    assert key not in world.objects
