"""How long an attempt waits for the next key range before it takes its tasks to hang. Pure (P14)."""

from lithify.manifest.jobs import FailureCount, Job
from lithify.manifest.words import span_text

__all__ = ["patience_ms", "stalled_text"]

AT_LEAST_MS = 1_800_000  # executors may have to be found first, or other jobs' tasks come before
SLOWEST_BYTES_PER_MS = 1_024  # 1 MiB per second: a twentieth of what a worker achieves
LARGER_THAN_MOST = 8  # a range of skewed keys may be so many times as large as the average
DOUBLINGS_MAX = 4


def patience_ms(job: Job, failure: FailureCount | None) -> int:
    """Estimated from what one key range of the job reads. Doubled after each failed attempt in a row: a job that is
    only slow completes in the end, and wastes less time than it takes."""
    assert job.plan is not None
    range_bytes = job.plan.input_bytes // max(len(job.plan.ranges), 1)
    expected_ms = AT_LEAST_MS + LARGER_THAN_MOST * range_bytes // SLOWEST_BYTES_PER_MS
    return expected_ms << min(0 if failure is None else failure.count, DOUBLINGS_MAX)


def stalled_text(job: Job, pending: int, waited_ms: int) -> str:
    assert job.plan is not None
    return (
        f"no key range has finished for {span_text(waited_ms)} (to do: {pending} of {len(job.plan.ranges)}); its tasks "
        "are hanging, or no worker is free. Check the engine and the store"
    )
