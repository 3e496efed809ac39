"""The admin client: manual compactions, and the state of a partition's compactor. Any process may use it (P15)."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from lithify.compactor.estimate import estimate
from lithify.compactor.info import CompactionInfo, compaction_id, compaction_info
from lithify.compactor.job_edits import RequestCancel, Submit
from lithify.compactor.plan import choose_requested
from lithify.compactor.policy import (
    LEASE_MS,
    Action,
    Admit,
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    incumbent_lives,
    survey,
)
from lithify.compactor.reading import Reading, first_state
from lithify.compactor.relief import relief
from lithify.compactor.requested import waits_for
from lithify.manifest.catalog import partition_of
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import Debt, NotDue
from lithify.manifest.jobs import Estimate, Job
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Key
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import LiftQuarantine
from lithify.manifest.units import Unit
from lithify.manifest.walk import UnreadTopic, partitions_found
from lithify.manifest.words import span_text
from lithify.segment.segments import Segments
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, NotFound
from lithify.store.port import NewId, Now

__all__ = ["Admin", "Explanation"]


class WarehouseLike(Protocol):
    @property
    def driver(self) -> Driver: ...


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """An L0 segment or a run that a compaction would read."""

    id: str
    kind: str  # L0 or run
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


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is done beside a running job (docs/rfcs/0014)."""

    action: str  # as in Explanation
    reason: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a compactor would do next in a partition, what that takes, what it would not do, and why."""

    topic: str
    partition: int
    action: str  # wait, drop, propose, admit, resume, settle
    reason: str
    kind: str | None  # of the work that is due
    debt: str | None  # that this work pays
    sources: tuple[str, ...]
    inputs: tuple[Input, ...]  # those of `sources`, one by one
    estimate: Estimate | None
    passed: tuple[NotDue, ...]  # work, then units, that were considered and not chosen
    owed: Owed
    compactor: str  # the owner of the epoch, and whether it shows life
    owner_seen_ms: int | None = None  # of its latest claim or job; retiring segments leaves no such mark
    beside: Beside | None = None  # what relieves the partition while its job runs


class Admin:
    """Requests to compactors, and their status. Reads and writes only numbered files; starts no engine.

    >>> warehouse = lithify.open("memory://example")
    >>> _ = warehouse.create_topic("users").append([lithify.Record(b"ada", b"pro")])
    >>> admin = lithify.Admin(warehouse)
    >>> job = admin.submit("users", 0)
    >>> admin.compaction(job.id).status
    'submitted'
    >>> _ = admin.cancel(job.id)
    >>> admin.explain("users", 0).action
    'settle'
    """

    def __init__(self, warehouse: WarehouseLike) -> None:
        self._driver = warehouse.driver
        self._known = KnownPartitions(self._driver)

    def submit(self, topic: str, partition: int, sources: Literal["full"] | Sequence[str] = "full") -> CompactionInfo:
        """Request a compaction: of everything ("full"), or of these L0 and run ids. The compactor decides.

        Raises InvalidRequest if a source is not live, NotFound, Unavailable if 64 requests are waiting already.
        """
        if isinstance(sources, str) and sources != "full":
            raise InvalidRequest("sources: give 'full', or a list of L0 segment and run ids")
        if not sources:
            raise InvalidRequest("sources: the list is empty; give 'full' for a compaction of everything")
        requested = () if isinstance(sources, str) else tuple(sources)
        keys, config = self._partition(topic, partition)

        async def submit(files: PartitionFiles) -> tuple[Job, int]:
            manifest, now_ms = await files.head(), await Now()
            choose_requested(manifest, requested, now_ms, config)
            job_id = SegmentId.for_job(manifest.id, await NewId())
            job = Job(id=job_id, status="submitted", origin="manual", requested=requested, created_at_ms=now_ms)
            state = (await files.compactor.commit(Submit(first_state(manifest), job))).version.value
            return (state.job(job_id) if state else None) or job, now_ms

        job, now_ms = self._known.run(keys, submit)
        return compaction_info(topic, partition, job, now_ms)

    def compaction(self, id: str) -> CompactionInfo:  # noqa: A002 - part of the public API
        """The status of one compaction by its id, topic/partition/job. Raises NotFound."""
        topic, partition, job_id = _split(id)
        keys, _ = self._partition(topic, partition)
        found = next((info for info in self._infos(keys) if info.id == id), None)
        if found is None:
            raise NotFound(
                f"{topic}/{partition} has no compaction {job_id}; the oldest finished ones are no longer remembered"
            )
        return found

    def compactions(self, topic: str | None = None, partition: int | None = None) -> list[CompactionInfo]:
        """Active and remembered compactions, of the whole warehouse or a part, oldest first in each partition. Raises
        if one of them cannot be read; `readable_compactions` continues with the others."""
        found, faults = self.readable_compactions(topic, partition)
        for fault in faults:
            raise fault.error()
        return found

    def readable_compactions(
        self, topic: str | None = None, partition: int | None = None
    ) -> tuple[list[CompactionInfo], list[Fault]]:
        """As `compactions`, but only those that can be read; and the faults of the rest."""
        infos: list[CompactionInfo] = []
        faults: list[Fault] = []
        for found in partitions_found(self._known, topic):
            if isinstance(found, UnreadTopic):
                faults.append(found.fault)
                continue
            if partition is not None and partition_of(found.topic, partition) != found.keys:
                continue
            read = attempt(lambda keys=found.keys: self._infos(keys))
            if isinstance(read, Fault):
                faults.append(read)
            else:
                infos += read
        return infos, faults

    def cancel(self, id: str) -> CompactionInfo:  # noqa: A002
        """Request that a compaction be cancelled; its compactor ends it, so the returned status may be old.

        Raises InvalidRequest if it has completed or failed, NotFound.
        """
        topic, partition, job_id = _split(id)
        keys, _ = self._partition(topic, partition)
        self._known.run(keys, lambda files: files.compactor.commit(RequestCancel(job_id)))
        return self.compaction(id)

    def retry(self, topic: str, partition: int) -> bool:
        """Lift a partition's quarantine, if the damaged segment is whole again or gone from the log; returns whether
        there was a quarantine.

        Raises Corrupt if the segment is still damaged: then nothing was changed.
        """
        keys, _ = self._partition(topic, partition)
        head = self._known.run(keys, lambda files: files.head())
        if head.quarantine is None:
            return False
        for ref in (segment for segment in head.segments() if segment.id == head.quarantine.segment):
            try:
                Segments(keys, self._driver.homes).verify(ref)
            except (NotFound, Corrupt) as damaged:
                raise Corrupt(f"{topic}/{partition}: {damaged}", damaged.key, damaged.segment) from damaged
        self._known.run(keys, lambda files: files.manifest.commit(LiftQuarantine()))
        return True

    def explain(self, topic: str, partition: int) -> Explanation:
        """What a compactor would do next in a partition, and what it would not do, with the reasons."""
        keys, config = self._partition(topic, partition)

        async def explain(files: PartitionFiles) -> Explanation:
            manifest, state = await files.head(), await files.compactor_state()
            reading = Reading.of(manifest, state, config, await Now())
            decision = survey(reading)
            action, debt = decision.action, decision.debt
            due = action.due if isinstance(action, Propose | Drop) else None
            foretold = None
            if isinstance(action, Propose):
                foretold = estimate(reading, action.due.units, action.due.job_kind)
            elif isinstance(action, Resume):
                foretold = action.job.estimate
            return Explanation(
                topic=topic,
                partition=partition,
                action=action.name,
                reason=_reason(action, reading),
                kind=due.kind if due else None,
                debt=due.debt if due else None,
                sources=tuple(unit.id for unit in due.units) if due else (),
                inputs=tuple(map(_input, due.units)) if due else (),
                estimate=foretold,
                passed=decision.passed,
                owed=_owed(debt),
                compactor=_owner(action, reading),
                owner_seen_ms=(reading.state.heartbeat_at_ms or None) if reading.state.owner else None,
                beside=_beside(action, reading),
            )

        return self._known.run(keys, explain)

    def _partition(self, topic: str, partition: int) -> tuple[PartitionKeys, TopicConfig]:
        known = self._known.topic(topic)
        return partition_of(known, partition), parse(known.config)

    def _infos(self, keys: PartitionKeys) -> list[CompactionInfo]:
        state = self._known.run(keys, lambda files: files.compactor_state())
        now_ms = self._driver.now_ms()
        jobs = () if state is None else (*state.history, *state.jobs)
        return [compaction_info(keys.topic, keys.partition, job, now_ms) for job in jobs]


def _split(compaction: str) -> tuple[str, int, str]:
    topic, _, rest = compaction.partition("/")
    partition, _, job = rest.partition("/")
    if not job or not partition.isdecimal():
        example = compaction_id("users", 0, "000000000042-1a2b3c4d")
        raise InvalidRequest(f"{compaction[:300]!r} is not a compaction id; one looks like {example}")
    return topic, int(partition), job


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


def _beside(action: Action, reading: Reading) -> Beside | None:
    """What would be done beside the running job of `action` (docs/rfcs/0014)."""
    if not isinstance(action, Resume) or not incumbent_lives(reading.state, reading.now_ms):
        return None
    meanwhile = relief(reading, action.job.id)
    if isinstance(meanwhile, Wait):
        return None
    return Beside(action=meanwhile.name, reason=_reason(meanwhile, reading))


def _owner(action: Action, reading: Reading) -> str:
    state, now_ms = reading.state, reading.now_ms
    if not state.owner:
        return "none yet"
    if incumbent_lives(state, now_ms):
        return f"{state.owner_name}, at work"
    seen_ms = max(now_ms - state.heartbeat_at_ms, 0)
    seen = f", its latest claim or job {span_text(seen_ms)} ago" if state.heartbeat_at_ms else ""
    taken = f"; a standby takes over work that it leaves undone for {span_text(LEASE_MS)}"
    waits = "" if isinstance(action, Wait) else taken
    return f"{state.owner_name}{seen}{waits}"


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
            return f"job {job.id} is running: {job.reason}"
