"""Decides what a compactor does next in one partition, from manifest, jobs, configuration and clock. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from msgspec.structs import replace

from lithify.compactor.failures import RETRY_MAX_MS, failure_of, too_often
from lithify.compactor.plan import fan_in, in_key_order, to_sort
from lithify.compactor.retiring import has_no_room, segments_of
from lithify.manifest.ages import time_left_ms
from lithify.manifest.categories import Category, EndedBy
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import Debt, DebtName, Due, NotDue, assess
from lithify.manifest.jobs import IN_PROGRESS_MAX, CompactorState, Ended, FailureCount, Job, JobError
from lithify.manifest.left_out import left_out
from lithify.manifest.model import Manifest
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit
from lithify.manifest.words import counted, retried_text, span_text

__all__ = [
    "LEASE_MS",
    "URGENCY_NONE",
    "Action",
    "ActionName",
    "Admit",
    "Decision",
    "Drop",
    "Propose",
    "Resume",
    "Settle",
    "Wait",
    "decide",
    "decision",
    "dropped",
    "given_up_first",
    "incumbent_lives",
    "pressing",
    "proposed",
    "resumed",
    "settled",
    "stopped",
    "throttled",
    "tiered_first",
    "urgency_of",
]

# Attempts in a row on one set of sources under which the engine died: hours, with the pauses between them.
ENGINE_LOST_MAX = 30
GIVEN_UP_MS = 86_400_000  # then the sources of a job that was given up are tried once more
LEASE_MS = 30_000  # an owner with running work may be replaced after so long without a sign of life (P5)


ActionName = Literal["settle", "drop", "resume", "admit", "propose", "wait"]


@dataclass(frozen=True, slots=True)
class Settle:
    """Write down how a job ended."""

    name: ClassVar[ActionName] = "settle"
    job: Job
    status: Ended
    reason: str
    error: JobError | None = None
    ended_by: str = ""  # an EndedBy


@dataclass(frozen=True, slots=True)
class Resume:
    name: ClassVar[ActionName] = "resume"
    job: Job


@dataclass(frozen=True, slots=True)
class Admit:
    """Decide on a manual request: run it or refuse it."""

    name: ClassVar[ActionName] = "admit"
    job: Job


@dataclass(frozen=True, slots=True)
class Propose:
    name: ClassVar[ActionName] = "propose"
    due: Due


@dataclass(frozen=True, slots=True)
class Drop:
    """Retire the segments below the floor: an edit, not a job."""

    name: ClassVar[ActionName] = "drop"
    due: Due


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do, and why. `until_ms`: when there will be something (a failed job's next attempt, the throttle).
    `nothing_due`: no debt is left."""

    name: ClassVar[ActionName] = "wait"
    reason: str
    until_ms: int | None = None
    nothing_due: bool = False


NOTHING_DUE = Wait("nothing is due", nothing_due=True)

Action = Settle | Drop | Resume | Admit | Propose | Wait


def decide(reading: Reading, debt: Debt | None = None) -> Action:
    """The next action. Running work comes before requested work, and that before work that is due. `debt`: what
    `assess` returned for the same reading, if known."""
    manifest, state, _, _ = reading
    committed = {done.id for done in manifest.completed_jobs}
    for job in state.jobs:
        end = settled(job, manifest, committed)
        if end is not None:
            return end
    if manifest.sealed:
        return Wait("the topic was deleted")
    debt = debt or assess(reading)
    drop = dropped(debt, manifest)
    if drop is not None:
        return drop
    if not state.jobs and not debt.all_due and manifest.quarantine is None:
        return NOTHING_DUE
    wait = stopped(reading)
    if wait is not None:
        return wait
    under_way = _under_way(reading)
    if isinstance(under_way, Wait):
        beside = pressing(debt, reading)
        return under_way if isinstance(beside, Wait) else beside
    return under_way or proposed(debt.all_due, reading)


def dropped(debt: Debt, manifest: Manifest) -> Drop | None:
    """The drop that is due: retention continues beside jobs, and where compaction is stopped."""
    due = debt.due
    return Drop(due) if due is not None and due.kind == "drop" and has_no_room(due, manifest) is None else None


def stopped(reading: Reading) -> Wait | None:
    """Why no job may start or go on here, whatever is due."""
    manifest, _, config, _ = reading
    if manifest.quarantine is not None:
        told = retried_text(manifest.topic, manifest.partition, manifest.quarantine.reason)
        return Wait(f"quarantined because of a damaged segment: {told}")
    if config.compaction_paused:
        return Wait("compaction.paused is true")
    return throttled(reading)


def _under_way(reading: Reading) -> Action | None:
    """What to do about the jobs in progress, else about requests. None: there are none."""
    jobs = reading.state.jobs
    waiting: list[Wait] = []
    for job in (j for j in jobs if j.status == "in_progress"):
        action = resumed(job, reading)
        if not isinstance(action, Wait):
            return action
        waiting.append(action)
    if waiting:
        return min(waiting, key=lambda wait: wait.until_ms or 0)
    return next((Admit(job) for job in jobs if job.status == "submitted"), None)


