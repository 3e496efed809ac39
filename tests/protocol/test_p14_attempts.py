"""P14: consecutive attempts without progress are capped, counted by source set; ends keep their reason."""

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.jobs import (
    RETRY_FIRST_MS,
    RETRY_MAX_MS,
    Admit,
    ClaimState,
    EndAttempt,
    Finish,
    Record,
    StartAttempt,
    failure_of,
    source_set,
)
from lithify.compactor.policy import Resume, Settle, Wait, decide
from lithify.manifest.config import parse
from lithify.manifest.jobs import (
    ATTEMPTS_KEPT,
    HISTORY_MAX,
    CompactorState,
    Job,
    JobError,
    MergeCounts,
    RangeDone,
)
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown
from lithify.store.port import Create
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import CONFIG, FIRST, KEYS, ROWS, TOPIC_ID, Held, after, append_rows, at, job, new_partition

ERROR = JobError("memory", "the worker died")
EMPTY = CompactorState(format=1, topic="t", topic_id=TOPIC_ID, partition=0, epoch=1, owner="me", owner_name="me:1")
HEAD = at(FIRST, 5)


def failed_attempt(state: CompactorState, number: int, now_ms: int = 0) -> CompactorState:
    begin = StartAttempt(state.epoch, job().id, number, "me:1")
    return after(state, begin, EndAttempt(state.epoch, job().id, ERROR), now_ms=now_ms)


def failures(count: int) -> CompactorState:
    state = after(EMPTY, Admit(1, job()))
    for number in range(1, count + 1):
        state = failed_attempt(state, number)
    return state


def count_of(state: CompactorState, its: Job) -> int:
    failure = failure_of(state, its.segments)
    return 0 if failure is None else failure.count


def test_failures_in_a_row_are_counted_and_wait_longer_each_time() -> None:
    waits = [failure_of(failures(n), job().segments).retry_at_ms for n in (1, 2, 3, 20)]  # type: ignore[union-attr]
    assert waits == [RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS, RETRY_MAX_MS]
    assert isinstance(decide(HEAD, failures(2), CONFIG, 0), Wait)
    assert isinstance(decide(HEAD, failures(2), CONFIG, RETRY_MAX_MS), Resume)


def test_at_the_cap_the_job_is_given_up_with_its_reason() -> None:
    capped = parse({"cleanup.policy": "compact", "compaction.attempts.max": "3"})
    assert isinstance(decide(HEAD, failures(2), capped, RETRY_MAX_MS), Resume)
    action = decide(HEAD, failures(3), capped, RETRY_MAX_MS)
    assert isinstance(action, Settle)
    assert (action.status, action.error.category) == ("failed", "attempts")  # type: ignore[union-attr]
    assert ERROR.reason in action.reason


def test_planning_anew_does_not_reset_the_count() -> None:
    """Another job, another order of the same segments: the same poison."""
    state = after(failures(3), Finish(1, job().id, "failed", "given up", ERROR))
    again = job("000000000001-0000beef", segments=("s2", "s1"))
    assert source_set(again.segments) == source_set(job().segments)
    assert count_of(after(state, Admit(1, again)), again) == 3


def test_progress_forgives() -> None:
    done = RangeDone(index=0, attempt=4, outputs=(), counts=MergeCounts())
    begin = StartAttempt(1, job().id, 4, "me:1")
    assert count_of(after(failures(3), begin, Record(1, job().id, (done,))), job()) == 0


def test_an_attempt_that_died_without_a_word_counts_but_need_not_wait() -> None:
    running = after(failures(1), StartAttempt(1, job().id, 2, "me:1"))
    claimed = after(running, ClaimState(EMPTY, 2, "new", "new:1"), now_ms=50)
    failure = failure_of(claimed, job().segments)
    assert failure is not None
    assert (failure.count, failure.retry_at_ms) == (2, 50)
    assert "me:1 ended without a word" in failure.error.reason
    assert claimed.jobs[0].attempts[-1].ended_at_ms == 50


def test_an_attempt_that_died_after_progress_is_no_failure() -> None:
    done = RangeDone(index=0, attempt=1, outputs=(), counts=MergeCounts())
    begin = StartAttempt(1, job().id, 1, "me:1")
    running = after(EMPTY, Admit(1, job()), begin, Record(1, job().id, (done,)))
    assert count_of(after(running, ClaimState(EMPTY, 2, "new", "new:1")), job()) == 0


def test_failures_keep_reason_and_category() -> None:
    ended = after(failures(1), Finish(1, job().id, "failed", "given up", ERROR)).history[-1]
    assert (ended.error, ended.reason, ended.attempts[-1].error) == (ERROR, "given up", ERROR)


def test_finished_jobs_stay_in_a_bounded_history() -> None:
    state = EMPTY
    for number in range(HISTORY_MAX + 3):
        its = job(f"000000000001-{number:08x}")
        state = after(state, Admit(1, its), Finish(1, its.id, "failed", "", ERROR))
    assert [j.id for j in state.history] == [f"000000000001-{n:08x}" for n in range(3, HISTORY_MAX + 3)]


def test_attempts_kept_are_bounded_and_their_numbers_go_on() -> None:
    state = failures(ATTEMPTS_KEPT + 4)
    assert [a.number for a in state.jobs[0].attempts] == list(range(5, ATTEMPTS_KEPT + 5))


def test_after_commit_unknown_a_coordinator_claims_again() -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    held = Held(world, with_engine(KEYS, coordinator.step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"completed_jobs":[{' in r.body)
    with pytest.raises(CommitUnknown):
        held.end_in_silence()
    assert not coordinator.owns
    assert not coordinator.fenced
    step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
    assert step.outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 2
