"""What a relocation moves, and the job that does it. Pure (docs/rfcs/0031)."""

from collections.abc import Sequence
from typing import NamedTuple

from lithify.compactor.altered import not_its_home
from lithify.compactor.estimate import estimate_relocation
from lithify.compactor.plan import sources_of
from lithify.compactor.policy import given_up_first
from lithify.manifest.categories import Category, EndedBy
from lithify.manifest.cold import all_there, elsewhere, no_room, one_job
from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import in_warehouse, told
from lithify.manifest.jobs import CompactorState, Ended, Job, JobError, KeyRange, MergeRules, Plan
from lithify.manifest.model import Manifest
from lithify.manifest.move_price import move_price
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit, segments_of

__all__ = ["Ends", "Moves", "freeze_relocation", "gives_way", "requested_moves"]

_OF_THE_ENGINE = frozenset((Category.ENGINE, Category.ENGINE_DOWN, Category.ENGINE_LOST, Category.STALLED))


class Moves(NamedTuple):
    """What the next job moves."""

    units: Sequence[Unit]  # each of one segment
    home: str
    reason: str
    request: Job | None = None  # the one that this does; None: the scheduler proposes it, or more is to come


class Ends(NamedTuple):
    """How a request ends without a job."""

    status: Ended
    reason: str
    error: JobError | None = None
    ended_by: str = ""  # an EndedBy


def requested_moves(reading: Reading, request: Job) -> Moves | Ends:
    """The next job of a request to move everything to a home. If one job cannot move it all, several do, and the
    request itself is the last of them.

    SUBTLE! A request comes before all that is due, so it must not wait for a home. 1. The home is away, and a person
    asks for it all the same. 2. Each step is about the request, and fails. 3. L0 is never merged, and fills up: then
    appends wait for the home. Therefore the request ends, and says why. Test: tests/e2e/test_relocation_ends.py
    """
    manifest, home = reading.manifest, request.home
    given_up = not_its_home(home, reading.config)
    if given_up is not None:
        text = f"the topic was altered: {given_up}"
        return Ends("cancelled", text, JobError(Category.ALTERED, text), EndedBy.ALTERATION)
    found = elsewhere(manifest, home)
    if not found:
        return Ends("completed", f"nothing to move: {all_there(manifest, home)}")
    vain = _moved_in_vain(reading.state, request)
    if vain is not None:
        return Ends("failed", f"a part of it failed: {vain.reason}", vain.error)
    full = no_room(manifest)
    if full is not None:
        return Ends("failed", full, JobError(Category.NO_ROOM, full))
    held = reading.held
    if any(unit.segments[0].id in held for unit in found):
        text = "another job holds some of the segments: ask again when it has ended"
        return Ends("failed", text, JobError(Category.INVALID, text))
    chosen, reason = one_job(found), f"requested: to {told(home)}"
    if len(chosen) == len(found):
        return Moves(chosen, home, reason, request)
    reason = f"{reason}, {len(chosen)} of {len(found)} segments first"
    given_up = given_up_first(chosen, reason, reading)
    if given_up is not None:
        return Ends("failed", given_up, JobError(Category.GIVEN_UP, given_up))
    return Moves(chosen, home, reason)


def _moved_in_vain(state: CompactorState, request: Job) -> Job | None:
    """A relocation to the same home that failed since `request` was made. More of them would keep all that is due
    waiting, for as long as that home is away."""
    later = (job for job in state.history if job.relocates and job.created_at_ms >= request.created_at_ms)
    return next((job for job in later if job.home == request.home and job.status == "failed"), None)


def gives_way(job: Job, head: Manifest | None, state: CompactorState | None, error: JobError) -> bool:
    """Whether `job` ends, and lets go of its segments, because of an `error` that may be that of another home: while it
    waited for that home, nobody else could have them, and appends would stop for their merge. A relocation does unless
    the engine is to blame; a merge of cold segments does if it has recorded nothing. It is planned again after a pause.
    """
    if job.relocates:
        return error.category not in _OF_THE_ENGINE and not error.damage
    cold = head is not None and not all(map(in_warehouse, sources_of(head, job)))
    now = (None if state is None else state.job(job.id)) or job  # with what this attempt has recorded
    return cold and not now.done and error.category in (Category.UNAVAILABLE, Category.STORE_DENIED)


def freeze_relocation(moves: Moves, job_id: str, config: TopicConfig, now_ms: int) -> Job:
    """The job that does `moves`, ready to be admitted: each segment is a range of its plan."""
    segments = segments_of(moves.units)
    plan = Plan(
        ranges=tuple(KeyRange() for _ in segments),
        rules=MergeRules(clock_ms=now_ms),
        output_bytes=max(segment.bytes for segment in segments),
        input_bytes=sum(segment.bytes for segment in segments),
        input_rows=sum(segment.rows for segment in segments),
        input_segments=len(segments),
    )
    return Job(
        id=job_id,
        kind="relocate",
        status="in_progress",
        origin="scheduler" if moves.request is None else "manual",
        sources=tuple(dict.fromkeys(unit.id for unit in moves.units)),
        segments=tuple(segment.id for segment in segments),
        home=moves.home,
        plan=plan,
        reason=moves.reason,
        created_at_ms=now_ms,
        estimate=estimate_relocation(moves.units, moves.home),
        price=move_price(segments, moves.home, config, now_ms),
    )
