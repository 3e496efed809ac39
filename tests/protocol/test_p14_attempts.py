"""P14: consecutive attempts without progress are capped, counted by source set; ends keep their reason."""

from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import VerifyOutputs
from lithify.compactor.failures import (
    FAILED_ATTEMPTS_MAX,
    RETRY_FIRST_MS,
    RETRY_MAX_MS,
    failure_of,
    source_set,
)
from lithify.compactor.job_edits import Admit, ClaimState, Discard, EndAttempt, Finish, Record, StartAttempt
from lithify.compactor.policy import (
    ENGINE_LOST_MAX,
    GIVEN_UP_MS,
    Resume,
    Settle,
    Wait,
    decide,
)
from lithify.compactor.request_edits import Submit
from lithify.manifest.categories import Category
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
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.store.errors import CommitUnknown, Unavailable
from lithify.store.port import Create, Request
from tests.compactor.simulated_engine import Mortal, with_engine
from tests.compactor.test_cleanable import HOUR_MS
from tests.protocol.scene import CONFIG, FIRST, KEYS, ROWS, TOPIC_ID, Held, after, append_rows, at, job, new_partition
from tests.steps import within

ERROR = JobError("memory", "the worker died")
EMPTY = CompactorState(format=1, topic="t", topic_id=TOPIC_ID, partition=0, epoch=1, owner="me", owner_name="me:1")
HEAD = at(FIRST, 5)


def failed_attempt(state: CompactorState, number: int, now_ms: int = 0, *, error: JobError = ERROR) -> CompactorState:
    begin = StartAttempt(state.epoch, job().id, number, "me:1")
    return after(state, begin, EndAttempt(state.epoch, job().id, error), now_ms=now_ms)


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
    assert isinstance(decide(Reading.of(HEAD, failures(2), CONFIG, 0)), Wait)
    assert isinstance(decide(Reading.of(HEAD, failures(2), CONFIG, RETRY_MAX_MS)), Resume)


def test_at_the_cap_the_job_is_given_up_with_its_reason() -> None:
    capped = parse({"cleanup.policy": "compact", "compaction.attempts.max": "3"})
    assert isinstance(decide(Reading.of(HEAD, failures(2), capped, RETRY_MAX_MS)), Resume)
    action = decide(Reading.of(HEAD, failures(3), capped, RETRY_MAX_MS))
    assert isinstance(action, Settle)
    assert (action.status, action.error.category) == ("failed", "attempts")  # type: ignore[union-attr]
    assert ERROR.reason in action.reason


def test_planning_anew_does_not_reset_the_count() -> None:
    """Another job, another order of the same segments: the same poison."""
    state = after(failures(3), Finish(1, job().id, "failed", "given up", ERROR))
    again = job("000000000001-0000beef", segments=("s2", "s1"))
    assert source_set(again.segments) == source_set(job().segments)
    assert count_of(after(state, Admit(1, again)), again) == 3


def ended_by(category: str, count: int, state: CompactorState | None = None) -> CompactorState:
    """`count` attempts in a row that ended so."""
    state = state or after(EMPTY, Admit(1, job()))
    first = max((a.number for a in state.jobs[0].attempts), default=0) + 1
    for number in range(first, first + count):
        state = failed_attempt(state, number, error=JobError(category, "the engine is gone"))
    return state


def waits_ms(states: list[CompactorState]) -> list[int]:
    return [failure.retry_at_ms for state in states if (failure := failure_of(state, job().segments))]


@pytest.mark.parametrize(
    ("category", "lost"), [(Category.ENGINE_DOWN, 0), (Category.UNAVAILABLE, 0), (Category.ENGINE_LOST, 25)]
)
def test_who_is_away_is_no_failure_of_the_job_and_it_waits_longer_each_time(category: str, lost: int) -> None:
    waits = waits_ms([ended_by(category, count) for count in (1, 2, 3, 25)])
    assert waits == [RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS, RETRY_MAX_MS]
    gone = ended_by(category, 25)
    failure = failure_of(gone, job().segments)
    assert failure is not None
    assert (failure.count, failure.lost) == (0, lost)
    assert isinstance(decide(Reading.of(HEAD, gone, CONFIG, RETRY_MAX_MS)), Resume)
    assert count_of(failed_attempt(gone, 26), job()) == 1, "what is the job's own still counts"