def throttled(reading: Reading) -> Wait | None:
    """The wait until the throttle lets the next job start; within a job, ranges are spaced out in the same way."""
    now_ms, rate = reading.now_ms, reading.config.compaction_throttle_bytes_per_second
    if rate < 0:
        return None
    # Look at every finished job, since the last may be a refused request that read nothing. Each job ends at the
    # earlier of two times: by the rate when it ran, and by today's. So lowering the throttle does not stretch past
    # jobs, and raising it shortens them.
    ends_ms = [
        min(job.paced_to_ms, job.started_at_ms + job.counts.bytes_read * 1000 // rate)
        for job in reading.state.history
        if job.paced_to_ms is not None and job.started_at_ms is not None
        if job.started_at_ms <= now_ms  # otherwise the clock was ahead when it began
    ]
    until_ms = max(ends_ms, default=now_ms)
    if until_ms <= now_ms:
        return None
    return Wait(
        f"compaction.throttle.bytes.per.second: the next job may start in {span_text(until_ms - now_ms)}", until_ms
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """The next action, the debts it was chosen from, and everything not chosen, with the reasons."""

    action: Action
    debt: Debt
    passed: tuple[NotDue, ...]


def decision(reading: Reading) -> Decision:
    """`decide`, with the reasons against everything else."""
    debt = assess(reading)
    action = decide(reading, debt)
    chosen = action.due if isinstance(action, Propose | Drop) else None
    passed = [
        NotDue(due.debt.text, _why_not(due, action, reading))
        for due in debt.all_due
        if chosen is None or due.debt != chosen.debt
    ]
    passed += (each for each in debt.weighed if isinstance(each, NotDue))
    passed += left_out(debt, reading, chosen)
    return Decision(action, debt, tuple(passed))


def _why_not(due: Due, action: Action, reading: Reading) -> str:
    """Why `action` is not `due`."""
    if isinstance(action, Propose | Drop) and due.urgency > action.due.urgency:
        return f"due after that: {due.reason}"
    wait = _postponed(_fitting(due, reading.config), reading)  # would keep it from starting in any case
    if wait is not None:
        return wait.reason
    return f"{due.reason}; {_before_it(action)}"


def _before_it(action: Action) -> str:
    match action:
        case Wait(reason):
            return reason
        case Propose(due) | Drop(due):
            return due.reason  # `due` is a part of it
        case Settle(job) | Resume(job):
            return f"it waits for job {job.id}"
        case Admit(job):
            return f"it waits for job {job.id}, which was requested"


URGENCY_NONE = 1_000


def urgency_of(action: Action, config: TopicConfig) -> tuple[int, int]:
    """Running and requested work first, then debts in the order in which they are paid; for the same debt, the topic
    with the larger compaction.priority."""
    match action:
        case Propose(due) | Drop(due):
            return 1 + due.urgency, -config.compaction_priority
        case Wait():
            return URGENCY_NONE, -config.compaction_priority
        case _:
            return 0, -config.compaction_priority


def settled(job: Job, manifest: Manifest, committed: set[str]) -> Settle | None:
    if job.id in committed:
        # Even if it was cancelled since: its commit is a fact (P13).
        return Settle(job, "completed", "committed")
    if manifest.sealed:
        return Settle(job, "cancelled", "the topic was deleted", ended_by=EndedBy.DELETION)
    if job.cancel_requested:
        return Settle(job, "cancelled", "cancelled on request", ended_by=EndedBy.REQUEST)
    return None


def resumed(job: Job, reading: Reading) -> Settle | Resume | Wait:
    failure, now_ms = failure_of(reading.state, job.segments), reading.now_ms
    given_up = _given_up(failure, reading) or too_often(job)
    if given_up is not None:
        return Settle(job, "failed", given_up, JobError(Category.GIVEN_UP, given_up))
    pause_ms = _pause_ms(failure, now_ms)
    if failure is not None and pause_ms > 0:
        text = f"job {job.id} failed ({failure.error.reason}); next attempt in {span_text(pause_ms)}"
        return Wait(text, now_ms + pause_ms)
    return Resume(job)


def _given_up(failure: FailureCount | None, reading: Reading) -> str | None:
    """Why nothing is tried on the sources of `failure` for a day. None: continue. It is not for ever: the sources of an
    idle partition never change, and the cause may have been repaired since."""
    if failure is None or _again_in_ms(failure, reading.now_ms) == 0:
        return None
    if failure.count >= reading.config.compaction_attempts_max:
        return f"{counted(failure.count, 'attempt')} in a row made no progress; the last: {failure.error.reason}"
    if failure.error.category == Category.GIVEN_UP:
        return failure.error.reason
    if failure.lost >= ENGINE_LOST_MAX:
        told = f"the engine died under {failure.lost} attempts in a row that made no progress"
        return f"{told}; the last: {failure.error.reason}"
    return None


def proposed(dues: tuple[Due, ...], reading: Reading) -> Propose | Wait:
    """The most urgent work that may start now; work that failed, and waits or was given up, does not block the rest."""
    waits: list[Wait] = []
    for due in (_fitting(due, reading.config) for due in dues):
        wait = _postponed(due, reading)
        if wait is None:
            return Propose(due)
        waits.append(wait)
    if not waits:
        return NOTHING_DUE
    again_ms = [wait.until_ms for wait in waits if wait.until_ms is not None]
    return Wait(waits[0].reason, min(again_ms, default=None))


def pressing(debt: Debt, reading: Reading) -> Propose | Wait:
    """What may start beside jobs in progress, whether they run or wait for their next attempt: only work that appends
    would otherwise stop for. `debt`: of the segments that no job holds."""
    if sum(job.status == "in_progress" for job in reading.state.jobs) >= IN_PROGRESS_MAX:
        return Wait(f"{IN_PROGRESS_MAX} jobs are in progress, which is the limit")
    return proposed(tuple(due for due in debt.all_due if due.debt.grows), reading)


def _fitting(due: Due, config: TopicConfig) -> Due:
    """`due`; if one merge cannot hold its inputs, the tier of some of them that comes first."""
    first = None if due.kind == "relocate" else tiered_first(due.units, config)
    if first is None:
        return due
    held, reason = first
    return replace(due, units=tuple(held), debt=DebtName.FAN_IN, reason=reason)


def _postponed(due: Due, reading: Reading) -> Wait | None:
    """Why `due` may not start now. None: it may."""
    now_ms = reading.now_ms
    full = has_no_room(due, reading.manifest)
    if full is not None:
        return Wait(f"due ({due.reason}), but {full}")
    failure = failure_of(reading.state, segments_of(due.units))
    if failure is None:
        return None
    given_up = _given_up(failure, reading)
    if given_up is not None:
        # New segments change the set, and with it the verdict; 'lithify compaction submit' asks regardless.
        again = span_text(_again_in_ms(failure, now_ms))
        return Wait(f"due ({due.reason}), but given up: {given_up}; it will be tried once more in {again}")
    pause_ms = _pause_ms(failure, now_ms)
    if pause_ms > 0:
        return Wait(
            f"due ({due.reason}), but the last attempt failed; next attempt in {span_text(pause_ms)}", now_ms + pause_ms
        )
    return None


def _pause_ms(failure: FailureCount | None, now_ms: int) -> int:
    """How much longer the sources of `failure` must wait."""
    return 0 if failure is None else time_left_ms(failure.retry_at_ms, now_ms, RETRY_MAX_MS)


def _again_in_ms(failure: FailureCount, now_ms: int) -> int:
    """How much longer the sources of `failure` are left alone, if they were given up."""
    return time_left_ms(failure.retry_at_ms + GIVEN_UP_MS, now_ms, RETRY_MAX_MS + GIVEN_UP_MS)


def tiered_first(chosen: Sequence[Unit], config: TopicConfig) -> tuple[Sequence[Unit], str] | None:
    """If one merge cannot hold `chosen`, or would have to sort them: those that are merged first, and why. None: it
    can."""
    sorted_first = to_sort(chosen, config.output_bytes) if config.compacted else ()
    if sorted_first:
        left = sum(unit.bytes for unit in chosen if not in_key_order(unit))
        return sorted_first, f"{left} bytes of its inputs are in offset order and must be sorted by key first"
    held = fan_in(chosen)
    if len(held) == len(chosen):
        return None
    return held, f"{len(chosen)} inputs are too many for one merge, so {len(held)} neighbouring ones are merged first"


def given_up_first(held: Sequence[Unit], reason: str, reading: Reading) -> str | None:
    """Why a request cannot begin: the tier of `held` that must come first (for `reason`) was given up. None: it can."""
    given_up = _given_up(failure_of(reading.state, segments_of(held)), reading)
    if given_up is None:
        return None
    return f"{reason}; that was given up: {given_up}"


def incumbent_lives(state: CompactorState, now_ms: int) -> bool:
    """Whether the owner of the epoch is at work: it plans a job or has a running attempt, and wrote within the lease.
    An idle owner delays no other compactor, however recently it wrote (docs/rfcs/0003)."""
    if not state.owner:
        return False
    at_work = state.planning or any(a.ended_at_ms is None for job in state.jobs for a in job.attempts)
    # Its clock may be ahead of ours by a lease at most: otherwise one wrong reading would hold the partition for as
    # long as that clock was ahead.
    return at_work and abs(now_ms - state.heartbeat_at_ms) < LEASE_MS
