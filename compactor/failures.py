"""How often work on a set of segments has failed, and how long it pauses after that (P14). Pure."""

import itertools

import xxhash

from lithify.manifest.categories import Category, MetBy
from lithify.manifest.jobs import (
    FAILURES_MAX,
    Attempt,
    CompactorState,
    FailureCount,
    Job,
    JobError,
)
from lithify.store.errors import LithifyError

__all__ = [
    "ALONE_AFTER",
    "FAILED_ATTEMPTS_MAX",
    "RETRY_FIRST_MS",
    "RETRY_MAX_MS",
    "away_after",
    "counted_after",
    "failure_of",
    "given_up_after",
    "is_in_vain",
    "met",
    "runs_alone",
    "source_set",
    "too_often",
]

RETRY_FIRST_MS = 1_000  # after a failed attempt, doubling with each in a row
RETRY_MAX_MS = 600_000
# The limit for one job, even if its attempts make progress: it ends a job whose outputs fail verification each time.
FAILED_ATTEMPTS_MAX = 1_000
ALONE_AFTER = 2  # attempts in a row under which a compactor or an engine died


def source_set(segments: tuple[str, ...]) -> str:
    """A name for a set of source segments, whichever plan covers it."""
    return xxhash.xxh3_64_hexdigest("\n".join(sorted(segments)).encode())


def failure_of(state: CompactorState, segments: tuple[str, ...]) -> FailureCount | None:
    """The consecutive failures on this set of sources; None: there are none (P14)."""
    name = source_set(segments)
    return next((f for f in state.failures if f.sources == name), None)


def runs_alone(failure: FailureCount | None, *, died: bool = False) -> bool:
    """Whether nothing else in its process may run beside the next attempt: a compactor that dies takes all its jobs
    with it, and only a job that was alone is known to be guilty. `died`: one more death, not counted yet."""
    lost = 0 if failure is None else failure.lost
    return lost + died >= ALONE_AFTER


def is_in_vain(job: Job) -> bool:
    """Whether `job` has an open attempt that recorded nothing."""
    return any(a.ended_at_ms is None and a.ranges_done == 0 for a in job.attempts)


def counted_after(
    head: CompactorState, job: Job, error: JobError, now_ms: int, *, wait: bool = True
) -> tuple[FailureCount, ...]:
    """The failure counts after an attempt that ended with `error`.

    An attempt that ended with the engine, or because the store was unavailable or refused access, is not a failure of
    the job; it only makes the job wait. So a healthy job is not given up because one of them was away for a night, or
    because a credential had expired.
    """
    name = source_set(job.segments)
    before = failure_of(head, job.segments)
    count, lost = (0, 0) if before is None else (before.count, before.lost)
    if error.category == Category.ENGINE_LOST:
        lost += 1
    elif error.blames_job:
        count += 1
    in_vain = count + lost + _away_in_a_row(job) + (not error.blames_job)
    pause_ms = min(RETRY_FIRST_MS * 2 ** min(in_vain - 1, 20), RETRY_MAX_MS) if wait else 0
    fresh = FailureCount(sources=name, count=count, lost=lost, error=error, retry_at_ms=now_ms + pause_ms)
    others = tuple(f for f in head.failures if f.sources != name)
    return (*others, fresh)[-FAILURES_MAX:]  # at the bound the oldest count is forgotten, and starts anew


def away_after(head: CompactorState, job: Job, error: JobError, now_ms: int) -> tuple[FailureCount, ...]:
    """The failure counts after a job that ended because a home of its segments was away, or refused. It is nobody's
    failure, but what is due on these segments waits, longer each time: it would be planned anew at once."""
    name, before = source_set(job.segments), failure_of(head, job.segments)
    count, lost, away = (0, 0, 1) if before is None else (before.count, before.lost, before.away + 1)
    again_ms = now_ms + min(RETRY_FIRST_MS * 2 ** min(away - 1, 20), RETRY_MAX_MS)
    fresh = FailureCount(sources=name, count=count, lost=lost, away=away, error=error, retry_at_ms=again_ms)
    return (*(f for f in head.failures if f.sources != name), fresh)[-FAILURES_MAX:]


def too_often(job: Job) -> str | None:
    """Why `job` is given up, whatever its attempts recorded. None: it is not."""
    failed = job.failed_attempts
    return f"{failed} attempts failed" if failed >= FAILED_ATTEMPTS_MAX else None


def given_up_after(head: CompactorState, job: Job, error: JobError | None, now_ms: int) -> tuple[FailureCount, ...]:
    """The failure counts after a job that ended with `error`. If it had failed too often, its sources also pause: each
    time, what its attempts recorded had reset their count, so the next plan would begin at once and fail as often
    again."""
    if error is None or error.category != Category.GIVEN_UP or too_often(job) is None:
        return head.failures
    name = source_set(job.segments)
    rests = FailureCount(sources=name, count=0, error=error, retry_at_ms=now_ms)
    return (*(f for f in head.failures if f.sources != name), rests)[-FAILURES_MAX:]


def _away_in_a_row(job: Job) -> int:
    """How many of the latest ended attempts found no engine or store, or were refused access, and recorded nothing."""

    def away(attempt: Attempt) -> bool:
        return attempt.error is not None and not attempt.error.blames_job and attempt.ranges_done == 0

    ended = (a for a in reversed(job.attempts) if a.ended_at_ms is not None)
    return 0 if not is_in_vain(job) else sum(1 for _ in itertools.takewhile(away, ended))


def met(error: LithifyError, met_by: MetBy = "compactor") -> JobError:
    """`error`, as the one that ended an attempt."""
    return JobError(Category.of(error, met_by), str(error))
