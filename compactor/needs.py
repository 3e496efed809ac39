"""What the next step of a partition needs: room for the bytes its job reads, and which kind of turn. Pure."""

from dataclasses import dataclass, replace

from lithify.compactor.failures import failure_of, is_in_vain, runs_alone
from lithify.compactor.policy import Action, Admit, Propose, Resume, urgency_of
from lithify.compactor.retiring import segments_of
from lithify.compactor.turns import Want
from lithify.manifest.debt import appends_slowed
from lithify.manifest.reading import Reading
from lithify.manifest.units import units

__all__ = ["SHORT_BYTES", "Needs", "needs", "want"]

SHORT_BYTES = 256 << 20  # a job that reads at most one output's worth takes about a minute
SHORT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Needs:
    input_bytes: int  # what its job reads, 0 if it is none; for a request, all that it could name
    alone: bool = False  # the job may be what killed the compactors before this one (P14)
    short: bool = False  # it ends soon, or people wait for it


def needs(action: Action, reading: Reading, *, owned: bool) -> Needs:
    """What `action` needs. `owned`: whether the partition is claimed already; if not, the attempt that a former owner
    left open will be counted by the claim."""
    needed = _needs(action, reading, owned=owned)
    presses = _relieves_pressure(action, reading)
    rate = reading.config.compaction_throttle_bytes_per_second
    slow = 0 <= rate * SHORT_SECONDS < needed.input_bytes  # a throttle makes it long
    return replace(needed, short=(presses or needed.input_bytes <= SHORT_BYTES) and not slow)


def _relieves_pressure(action: Action, reading: Reading) -> bool:
    """Decided by the segments it merges, because the job does not record its debt: any tier made only of L0 segments
    relieves appends, also one of a part of what is due, or one that is resumed."""
    match action:
        case Propose(due) if due.kind == "tier":
            merged = segments_of(due.units)
        case Resume(job) if job.kind == "tier" and job.origin == "scheduler":
            merged = job.segments
        case _:
            return False
    manifest = reading.manifest
    return appends_slowed(manifest, reading.config) and {segment.id for segment in manifest.l0}.issuperset(merged)


def _needs(action: Action, reading: Reading, *, owned: bool) -> Needs:
    match action:
        case Propose(due):
            failure = failure_of(reading.state, segments_of(due.units))
            return Needs(sum(unit.bytes for unit in due.units), runs_alone(failure))
        case Resume(job):
            failure = failure_of(reading.state, job.segments)
            alone = runs_alone(failure, died=not owned and is_in_vain(job))
            return Needs(0 if job.plan is None else job.plan.input_bytes, alone)
        case Admit(request):
            named = set(request.requested)
            return Needs(sum(u.bytes for u in units(reading.manifest) if not named or u.id in named))
        case _:
            return Needs(0)


def want(action: Action, reading: Reading, *, owned: bool) -> Want:
    """What a partition wants its next turn for (docs/rfcs/0014)."""
    needed = needs(action, reading, owned=owned)
    asked = isinstance(action, Admit) or (isinstance(action, Resume) and action.job.origin == "manual")
    return Want(
        urgency_of(action, reading.config),
        needed.input_bytes,
        short=needed.short,
        asked=asked,
        alone=needed.alone,
    )
