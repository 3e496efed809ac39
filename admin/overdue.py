"""Work that a compactor should have begun long ago. Pure."""

from collections.abc import Iterable

from lithify.compactor.policy import Admit, Drop, Propose, Resume, Settle, decide, incumbent_lives
from lithify.manifest.debt import Debt, Due, assess
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.reading import Reading
from lithify.manifest.units import segments_of
from lithify.manifest.words import span_text

__all__ = ["OVERDUE_MS", "due_since_ms", "overdue", "taken_by"]

OVERDUE_MS = 3_600_000


def overdue(reading: Reading, debt: Debt | None = None, appended_ms: int = 0) -> str | None:
    """What waits for a compactor, and since when, if that is too long; None: nothing does. What waits for something
    else, such as a pause, is not overdue. `debt`: what `assess` returned for the same reading, if known. `appended_ms`:
    as in `due_since_ms`."""
    debt = debt or assess(reading)
    match decide(reading, debt):
        case Propose(due) | Drop(due):
            since_ms = due_since_ms(reading.manifest, taken_by(due, debt), appended_ms)
            judged_by = "the append" if since_ms == appended_ms else "the records"
            what, how_known = f"a {due.kind} ({due.reason}) seems to have been due for", f", judging by {judged_by}"
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


def taken_by(due: Due, debt: Debt) -> tuple[SegmentRef, ...]:
    """The segments that this work would read, or drop."""
    return debt.droppable if due.kind == "drop" else segments_of(due.units)


def due_since_ms(manifest: Manifest, taken: Iterable[SegmentRef], appended_ms: int = 0) -> int:
    """Since when work on these segments seems to have been due, judging by their records. It may be due for less long.
    `appended_ms`: when the first of them was appended, or some time before; 0: unknown. Requires: there is one."""
    # SUBTLE! 1. A topic of last year's records is imported today. 2. By the records alone the work would have been due
    # for a year, and an alert would ask why no compactor runs. Test: tests/admin/test_survey.py
    return max(manifest.last_compacted_at_ms or 0, min(ref.min_timestamp_ms for ref in taken), appended_ms)
