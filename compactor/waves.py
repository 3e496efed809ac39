"""A job's key ranges in waves, and the time of its bytes, as a throttle allows. Pure (docs/rfcs/0008)."""

from collections.abc import Sequence

from lithify.manifest.jobs import Job

__all__ = ["WAVE_MS", "paced_to_ms", "wave_bytes", "waves"]

WAVE_MS = 10_000  # how long a wave takes at the throttle's rate


def wave_bytes(job: Job, indexes: Sequence[int]) -> int:
    assert job.plan is not None
    return job.plan.input_bytes * len(indexes) // len(job.plan.ranges)


def waves(job: Job, pending: Sequence[int], rate: int) -> list[Sequence[int]]:
    """All ranges in one wave; under a throttle, waves that take about ten seconds each."""
    if rate <= 0 or not pending:
        return [pending] if pending else []
    size = max(rate * WAVE_MS // 1000 // max(wave_bytes(job, pending[:1]), 1), 1)
    return [pending[at : at + size] for at in range(0, len(pending), size)]


def paced_to_ms(started_at_ms: int | None, bytes_read: int, rate: int) -> int | None:
    """When a job that began then and read so much is through, at `rate` bytes per second. None: no throttle."""
    return None if started_at_ms is None or rate <= 0 else started_at_ms + bytes_read * 1000 // rate
