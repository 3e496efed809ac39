"""Work that a compactor should have begun long ago. Pure."""

from lithify.compactor.policy import Admit, Drop, Propose, Resume, Settle, decide, incumbent_lives
from lithify.manifest.debt import assess
from lithify.manifest.reading import Reading
from lithify.manifest.words import span_text

__all__ = ["OVERDUE_MS", "overdue"]

OVERDUE_MS = 3_600_000


def overdue(reading: Reading) -> str | None:
    """What waits for a compactor, and since when, if that is too long; None: nothing does. What waits for something
    else, such as a pause, is not overdue."""
    debt = assess(reading)
    match decide(reading, debt):
        case Propose(due) | Drop(due):
            oldest_ms = min(each.min_timestamp_ms for each in (*due.units, *debt.droppable))
            since_ms = max(reading.manifest.last_compacted_at_ms or 0, oldest_ms)
            what, how_known = f"a {due.kind} ({due.reason}) seems to have been due for", ", judging by the records"
        case Resume(job) | Admit(job) | Settle(job) if not incumbent_lives(reading.state, reading.now_ms):
            since_ms = max(reading.state.heartbeat_at_ms, job.created_at_ms)
            what, how_known = (
                f"job {job.id} is {job.status.replace('_', ' ')}, and no compactor has worked on it for",
                "",
            )
        case _:
            return None
    waited_ms = reading.now_ms - since_ms
    return f"{what} {span_text(waited_ms)}{how_known}" if waited_ms >= OVERDUE_MS else None
