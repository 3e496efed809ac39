"""How long an attempt waits for the next key range before its tasks are taken to hang. Pure (P14)."""

from lithify.manifest.jobs import FailureCount, Job
from lithify.manifest.words import span_text

__all__ = ["patience_ms", "stalled_text"]

AT_LEAST_MS = 1_800_000  # executors that must be found first, other jobs whose tasks come before
SLOWEST_BYTES_PER_MS = 1_024  # 1 MiB per second: a twentieth of what a worker does
LARGER_THAN_MOST = 8  # times the average: how large a range of skewed keys may be
DOUBLINGS_MAX = 4


def patience_ms(job: Job, failure: FailureCount | None) -> int:
    """By what a key range of the job reads. Twice as long after each failed attempt in a row: one that is only slow is
    done in the end, and what it wastes is less than it takes."""
    assert job.plan is not None
    range_bytes = job.plan.input_bytes // max(len(job.plan.ranges), 1)
    expected_ms = AT_LEAST_MS + LARGER_THAN_MOST * range_bytes // SLOWEST_BYTES_PER_MS
    return expected_ms << min(0 if failure is None else failure.count, DOUBLINGS_MAX)


def stalled_text(job: Job, pending: int, waited_ms: int) -> str:
    assert job.plan is not None
    return (
        f"no key range has finished for {span_text(waited_ms)} (to do: {pending} of {len(job.plan.ranges)}); its tasks "
        "hang, or found no worker. Look at the engine and at the store"
    )
