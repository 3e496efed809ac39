"""What is kept of each partition to show many at once: counts, debts, jobs and sizes, never its segments. Pure
(docs/rfcs/0018, Survey and metrics)."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from lithify.admin.home_watch import HomeState
from lithify.admin.homes import HomeUse, uses
from lithify.admin.overdue import due_since_ms, overdue, taken_by
from lithify.admin.partitions import Failed
from lithify.compactor.info import compaction_id
from lithify.compactor.policy import ActionName, decide, incumbent_lives
from lithify.log.consumer_info import consumer_infos, expired_unread
from lithify.manifest.debt import Debt, DebtName, Due, Work
from lithify.manifest.jobs import Job, Kind, Origin, Status
from lithify.manifest.model import Manifest
from lithify.manifest.pins import by_manifest, pinning
from lithify.manifest.reading import Reading
from lithify.manifest.retention import logical_size, stalled_by_future

__all__ = ["Consumers", "JobNow", "Overview", "OwedWork", "PartitionSurvey", "Waiting", "oldest_waiting", "surveyed"]


class OwedWork(msgspec.Struct, frozen=True, kw_only=True):
    """One debt of a partition."""

    debt: DebtName
    work: Work  # that pays it
    segments: int  # that this work would read, or drop
    bytes: int
    # Judged by the oldest record in them, their append and the last compaction; the debt may be younger.
    since_ms: int


class JobNow(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has not ended."""

    id: str  # as `CompactionInfo.id`
    kind: Kind | None  # None until it is admitted
    status: Status
    origin: Origin
    running: bool  # an attempt has begun and not ended; if its compactor died, nobody may have noted the end yet
    attempt: int  # the number of the latest; 0: none has begun
    failed_attempts: int
    ranges: int  # of keys, in its plan
    recorded: int  # of these; a later attempt does not do them again
    input_bytes: int
    created_at_ms: int
    started_at_ms: int | None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Garbage: what was replaced and is still there."""

    segments: int  # retired, and waiting for the grace period or for a checkpoint
    bytes: int
    manifests: int  # no longer pinned; what only they name is garbage too
    since_ms: int | None = None  # when the oldest of the segments that no checkpoint keeps was replaced


class Consumers(msgspec.Struct, frozen=True, kw_only=True):
    """All named consumers of a partition."""

    count: int
    lag: int  # the largest, in offsets
    slowest: str  # its consumer; "" if there is none
    overtaken: int  # consumers that lost records to retention
    lost: int  # offsets that expired before the consumer that lost most had read them
    missed: int  # consumers that missed deletions


class PartitionSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as its newest numbered files have it. Times in ms since 1970 by the store's clock."""

    topic: str
    partition: int
    at_ms: int  # when it was read
    manifest_id: int
    compactor_epoch: int
    compactor: str  # the owner of the epoch, host:pid; "": there has been none
    at_work: bool  # that compactor works here, and has just shown life
    action: ActionName  # what a compactor would do next; `explain` has the reason
    paused: bool
    overdue: str | None  # what has waited for a compactor for more than an hour
    quarantine: str | None  # why compaction is stopped until a person has looked
    quarantined_at_ms: int | None
    retention_stalled: str | None  # why retention by time is
    log_start_offset: int
    next_offset: int
    l0_segments: int
    l0_segments_max: int  # at which appends stop
    runs: int
    segments: int  # live, in L0 and runs
    bytes: int
    rows: int
    logical_bytes: int  # of those, what readers see
    logical_rows: int
    clean_bytes: int
    dirty_bytes: int
    young_bytes: int  # neither clean nor old enough to be cleaned
    dirty_ratio: float
    oldest_dirty_ms: int | None  # timestamp of the oldest record not yet cleaned
    last_compacted_at_ms: int | None
    debts: tuple[OwedWork, ...]  # most urgent first
    jobs: tuple[JobNow, ...]
    failing: int  # sets of sources on which the latest attempts recorded nothing
    checkpoints: dict[str, int]  # by owner: user, scan, view
    uploads: int = 0  # that stand
    waiting: Waiting
    consumers: Consumers
    homes: tuple[HomeUse, ...] = ()  # the warehouse first

    @property
    def debt_bytes(self) -> int:
        """What its work has to read or drop. Debts may be of the same segments, so this is the largest of them."""
        return max((debt.bytes for debt in self.debts), default=0)


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Every partition of a warehouse, as the last survey found it."""

    at_ms: int  # when the survey began, by the store's clock
    age_ms: int  # of the survey, when this was answered
    took_ms: int
    clock_skew_ms: int  # how far this machine's clock is ahead of the store's
    partitions: tuple[PartitionSurvey, ...]  # by topic and number
    failed: tuple[Failed, ...]  # that could not be read
    homes: tuple[HomeState, ...] = ()  # besides the warehouse, in which a partition has something
    whole: bool = True  # False: the first survey is under way, and these are the partitions that it has read so far


def oldest_waiting(manifest: Manifest) -> int | None:
    """The manifest that replaced the oldest segment or run list which waits and which no checkpoint keeps; None: there
    is none."""
    pins = by_manifest(manifest.checkpoints)
    return min((it.retired_at for it in manifest.replaced if pinning(it, pins) is None), default=None)


def surveyed(reading: Reading, debt: Debt, waits_since_ms: int | None, appended_ms: int) -> PartitionSurvey:
    """`debt`: what `assess` returns for it. `waits_since_ms`: when `oldest_waiting` was committed. `appended_ms`: as in
    `due_since_ms`, of all that is due."""
    manifest, state, config, now_ms = reading
    floor = debt.log_start_offset
    segments = manifest.segments()
    logical_rows, logical_bytes = logical_size(manifest, floor)
    stopped = manifest.quarantine
    return PartitionSurvey(
        topic=manifest.topic,
        partition=manifest.partition,
        at_ms=now_ms,
        manifest_id=manifest.id,
        compactor_epoch=manifest.compactor_epoch,
        compactor=state.owner_name,
        at_work=incumbent_lives(state, now_ms),
        action=decide(reading, debt).name,
        paused=config.compaction_paused,
        overdue=overdue(reading, debt, appended_ms),
        quarantine=None if stopped is None else stopped.reason,
        quarantined_at_ms=None if stopped is None else stopped.since_ms,
        retention_stalled=stalled_by_future(manifest, floor, now_ms),
        log_start_offset=floor,
        next_offset=manifest.next_offset,
        l0_segments=len(manifest.l0),
        l0_segments_max=config.l0_segments_max,
        runs=len(manifest.runs),
        segments=len(segments),
        bytes=sum(ref.bytes for ref in segments),
        rows=sum(ref.rows for ref in segments),
        logical_bytes=logical_bytes,
        logical_rows=logical_rows,
        clean_bytes=debt.clean_bytes,
        dirty_bytes=debt.dirty_bytes,
        young_bytes=debt.young_bytes,
        dirty_ratio=debt.dirty_ratio,
        oldest_dirty_ms=debt.oldest_dirty_ms,
        last_compacted_at_ms=manifest.last_compacted_at_ms,
        debts=tuple(_owed(due, debt, manifest, now_ms, appended_ms) for due in debt.all_due),
        jobs=tuple(_job(manifest, job) for job in state.jobs),
        failing=len(state.failures),
        checkpoints=dict(Counter(checkpoint.owner for checkpoint in manifest.checkpoints)),
        uploads=len(manifest.uploads),
        waiting=Waiting(
            segments=len(manifest.retired),
            bytes=sum(retired.bytes for retired in manifest.retired),
            manifests=len(manifest.unpinned),
            since_ms=waits_since_ms,
        ),
        consumers=_consumers(manifest, floor),
        homes=uses(manifest),
    )


def _owed(due: Due, debt: Debt, manifest: Manifest, now_ms: int, appended_ms: int) -> OwedWork:
    taken = taken_by(due, debt)
    return OwedWork(
        debt=due.debt,
        work=due.kind,
        segments=len(taken),
        bytes=sum(ref.bytes for ref in taken),
        since_ms=min(now_ms, due_since_ms(manifest, taken, appended_ms)),
    )


def _job(manifest: Manifest, job: Job) -> JobNow:
    return JobNow(
        id=compaction_id(manifest.topic, manifest.partition, job.id),
        kind=job.kind,
        status=job.status,
        origin=job.origin,
        running=any(attempt.ended_at_ms is None for attempt in job.attempts),
        attempt=job.last_attempt,
        failed_attempts=job.failed_attempts,
        ranges=0 if job.plan is None else len(job.plan.ranges),
        recorded=len(job.done),
        input_bytes=0 if job.plan is None else job.plan.input_bytes,
        created_at_ms=job.created_at_ms,
        started_at_ms=job.started_at_ms,
    )


def _consumers(manifest: Manifest, floor: int) -> Consumers:
    infos = consumer_infos(manifest, floor)
    slowest = max(infos, key=lambda info: info.lag, default=None)
    lost = [expired_unread(consumer, manifest, floor) for consumer in manifest.consumers]
    return Consumers(
        count=len(infos),
        lag=0 if slowest is None else slowest.lag,
        slowest="" if slowest is None else slowest.name,
        overtaken=_some(lost),
        lost=max(lost, default=0),
        missed=sum(bool(consumer.missed_to and consumer.offset) for consumer in manifest.consumers),
    )


def _some(numbers: Iterable[int]) -> int:
    return sum(number > 0 for number in numbers)
