"""How the latest attempt of a job failed, in words for people. Pure."""

from collections.abc import Sequence

from lithify.manifest.jobs import Attempt, CompactorState

__all__ = ["failing_text", "failure_text", "latest_failure"]


def latest_failure(attempts: Sequence[Attempt]) -> Attempt | None:
    """The last attempt that has ended, if it failed; one that is running tells nothing yet. None: it did not fail."""
    ended = next((each for each in reversed(attempts) if each.ended_at_ms is not None), None)
    return None if ended is None or ended.error is None else ended


def failure_text(attempts: Sequence[Attempt]) -> str | None:
    """attempt 3 failed: the disk is full. None: it did not fail."""
    failed = latest_failure(attempts)
    if failed is None or failed.error is None:
        return None
    runs = "" if failed is attempts[-1] else f"; attempt {attempts[-1].number} is running"
    return f"attempt {failed.number} failed: {failed.error.reason}{runs}"


def failing_text(state: CompactorState) -> str | None:
    """The first active job whose latest attempt failed, and why. None: there is none."""
    told = ((job.id, failure_text(job.attempts)) for job in state.jobs)
    return next((f"job {job}: {text}" for job, text in told if text is not None), None)
