"""An edit of a `.compactor` file is about one job, once, and leaves the others as they were."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify.compactor.failures import failure_of, source_set
from lithify.compactor.job_edits import Admit, ClaimState, Discard, EndAttempt, Finish, Heartbeat, Record, StartAttempt
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.manifest.edits import Already, Refused
from lithify.manifest.jobs import (
    Attempt,
    CompactorState,
    FailureCount,
    Job,
    JobError,
    MergeCounts,
    RangeDone,
    summed_up,
)
from lithify.manifest.model import FORMAT
from lithify.store.errors import Fenced, InvalidRequest, NotFound
from tests.protocol import scene
from tests.protocol.scene import TOPIC_ID, job, segment
from tests.sim.frames import unwarranted_of_compactor

EPOCH, NOW_MS = 3, 1_000
ERROR = JobError("engine", "it broke")
A, B, ASKED, OVER, ENDED = (f"000000000001-0000{name}" for name in ("aaaa", "bbbb", "cccc", "dddd", "eeee"))


def done(index: int, **fields: Any) -> RangeDone:
    return RangeDone(index=index, attempt=2, outputs=(segment(f"o{index}"),), counts=MergeCounts(rows_in=5), **fields)


def attempt(number: int, **fields: Any) -> Attempt:
    return Attempt(number=number, epoch=EPOCH, worker="w:1", started_at_ms=number, **fields)


def failed(*segments: str, count: int = 1) -> FailureCount:
    return FailureCount(sources=source_set(segments), count=count, error=ERROR, retry_at_ms=0)


def holding(*segments: str) -> dict[str, Any]:
    return {"segments": segments, "sources": segments}


ENDED_ATTEMPT = attempt(1, ended_at_ms=5, error=ERROR)
HEAD = CompactorState(
    format=FORMAT,
    topic="t",
    topic_id=TOPIC_ID,
    partition=0,
    id=9,
    nonce="n",
    epoch=EPOCH,
    owner="me",
    owner_name="me:1",
    jobs=(
        job(
            A,
            reason="due",
            attempts=(ENDED_ATTEMPT, attempt(2, ranges_done=1)),
            done=(done(0, peak_memory_bytes=7),),
            **holding("s1"),
        ),
        job(B, attempts=(ENDED_ATTEMPT, attempt(2)), **holding("s2")),
        job(ASKED, status="submitted", origin="manual", plan=None, segments=(), sources=(), requested=("s3",)),
    ),
    history=(summed_up(job(OVER, status="failed")), summed_up(job(ENDED, status="completed"))),
    failures=(failed("s0"), failed("s1"), failed("s2", count=2)),
)


def after(edit: Any, head: CompactorState = HEAD) -> CompactorState:
    return scene.after(head, edit, now_ms=NOW_MS)


def found(state: CompactorState, job_id: str) -> Job:
    known = state.job(job_id)
    assert known is not None
    return known


@pytest.mark.parametrize(
    "edit",
    [
        Heartbeat(EPOCH),
        Admit(EPOCH, job("000000000001-0000ffff", **holding("s9"))),
        Admit(EPOCH, job(ASKED, origin="manual", **holding("s3"))),
        StartAttempt(EPOCH, A, 3, "w:2"),
        StartAttempt(EPOCH, B, 3, "w:2"),
        Discard(EPOCH, A, frozenset()),
        Record(EPOCH, A, (done(1),)),
        EndAttempt(EPOCH, A, None),
        EndAttempt(EPOCH, B, ERROR),
        Finish(EPOCH, A, "failed", "why", ERROR),
        Finish(EPOCH, ASKED, "cancelled", "on request"),
    ],
    ids=lambda edit: f"{type(edit).__name__}",
)
def test_it_is_about_one_job(edit: Any) -> None:
    assert unwarranted_of_compactor(HEAD, after(edit), claims=False) is None


def test_a_claim_ends_attempts_and_counts_those_that_did_nothing() -> None:
    state = after(ClaimState(HEAD, EPOCH + 1, "new", "new:1"))
    assert unwarranted_of_compactor(HEAD, state, claims=True) is None
    assert [a.ended_at_ms for job_id in (A, B) for a in found(state, job_id).attempts] == [5, NOW_MS, 5, NOW_MS]
    assert (state.epoch, state.owner, state.owner_name, state.heartbeat_at_ms) == (EPOCH + 1, "new", "new:1", NOW_MS)
    assert [(f.sources, f.count, f.lost) for f in state.failures] == [
        (source_set(("s0",)), 1, 0),
        (source_set(("s1",)), 1, 0),
        (source_set(("s2",)), 2, 1),
    ], "the attempt on s1 had recorded a range, the one on s2 nothing"
    again = ClaimState(HEAD, EPOCH + 1, "new", "new:1")
    assert isinstance(again.apply(state, 11, NOW_MS), Already)
    for epoch, owner in ((EPOCH + 1, "rival"), (EPOCH, "rival")):
        verdict = ClaimState(HEAD, epoch, owner, "rival:1").apply(state, 11, NOW_MS)
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, Fenced)


@pytest.mark.parametrize(
    "edit",
    [
        Submit(HEAD, found(HEAD, ASKED)),
        Submit(HEAD, found(HEAD, ENDED)),
        Admit(EPOCH, found(HEAD, A)),
        Admit(EPOCH, job(ENDED, **holding("s9"))),
        StartAttempt(EPOCH, A, 2, "w:2"),
        Discard(EPOCH, A, frozenset((0,))),
        Discard(EPOCH, "nobody's", frozenset()),
        Record(EPOCH, A, (done(0),)),
        EndAttempt(EPOCH, ASKED, None),
        EndAttempt(EPOCH, "nobody's", None),
        Finish(EPOCH, ENDED, "failed", "late", ERROR),
        Finish(EPOCH, "nobody's", "failed", "late", ERROR),
    ],
    ids=lambda edit: type(edit).__name__,
)
def test_done_already_it_writes_nothing(edit: Any) -> None:
    assert isinstance(edit.apply(HEAD, HEAD.id + 1, NOW_MS), Already)


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (RequestCancel("nobody's"), NotFound),
        (RequestCancel(OVER), InvalidRequest),
        (RequestCancel(ENDED), InvalidRequest),
        (StartAttempt(EPOCH, ASKED, 1, "w:1"), InvalidRequest),
        (StartAttempt(EPOCH, "nobody's", 1, "w:1"), InvalidRequest),
        (Record(EPOCH, ASKED, (done(0),)), InvalidRequest),
        (Record(EPOCH, OVER, (done(0),)), InvalidRequest),
        (Admit(EPOCH, job("000000000001-0000ffff", **holding("s9", "s2"))), InvalidRequest),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_it_is_about_is_not_there_or_not_so(edit: Any, error: type[Exception]) -> None:
    verdict = edit.apply(HEAD, HEAD.id + 1, NOW_MS)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, error)


def test_progress_is_counted_in_the_running_attempt_and_forgives_failures_on_these_sources() -> None:
    state = after(Record(EPOCH, A, (done(0), done(1), done(2))))
    assert [d.index for d in found(state, A).done] == [0, 1, 2]
    assert [a.ranges_done for a in found(state, A).attempts] == [0, 3]
    assert [f.sources for f in state.failures] == [source_set(("s0",)), source_set(("s2",))]
    assert (failure_of(state, ("s1",)), failure_of(state, ("s2",))) == (None, failed("s2", count=2))


def test_what_is_taken_back_is_done_again_and_the_rest_kept() -> None:
    both = after(Record(EPOCH, A, (done(1),)))
    assert [d.index for d in found(after(Discard(EPOCH, A, frozenset((1,))), both), A).done] == [1]


def test_an_attempt_that_fails_is_counted_and_the_next_one_waits() -> None:
    state = after(EndAttempt(EPOCH, B, ERROR))
    assert found(state, B).attempts[1] == attempt(2, ended_at_ms=NOW_MS, error=ERROR)
    count = failure_of(state, ("s2",))
    assert count is not None
    assert (count.count, count.error, count.retry_at_ms > NOW_MS) == (3, ERROR, True)
    assert len(state.failures) == 3
    stopped = after(EndAttempt(EPOCH, B, None))
    assert (stopped.failures, found(stopped, B).attempts[1].ended_at_ms) == (HEAD.failures, NOW_MS)


def test_the_start_of_an_attempt_ends_the_one_before() -> None:
    state = after(StartAttempt(EPOCH, B, 3, "w:2"), replace(HEAD, planning=True))
    assert [a.ended_at_ms for a in found(state, B).attempts] == [5, NOW_MS, None]
    assert (state.planning, state.heartbeat_at_ms) == (False, NOW_MS)
    assert found(state, B).attempts[2] == Attempt(number=3, epoch=EPOCH, worker="w:2", started_at_ms=NOW_MS)


def test_a_job_that_ends_says_what_it_did() -> None:
    state = after(Finish(EPOCH, A, "completed", "committed"), replace(HEAD, planning=True))
    ended = state.history[-1]
    assert (ended.id, ended.status, ended.reason, ended.error) == (A, "completed", "committed", None)
    assert (ended.completed_at_ms, ended.attempts[1].ended_at_ms, ended.counts.rows_in) == (NOW_MS, NOW_MS, 5)
    assert (ended.output_segments, ended.output_bytes, ended.peak_memory_bytes, ended.done) == (1, 100, 7, ())
    assert (state.planning, state.heartbeat_at_ms) == (False, NOW_MS)
    assert (ended.chosen, ended.ended_by) == ("due", ""), "why it was chosen is not lost"
    failed = after(Finish(EPOCH, A, "failed", "it broke", ERROR)).history[-1]
    assert (failed.reason, failed.chosen, failed.error, failed.ranges_done) == ("it broke", "due", ERROR, 1)
    assert (failed.plan, failed.segments, failed.done, failed.output_segments) == (None, (), (), 1)
    assert failed.attempts[1].error == ERROR


def test_a_job_that_was_not_cancelled_by_anybody_says_what_ended_it() -> None:
    ended = after(Finish(EPOCH, A, "cancelled", "the topic was deleted", ended_by="deletion")).history[-1]
    assert (ended.status, ended.ended_by, ended.chosen) == ("cancelled", "deletion", "due")


def test_a_job_that_ends_as_it_was_meant_to_says_once_why_it_was_chosen() -> None:
    ended = after(Finish(EPOCH, A, "completed", "due")).history[-1]
    assert (ended.reason, ended.chosen) == ("due", "")


@pytest.mark.parametrize(("rate", "paced_to_ms"), [(100, 500 + 7_000), (-1, None)])
def test_a_job_that_ends_says_when_its_bytes_have_had_their_time(rate: int, paced_to_ms: int | None) -> None:
    read = RangeDone(index=0, attempt=2, outputs=(segment("o"),), counts=MergeCounts(rows_in=5, bytes_read=700))
    begun = replace(found(HEAD, A), started_at_ms=500, done=(read,))
    head = replace(HEAD, jobs=(begun, *HEAD.jobs[1:]))
    assert after(Finish(EPOCH, A, "completed", "", rate=rate), head).history[-1].paced_to_ms == paced_to_ms


def test_a_job_is_counted_by_size_only_where_all_of_its_ranges_were() -> None:
    """A range without a count was done by an earlier release, or by a worker of one (RFC 0007)."""
    plan = job().plan
    assert plan is not None
    plan = replace(plan, rules=replace(plan.rules, buckets=(0, 10, 20)))
    counted = (done(0, kept_bytes=(5, 0, 7), lost_bytes=(1,)), done(1, kept_bytes=(0,), lost_bytes=(2, 0, 4)))
    nothing = replace(done(2), counts=MergeCounts())
    assert job(plan=plan, done=(*counted, nothing)).sizes() == ((0, 5, 3), (20, 7, 4))
    assert job(plan=plan, done=(*counted, done(2))).sizes() is None
