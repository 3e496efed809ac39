"""What a compactor would do next in a partition, and why not more."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from lithify.admin.partitions import Answers, Places
from lithify.compactor.engine import WeighSegment
from lithify.compactor.estimate import estimate, estimate_relocation, target_bytes
from lithify.compactor.policy import (
    Action,
    ActionName,
    Admit,
    Decision,
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    decision,
    incumbent_lives,
)
from lithify.compactor.relief import relief
from lithify.compactor.requested import waits_for
from lithify.compactor.split import AHEAD_MAX, ranges_without_weights
from lithify.compactor.weighing import Weighing
from lithify.log.beside import AskAlone
from lithify.manifest.cold_price import ColdPrice, cold_price
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import Debt, DebtName, NotDue, Work
from lithify.manifest.jobs import CompactorState, Estimate, Job
from lithify.manifest.known import KnownPartitions
from lithify.manifest.latest_failure import failure_text
from lithify.manifest.model import Key
from lithify.manifest.move_price import MovePrice, move_price
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit, segments_of
from lithify.manifest.walk import FoundPartition
from lithify.segment.ranges import Weight, split_ranges
from lithify.store.errors import LithifyError
from lithify.store.port import Now
from lithify.store.short_repr import short_repr

__all__ = ["Beside", "Explanation", "Input", "Owed", "Owner", "explain", "explain_topic"]

WEIGHED_MAX = 64  # segments that an answer may open: a footer each, a few tens of milliseconds


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """An L0 segment or a run that a compaction would read."""

    id: str
    kind: Literal["L0", "run"]
    segments: int
    bytes: int
    rows: int
    min_offset: int
    max_offset: int  # inclusive
    min_key: Key | None  # as in SegmentInfo
    max_key: Key | None


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a partition waits to be cleaned or dropped."""

    log_start_offset: int  # as a reader sees it now
    droppable_segments: int  # wholly below the log start
    droppable_bytes: int
    clean_bytes: int
    dirty_bytes: int
    young_bytes: int
    dirty_ratio: float
    oldest_dirty_ms: int | None  # timestamp of the oldest record not yet cleaned


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The compactor that owns a partition's epoch."""

    name: str  # its host and process
    at_work: bool  # it plans or runs a job here, and has just shown life
    seen_ms: int | None  # of its latest claim or job; retiring segments leaves no such mark
    left: bool = False  # it ended as it should, and gave the partition up; one that was killed did not


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is done beside a running job (docs/rfcs/0014)."""

    action: ActionName
    reason: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a compactor would do next in a partition, what that takes, what it would not do, and why."""

    topic: str
    partition: int
    at_ms: int  # the store's clock at which this was decided
    action: ActionName
    reason: str
    kind: Work | None  # of the work that is due
    debt: DebtName | None  # that this work pays
    sources: tuple[str, ...]
    inputs: tuple[Input, ...]  # those of `sources`, one by one
    estimate: Estimate | None
    passed: tuple[NotDue, ...]  # work, then units, that were considered and not chosen
    owed: Owed
    compactor: Owner | None  # None: there has been none yet
    beside: Beside | None = None  # what relieves the partition while its job runs
    cold: ColdPrice | None = None  # of what a merge or a drop takes from cold homes; None: nothing
    price: MovePrice | None = None  # of a move between homes
    ranges_exact: bool = False  # the number of ranges in `estimate` is the number that will run

    __repr__ = short_repr


def explain(known: KnownPartitions, found: FoundPartition) -> Explanation:
    return _explained(known, found, *_decided(known, found))


def explain_topic(known: KnownPartitions, topic: str) -> Answers[Explanation]:
    def beside(found: FoundPartition) -> Explanation:
        reading, decided = _decided(known, found)
        if reading.manifest.homes:  # footers may be there
            raise AskAlone
        return _explained(known, found, reading, decided)

    return Places.of(known, topic).ask_beside_or_alone(partial(explain, known), beside)


def _decided(known: KnownPartitions, found: FoundPartition) -> tuple[Reading, Decision]:
    config = parse(found.topic.config)

    async def read(files: PartitionFiles) -> Reading:
        manifest, state = await files.head(), await files.compactor_state()
        return Reading.of(manifest, state, config, await Now())

    reading = known.run(found.keys, read)
    return reading, decision(reading)


def _ranges(known: KnownPartitions, found: FoundPartition, config: TopicConfig, chosen: Sequence[Unit]) -> int | None:
    """The number of key ranges that planning will find, by the same footers. None: too many segments to open for an
    answer, or one cannot be read."""
    decided = ranges_without_weights(chosen, config)
    if decided is not None:
        return len(decided)
    refs = segments_of(chosen)
    if len(refs) > WEIGHED_MAX:
        return None
    weighing = Weighing(known.driver.homes)
    weights: list[Weight] = []
    try:
        for at, ref in enumerate(refs, 1):
            weights += weighing.weigh(WeighSegment(found.keys, ref, tuple(refs[at : at + AHEAD_MAX])))
    except LithifyError:  # the job will meet it, and tell
        return None
    return len(split_ranges(weights, target_bytes(config, sum(unit.bytes for unit in chosen))))


