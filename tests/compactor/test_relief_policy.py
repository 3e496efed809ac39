"""What may be done beside a job of the same partition, as a pure function."""

from msgspec.structs import replace

from lithify.compactor.failures import source_set
from lithify.compactor.needs import SHORT_BYTES
from lithify.compactor.policy import Drop, Propose, Resume, Settle, Wait
from lithify.compactor.relief import relief
from lithify.compactor.retiring import segments_of
from lithify.manifest.jobs import FailureCount, Job, JobError
from lithify.manifest.model import CompletedJob, Quarantine
from lithify.manifest.reading import Reading
from tests.compactor.test_policy import HOUR_MS, NOW_MS, config, head, job, segment, state

HELD = tuple(segment(10 + at, 5) for at in range(8))
FIRST = job("first", segments=tuple(s.id for s in HELD))
LATER = tuple(segment(100 + at, 5) for at in range(8))
PRESSED = config(l0_segments_max="16")


def test_beside_a_job_pressure_is_relieved_of_what_no_job_holds() -> None:
    found = relief(Reading.of(head(*HELD, *LATER), state(FIRST), PRESSED, NOW_MS), "first")
    assert isinstance(found, Propose)
    assert (found.due.kind, found.due.debt) == ("tier", "l0-pressure")
    assert segments_of(found.due.units) == tuple(s.id for s in LATER)


def test_nothing_else_is_done_there() -> None:
    """A clean waits for the job that holds its inputs, and routine work for the partition's next turn."""
    easy = config(min_cleanable_dirty_ratio="0", max_compaction_lag_ms="1")
    assert isinstance(relief(Reading.of(head(*HELD, *LATER), state(FIRST), easy, NOW_MS), "first"), Wait)
    asked = job("asked", "submitted", plan=None, segments=())
    for request in (asked, replace(asked, cancel_requested=True)):
        assert isinstance(relief(Reading.of(head(*HELD), state(FIRST, request), PRESSED, NOW_MS), "first"), Wait)
    cancelled = replace(FIRST, cancel_requested=True)
    assert isinstance(relief(Reading.of(head(*HELD), state(cancelled), PRESSED, NOW_MS), "first"), Wait), (
        "it sees that itself"
    )


def test_what_lies_below_the_floor_is_retired_first() -> None:
    below = head(*HELD, *LATER, log_start_offset=1_020)
    assert isinstance(relief(Reading.of(below, state(FIRST), PRESSED, NOW_MS), "first"), Drop)
    held = head(*HELD, log_start_offset=500)
    assert isinstance(relief(Reading.of(held, state(FIRST), config(), NOW_MS), "first"), Wait), "an active job holds it"


def test_where_the_first_has_ended_or_compaction_is_stopped_nothing_is_begun() -> None:
    manifest = head(*HELD, *LATER)
    assert isinstance(relief(Reading.of(manifest, state(), PRESSED, NOW_MS), "first"), Wait)
    committed = replace(manifest, completed_jobs=(CompletedJob("first", 3),))
    assert isinstance(relief(Reading.of(committed, state(FIRST), PRESSED, NOW_MS), "first"), Wait), (
        "what it left is held no more"
    )
    assert isinstance(relief(Reading.of(replace(manifest, sealed=True), state(FIRST), PRESSED, NOW_MS), "first"), Wait)
    paused = config(l0_segments_max="16", compaction_paused="true")
    assert isinstance(relief(Reading.of(manifest, state(FIRST), paused, NOW_MS), "first"), Wait)
    quarantined = replace(manifest, quarantine=Quarantine("damaged", "s", 0))
    assert isinstance(relief(Reading.of(quarantined, state(FIRST), PRESSED, NOW_MS), "first"), Wait)


def test_a_long_job_that_waits_for_its_next_attempt_is_not_resumed_beside_another() -> None:
    """The partition's turn would wait for hours then, and nothing relieve it."""
    manifest, ids = head(*HELD, *LATER), tuple(s.id for s in LATER[:4])
    for left, begins in (
        (job("left", kind="tier", origin="scheduler", segments=ids), True),
        (job("left", kind="clean", origin="scheduler", segments=ids), False),
        (job("left", kind="tier", origin="manual", segments=ids), False),
        (sized(job("left", kind="tier", origin="scheduler", segments=("a run's",)), SHORT_BYTES), True),
        (sized(job("left", kind="tier", origin="scheduler", segments=("a run's",)), SHORT_BYTES + 1), False),
        (sized(job("left", kind="tier", origin="scheduler", segments=ids), SHORT_BYTES + 1), True),
    ):
        found = relief(Reading.of(manifest, state(FIRST, left), config(), NOW_MS), "first")
        assert isinstance(found, Resume) is begins, left


def sized(left: Job, size: int) -> Job:
    assert left.plan is not None
    return replace(left, plan=replace(left.plan, input_bytes=size))


def test_what_it_left_behind_it_ends_or_goes_on_with() -> None:
    manifest = head(*HELD, *LATER)
    left = job("left", kind="tier", origin="scheduler", segments=tuple(s.id for s in LATER[:4]))
    found = relief(Reading.of(manifest, state(FIRST, left), PRESSED, NOW_MS), "first")
    assert found == Resume(left)
    done = replace(manifest, completed_jobs=(CompletedJob("left", 3),))
    found = relief(Reading.of(done, state(FIRST, left), PRESSED, NOW_MS), "first")
    assert isinstance(found, Settle)
    assert (found.job.id, found.status) == ("left", "completed")
    error = JobError("memory", "out of memory")
    waits = FailureCount(sources=source_set(left.segments), count=1, error=error, retry_at_ms=NOW_MS + HOUR_MS // 60)
    found = relief(Reading.of(manifest, state(FIRST, left, failures=(waits,)), PRESSED, NOW_MS), "first")
    assert isinstance(found, Propose), "it waits to be tried again, and others are not held"
    assert segments_of(found.due.units) == tuple(s.id for s in LATER[4:])