@pytest.mark.parametrize("category", [Category.ENGINE_DOWN, Category.UNAVAILABLE, Category.STORE_DENIED])
def test_who_is_away_for_a_week_gives_no_job_up(category: str) -> None:
    """Every ten minutes another attempt finds nobody; then the job goes on from what it has recorded."""
    done = RangeDone(index=0, attempt=1, outputs=(), counts=MergeCounts())
    begun = after(EMPTY, Admit(1, job()), StartAttempt(1, job().id, 1, "me:1"), Record(1, job().id, (done,)))
    gone = ended_by(category, FAILED_ATTEMPTS_MAX + 8, after(begun, EndAttempt(1, job().id, None)))
    assert gone.jobs[0].attempts[-1].number == FAILED_ATTEMPTS_MAX + 9
    assert decide(Reading.of(HEAD, gone, CONFIG, RETRY_MAX_MS)) == Resume(gone.jobs[0])
    assert gone.jobs[0].failed_attempts == 0
    rested = after(gone, StartAttempt(1, job().id, 5_000, "me:1"), EndAttempt(1, job().id, None))
    assert decide(Reading.of(HEAD, rested, CONFIG, RETRY_MAX_MS)) == Resume(rested.jobs[0])


def test_a_thousand_failed_attempts_end_a_job_whatever_they_record() -> None:
    """What each records is found damaged by the next one: progress, for ever."""
    state = after(EMPTY, Admit(1, job()))
    for number in range(1, FAILED_ATTEMPTS_MAX + 1):
        assert isinstance(decide(Reading.of(HEAD, state, CONFIG, RETRY_MAX_MS)), Resume)
        done = RangeDone(index=0, attempt=number, outputs=(), counts=MergeCounts())
        state = after(state, StartAttempt(state.epoch, job().id, number, "me:1"))
        state = after(state, Record(state.epoch, job().id, (done,)))
        dies = number % 2  # without a word
        end = ClaimState(EMPTY, 1 + number, f"{number}", "me:1") if dies else EndAttempt(state.epoch, job().id, ERROR)
        state = after(state, end)
        state = after(state, Discard(state.epoch, job().id, frozenset()))
    action = decide(Reading.of(HEAD, state, CONFIG, RETRY_MAX_MS))
    assert isinstance(action, Settle)
    assert (action.status, action.reason) == ("failed", f"{FAILED_ATTEMPTS_MAX} attempts failed")
    assert action.error is not None
    ended = after(state, Finish(state.epoch, job().id, action.status, action.reason, action.error), now_ms=HOUR_MS)
    planned = after(ended, Admit(state.epoch, job("000000000009-0000abcd")))
    rests = decide(Reading.of(HEAD, planned, CONFIG, HOUR_MS + GIVEN_UP_MS - 1))
    assert isinstance(rests, Settle), "what is planned anew rests, too"
    assert rests.reason == f"{FAILED_ATTEMPTS_MAX} attempts failed"
    assert decide(Reading.of(HEAD, planned, CONFIG, HOUR_MS + GIVEN_UP_MS)) == Resume(planned.jobs[0])
    by_hand = after(ended, Admit(state.epoch, job("000000000009-0000abcd", origin="manual")))
    assert failure_of(by_hand, job().segments) is None, "a person may ask for it at once"


def test_a_job_under_which_the_engine_dies_again_and_again_is_given_up_at_a_cap_of_its_own() -> None:
    assert isinstance(
        decide(Reading.of(HEAD, ended_by(Category.ENGINE_LOST, ENGINE_LOST_MAX - 1), CONFIG, RETRY_MAX_MS)), Resume
    )
    poison = ended_by(Category.ENGINE_LOST, ENGINE_LOST_MAX)
    action = decide(Reading.of(HEAD, poison, CONFIG, RETRY_MAX_MS))
    assert isinstance(action, Settle)
    assert (action.status, action.error.category) == ("failed", "attempts")  # type: ignore[union-attr]
    assert f"the engine died under {ENGINE_LOST_MAX} attempts" in action.reason
    done = RangeDone(index=0, attempt=99, outputs=(), counts=MergeCounts())
    forgiven = after(poison, StartAttempt(1, job().id, 99, "me:1"), Record(1, job().id, (done,)))
    assert isinstance(decide(Reading.of(HEAD, forgiven, CONFIG, RETRY_MAX_MS)), Resume), "progress forgives"