def _explained(known: KnownPartitions, found: FoundPartition, reading: Reading, decided: Decision) -> Explanation:
    action, debt = decided.action, decided.debt
    due = action.due if isinstance(action, Propose | Drop) else None
    foretold, counted_all = None, True
    if isinstance(action, Propose):
        if action.due.kind == "relocate":
            foretold = estimate_relocation(action.due.units, reading.config.cold_home)
        else:
            exact = _ranges(known, found, reading.config, action.due.units)
            foretold = estimate(reading, action.due.units, action.due.job_kind, exact)
            counted_all = exact is not None
    elif isinstance(action, Resume):
        foretold = action.job.estimate
    return Explanation(
        topic=reading.manifest.topic,
        partition=reading.manifest.partition,
        at_ms=reading.now_ms,
        action=action.name,
        reason=_reason(action, reading),
        kind=due.kind if due else None,
        debt=due.debt if due else None,
        sources=tuple(unit.id for unit in due.units) if due else (),
        inputs=tuple(map(_input, due.units)) if due else (),
        estimate=foretold,
        cold=_cold(due.units, reading) if due and due.kind != "relocate" else None,
        price=_price(action, reading),
        ranges_exact=foretold is not None and counted_all,
        passed=decided.passed,
        owed=_owed(debt),
        compactor=_owner(reading.state, reading.now_ms),
        beside=_beside(action, reading),
    )


def _cold(chosen: Sequence[Unit], reading: Reading) -> ColdPrice | None:
    price = cold_price(segments_of(chosen), reading.config, reading.now_ms)
    return price if price.segments else None


def _price(action: Action, reading: Reading) -> MovePrice | None:
    match action:
        case Resume(job) | Admit(job):
            return job.price
        case Propose(due) if due.kind == "relocate":
            return move_price(segments_of(due.units), reading.config.cold_home, reading.config, reading.now_ms)
        case _:
            return None


def _input(unit: Unit) -> Input:
    lows, highs = [ref.min_key for ref in unit.segments], [ref.max_key for ref in unit.segments]
    return Input(
        id=unit.id,
        kind="run" if unit.is_run else "L0",
        segments=len(unit.segments),
        bytes=unit.bytes,
        rows=unit.rows,
        min_offset=unit.min_offset,
        max_offset=unit.max_offset,
        min_key=None if None in lows else min(low for low in lows if low is not None),
        max_key=None if None in highs else max(high for high in highs if high is not None),
    )


def _owed(debt: Debt) -> Owed:
    return Owed(
        log_start_offset=debt.log_start_offset,
        droppable_segments=len(debt.droppable),
        droppable_bytes=sum(segment.bytes for segment in debt.droppable),
        clean_bytes=debt.clean_bytes,
        dirty_bytes=debt.dirty_bytes,
        young_bytes=debt.young_bytes,
        dirty_ratio=debt.dirty_ratio,
        oldest_dirty_ms=debt.oldest_dirty_ms,
    )


def _owner(state: CompactorState, now_ms: int) -> Owner | None:
    if not state.owner_name:
        return None
    return Owner(
        name=state.owner_name,
        at_work=incumbent_lives(state, now_ms),
        seen_ms=state.heartbeat_at_ms or None,
        left=not state.owner,
    )


def _beside(action: Action, reading: Reading) -> Beside | None:
    """What would be done beside the running job of `action` (docs/rfcs/0014)."""
    if not isinstance(action, Resume) or not incumbent_lives(reading.state, reading.now_ms):
        return None
    meanwhile = relief(reading, action.job.id)
    if isinstance(meanwhile, Wait):
        return None
    return Beside(action=meanwhile.name, reason=_reason(meanwhile, reading))


def _reason(action: Action, reading: Reading) -> str:
    match action:
        case Wait(reason):
            return reason
        case Propose(due) | Drop(due):
            return due.reason
        case Settle(job, status, reason):
            return f"job {job.id} is {status}: {reason}"
        case Admit(job):
            return f"job {job.id} was requested and waits for {waits_for(job, reading)}"
        case Resume(job):
            return _resumes(job)


def _resumes(job: Job) -> str:
    if any(each.ended_at_ms is None for each in job.attempts):
        return f"job {job.id} is running: {job.reason}"
    failed = failure_text(job.attempts)
    due = "its first attempt is due" if not job.attempts else "its next attempt is due"
    return f"job {job.id}: {failed}; {due}" if failed else f"job {job.id}: {due}: {job.reason}"
