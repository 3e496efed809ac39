"""Room for the bytes that jobs read at once (docs/rfcs/0014): ranking predicts with it, the budget counts. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Load", "has_room"]


class Load(NamedTuple):
    """What a job needs of the process that runs it."""

    bytes: int  # bytes that it reads
    short: bool = False
    alone: bool = False  # no other job may run beside it (P14)


def has_room(job: Load, beside: Sequence[Load], bytes_max: int | None) -> bool:
    """Whether `job` may begin beside those that run. One short job runs outside the budget: it never waits for room,
    and no other job waits for it. If nothing that counts runs, everything has room."""
    if not beside:
        return True
    if job.alone or any(other.alone for other in beside):
        return False
    shorts = [other.bytes for other in beside if other.short]
    if (job.short and not shorts) or len(beside) == bool(shorts):
        return True
    counted = sum(other.bytes for other in beside) - max(shorts, default=0)
    return bytes_max is None or counted + job.bytes <= bytes_max