def test_a_job_outlives_its_engine_and_keeps_what_was_recorded() -> None:
    """The engine dies after the first of three ranges, and is down for twice as many attempts as may fail."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    capped, life = replace(CONFIG, compaction_attempts_max=2), Mortal(dies=1)
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    steps = [world.alone(with_engine(KEYS, coordinator.step(capped), [], life))]
    recorded = world.alone(PartitionFiles(KEYS).compactor_state()).jobs[0].done
    life.down = 4
    while steps[-1].outcome != "worked":
        world.now_ms += RETRY_MAX_MS
        steps.append(world.alone(with_engine(KEYS, coordinator.step(capped), [], life)))
    assert [step.outcome for step in steps] == ["failed"] * 5 + ["worked"]
    assert "the engine died; it will be tried again" in steps[0].detail
    assert "the engine is down; it will be tried again" in steps[1].detail
    assert steps[-1].job.status == "completed"
    assert [a.ranges_done for a in steps[-1].job.attempts][-1] == 2
    assert {ref.id for d in recorded for ref in d.outputs} <= {
        s.id for s in world.alone(PartitionFiles(KEYS).head()).segments()
    }


def test_what_was_asked_for_by_hand_is_tried_though_its_sources_were_given_up_and_rests_as_any_other() -> None:
    """It is interrupted before its first range is recorded: started again it goes on, with attempts of its own."""
    given_up = after(ended_by("memory", 10), Finish(1, job().id, "failed", "given up", ERROR))
    asked = job("000000000002-0000beef", status="submitted", origin="manual", plan=None, segments=(), sources=())
    admitted = after(given_up, Submit(EMPTY, asked), Admit(1, job(asked.id, origin="manual")))
    begun = after(admitted, StartAttempt(1, asked.id, 1, "me:1"))
    for left in (EndAttempt(1, asked.id, None), ClaimState(EMPTY, 2, "new", "new:1")):
        assert isinstance(decide(Reading.of(HEAD, after(begun, left), CONFIG, 0)), Resume)
    for number in range(1, CONFIG.compaction_attempts_max):
        begin = StartAttempt(1, asked.id, number, "me:1")
        admitted = after(admitted, begin, EndAttempt(1, asked.id, ERROR))
        assert isinstance(decide(Reading.of(HEAD, admitted, CONFIG, RETRY_MAX_MS)), Resume)
    last = after(admitted, StartAttempt(1, asked.id, 99, "me:1"), EndAttempt(1, asked.id, ERROR))
    assert isinstance(decide(Reading.of(HEAD, last, CONFIG, RETRY_MAX_MS)), Settle)


async def away(keys: PartitionKeys, coroutine: Coroutine[Any, Any, Any], request_kinds: tuple[type, ...]) -> Any:
    """`coroutine` over a store that answers none of these requests."""

    async def answer(request: Request[Any]) -> Any:
        if isinstance(request, request_kinds):
            raise Unavailable("the store gave no answer")
        return await request

    return await with_engine(keys, within(coroutine, answer), [])


def test_a_job_outlives_a_store_that_is_away_while_recorded_ranges_are_looked_at() -> None:
    """Commits are answered, segments are not: each attempt ends at the first look, for three times as many as may
    fail."""
    world, capped = new_partition(), replace(CONFIG, compaction_attempts_max=2)
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    me = Coordinator(PartitionFiles(KEYS), "me:1")
    assert world.alone(with_engine(KEYS, me.step(capped), [], Mortal(dies=1))).outcome == "failed"
    recorded = world.alone(PartitionFiles(KEYS).compactor_state()).jobs[0].done
    waits: list[int] = []
    for _ in range(6):
        world.now_ms += RETRY_MAX_MS
        assert world.alone(away(KEYS, me.step(capped), (VerifyOutputs,))).outcome == "failed"
        state = world.alone(PartitionFiles(KEYS).compactor_state())
        (its,) = state.jobs
        assert (its.done, count_of(state, its)) == (recorded, 0)
        assert its.attempts[-1].error == JobError(Category.UNAVAILABLE, "the store gave no answer")
        waits.append(failure_of(state, its.segments).retry_at_ms - its.attempts[-1].ended_at_ms)
    assert waits == [RETRY_FIRST_MS * 2**n for n in range(1, 7)], "the engine's death was the first"
    world.now_ms += RETRY_MAX_MS
    step = world.alone(with_engine(KEYS, me.step(capped), []))
    assert (step.outcome, step.job.status, step.job.attempts[-1].ranges_done) == ("worked", "completed", 2)


def test_an_attempt_whose_end_its_own_compactor_could_not_write_down_is_no_failure() -> None:
    """The store is away, for commits, too; the same coordinator goes on, under the same epoch or the next."""
    running = after(EMPTY, Admit(1, job()), StartAttempt(1, job().id, 1, "me:1"))
    for goes_on in (StartAttempt(1, job().id, 2, "me:1"), ClaimState(EMPTY, 2, "me", "me:1")):
        state = after(running, goes_on, now_ms=50)
        failure = failure_of(state, job().segments)
        assert failure is not None
        assert (failure.count, failure.retry_at_ms) == (0, 50 + RETRY_FIRST_MS)
        assert failure.error.category == state.jobs[0].attempts[0].error.category == Category.UNAVAILABLE
        assert state.jobs[0].attempts[0].ended_at_ms == 50
    failure = failure_of(after(running, ClaimState(EMPTY, 2, "new", "me:1")), job().segments)
    assert failure is not None
    assert failure.lost == 1


def test_after_commit_unknown_the_same_coordinator_counts_nothing() -> None:
    world, capped = new_partition(), replace(CONFIG, compaction_attempts_max=2)
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    me = Coordinator(PartitionFiles(KEYS), "me:1")
    for _ in range(4):
        held = Held(world, with_engine(KEYS, me.step(capped), []))
        held.until(lambda r: isinstance(r, Create) and b'"attempts":[{' in r.body and b'"done":[{' in r.body)
        with pytest.raises(CommitUnknown):
            held.end_in_silence()
        assert world.alone(with_engine(KEYS, me.step(capped), [])).outcome == "waiting", "it claims again, and waits"
        state = world.alone(PartitionFiles(KEYS).compactor_state())
        assert count_of(state, state.jobs[0]) == 0
        world.now_ms += RETRY_MAX_MS
    assert world.alone(with_engine(KEYS, me.step(capped), [])).outcome == "worked"


def test_what_was_given_up_is_tried_once_more_after_a_day() -> None:
    """An idle partition's set of sources never changes: what was given up in bad times would stay so for ever."""
    capped = parse({"cleanup.policy": "compact", "compaction.attempts.max": "3"})
    state, since_ms = failures(3), 4 * RETRY_FIRST_MS
    for number in (4, 5):
        assert isinstance(decide(Reading.of(HEAD, state, capped, since_ms + GIVEN_UP_MS - 1)), Settle)
        assert isinstance(decide(Reading.of(HEAD, state, capped, since_ms + GIVEN_UP_MS)), Resume)
        state = failed_attempt(state, number, since_ms + GIVEN_UP_MS)
        since_ms = waits_ms([state])[0]
    year_ms = 365 * GIVEN_UP_MS
    assert isinstance(decide(Reading.of(HEAD, state, capped, since_ms - year_ms)), Resume), (
        "the clock had been ahead by a year"
    )


def test_progress_forgives() -> None:
    done = RangeDone(index=0, attempt=4, outputs=(), counts=MergeCounts())
    begin = StartAttempt(1, job().id, 4, "me:1")
    assert count_of(after(failures(3), begin, Record(1, job().id, (done,))), job()) == 0


@pytest.mark.parametrize(("died", "counts"), [(0, (1, 1)), (1, (1, 2)), (2, (2, 2)), (3, (3, 2))])
def test_an_attempt_that_died_without_a_word_counts_but_need_not_wait(died: int, counts: tuple[int, int]) -> None:
    """The first two that die may have been killed by the jobs beside them; those that come after them ran alone."""
    claimed = failures(1)
    for number in range(died + 1):
        running = after(claimed, StartAttempt(1 + number, job().id, 2 + number, "me:1"))
        claimed = after(running, ClaimState(EMPTY, 2 + number, f"new {number}", "me:1"), now_ms=50)
    failure = failure_of(claimed, job().segments)
    assert failure is not None
    assert (failure.count, failure.lost, failure.retry_at_ms) == (*counts, 50)
    assert "me:1 stopped without recording why" in failure.error.reason
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
    assert coordinator.owns, "nobody took it over"
    step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
    assert step.outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 2
