"""What a `.compactor` file holds: the compactor's jobs, their frozen plans, attempts and progress (P8-P15). Pure.

It is here, beside the manifest's model, because both the compactor and garbage collection read it.
"""

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from lithify.manifest.bounds import Bounds
from lithify.manifest.categories import Category
from lithify.manifest.model import FORMAT, FORMAT_HOMES, KIND, Collected, SegmentRef
from lithify.manifest.move_price import MovePrice
from lithify.store.port import HERE

__all__ = [
    "ATTEMPTS_KEPT",
    "ENDED_ATTEMPTS_KEPT",
    "ENDED_SOURCES_KEPT",
    "FAILURES_MAX",
    "HISTORY_MAX",
    "IN_PROGRESS_MAX",
    "LIVES",
    "REQUESTS_MAX",
    "Attempt",
    "CompactorState",
    "Ended",
    "Estimate",
    "FailureCount",
    "Job",
    "JobError",
    "KeyRange",
    "Kind",
    "MergeCounts",
    "MergeRules",
    "Origin",
    "Plan",
    "RangeDone",
    "Status",
    "discarded",
    "last_number",
    "may_become",
    "recorded",
    "summed_up",
]

REQUESTS_MAX = 64  # submitted jobs
IN_PROGRESS_MAX = 8  # besides requests, so that there is always room for the work that a compactor does before them
HISTORY_MAX = 64  # finished jobs kept for status; they also protect the names of their outputs (P10)
FAILURES_MAX = 256
ATTEMPTS_KEPT = 16
ENDED_ATTEMPTS_KEPT = 4  # of a finished job: the last ones; the number of the last tells how many there were
ENDED_SOURCES_KEPT = 16  # of a finished job: the first ones, besides their number

_CATEGORIES = frozenset(Category)

Kind = Literal["tier", "clean", "relocate"]
Ended = Literal["completed", "failed", "cancelled"]
Status = Literal["submitted", "in_progress", "completed", "failed", "cancelled"]
Origin = Literal["scheduler", "manual"]

_ENDS: frozenset[Status] = frozenset(get_args(Ended))

# A job's life: which edit of compactor/job_edits.py leads from which status to which. None: there is no such job yet.
# No other edit changes a status, and what has ended stays as it is. Tests: tests/compactor/test_lives_of_jobs.py
LIVES: dict[str, dict[Status | None, frozenset[Status]]] = {
    "Submit": {None: frozenset(("submitted",))},
    "Admit": {None: frozenset(("in_progress",)), "submitted": frozenset(("in_progress",))},
    "ClaimAndAdmit": {None: frozenset(("in_progress",))},
    "Finish": {"submitted": _ENDS, "in_progress": _ENDS},  # a request is completed at once if nothing is left to do
}


def may_become(was: Status | None, status: Status) -> bool:
    """Whether one write may find a job in status `was` (None: there was no such job) and leave it in `status`. Every
    write is checked (manifest/invariants.py)."""
    return status == was or any(status in edit.get(was, ()) for edit in LIVES.values())


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge keeps. Frozen at admission, and the same for every attempt (P9)."""

    order: Literal["key", "offset"] = "key"  # of the outputs
    drop_superseded: bool = False  # drop a record if the merge has a higher offset of its key
    drop_keyless: bool = False  # drop (and count) records with a null key: the topic is now compacted
    floor: int = 0  # records with a smaller offset are dropped
    clock_ms: int = 0  # the job's "now": a tombstone whose stamped horizon is ≤ it is dropped
    coverage_offset: int = 0  # T: the merge holds every record below it
    stamp_horizon_ms: int | None = None  # a clean sets this on unstamped tombstones below T; None: none are stamped
    buckets: tuple[int, ...] = ()  # starts of the time index's buckets at admission: drops are counted by these

    @property
    def cleans(self) -> bool:
        """Whether this merge cleans everything below T. A merge that keeps superseded records is not a clean, whatever
        it is called: it does not raise `cleaned_to`, and stamps nothing (R4)."""
        return self.drop_superseded and self.stamp_horizon_ms is not None


class KeyRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task of a job covers, as `.compactor` stores it: keys; in offset-ordered topics offsets, which no source
    segment straddles."""

    low: bytes | None = None
    high: bytes | None = None
    low_offset: int | None = None
    high_offset: int | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.low, self.high, self.low_offset, self.high_offset)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Frozen at admission; a resumed attempt recomputes none of it (P9)."""

    ranges: tuple[KeyRange, ...]
    rules: MergeRules
    output_bytes: int  # where outputs are cut (R5)
    input_bytes: int
    input_rows: int
    input_segments: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction was expected to take, kept with the job for comparison with what it took."""

    input_segments: int
    input_rows: int
    input_bytes: int
    output_rows: int
    output_bytes: int
    ranges: int
    peak_memory_bytes: int  # of one worker
    gets: int  # GET and HEAD requests of the workers, as `MergeCounts` counts them afterwards
    puts: int  # PUT and POST requests of the workers
    own_gets: int = 0  # of the compactor: its numbered files, and a check of each output
    own_puts: int = 0
    basis: str  # what the estimates of rows and bytes out are based on


class MergeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Why records were dropped, and what the work took; summed over tasks."""

    rows_in: int = 0
    rows_out: int = 0
    superseded: int = 0
    expired_tombstones: int = 0
    below_floor: int = 0
    keyless: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    cpu_ms: int = 0
    gets: int = 0  # GET and HEAD requests of the workers
    puts: int = 0  # PUT and POST requests of the workers

    def __add__(self, other: "MergeCounts") -> "MergeCounts":
        return MergeCounts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class RangeDone(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A finished task: range `index` of the plan, and its outputs in order (none if no record survived)."""

    index: int
    attempt: int
    outputs: tuple[SegmentRef, ...]
    counts: MergeCounts
    # By the buckets of the rules. In a job, the first range that was counted by size carries the sums of all such
    # ranges:
    lost: tuple[int, ...] = ()  # rows dropped of each; () for none
    # Raw bytes of the records kept of each; () if an earlier release did not count.
    kept_bytes: tuple[int, ...] = ()
    lost_bytes: tuple[int, ...] = ()  # and of those dropped
    dropped_to: int = 0  # 1 + the highest offset of an expired tombstone that was dropped
    peak_memory_bytes: int = 0  # of the worker's process


class JobError(msgspec.Struct, frozen=True):
    category: str  # a Category, or one of a later release
    reason: str

    @property
    def blames_job(self) -> bool:
        """As its Category says; an unknown category counts against the job."""
        return self.category not in _CATEGORIES or Category(self.category).blames_job

    @property
    def damage(self) -> bool:
        """As its Category says."""
        return self.category in _CATEGORIES and Category(self.category).damage


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of work, resumes included. Its number is in the names of its outputs (P10)."""

    number: int
    epoch: int
    worker: str  # host:pid of the coordinator
    started_at_ms: int
    ended_at_ms: int | None = None
    ranges_done: int = 0
    error: JobError | None = None


def last_number(attempts: Sequence[Attempt]) -> int:
    """The number of the latest attempt; 0: none has begun. They count from 1, and at a bound the oldest are dropped."""
    return attempts[-1].number if attempts else 0


class Job(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A compaction from request to its place in the history."""

    id: str
    kind: Kind | None = None  # decided at admission
    status: Status
    origin: Origin
    requested: tuple[str, ...] = ()  # of a manual request: L0 and run ids, as merges left them; empty: everything
    sources: tuple[str, ...] = ()  # L0 and run ids, in the manifest's order
    segments: tuple[str, ...] = ()  # exactly the segments that it holds (P8)
    destination: str = ""  # id of the run it will make; "": a relocation makes none
    home: str = HERE  # of a relocation: where the segments go, each a range of the plan
    plan: Plan | None = None
    attempts: tuple[Attempt, ...] = ()
    done: tuple[RangeDone, ...] = ()
    failed_attempts: int = 0  # all of them, except those that found engine or store away
    counted: tuple[int, ...] = ()  # ranges that must be done again although the sums already count them
    cancel_requested: bool = False
    reason: str = ""  # why it was chosen, or how it ended
    chosen: str = ""  # why it was chosen, where `reason` says how it ended
    ended_by: str = ""  # an EndedBy, or one of a later release; "": it was not ended from outside
    error: JobError | None = None
    created_at_ms: int
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    paced_to_ms: int | None = None  # when its throttle lets the next job start; None: it had none
    counts: MergeCounts = MergeCounts()
    estimate: Estimate | None = None
    price: MovePrice | None = None  # of a relocation: when it was requested, then when it was admitted
    peak_memory_bytes: int = 0  # of a finished job: of its worker that took most
    # What is left of the plan and the outputs of a finished job (`summed_up`):
    output_segments: int = 0
    output_bytes: int = 0
    input_sources: int = 0
    input_segments: int = 0
    input_bytes: int = 0
    ranges: int = 0
    ranges_done: int = 0

    @property
    def last_attempt(self) -> int:
        """The number of the latest attempt; 0: none has begun."""
        return last_number(self.attempts)

    @property
    def relocates(self) -> bool:
        """Whether it moves segments as they are, instead of merging them (docs/rfcs/0031)."""
        return self.kind == "relocate"

    @property
    def active(self) -> bool:
        return self.status in ("submitted", "in_progress")

    def outputs(self) -> tuple[SegmentRef, ...]:
        """Recorded outputs, in the order of the plan's ranges."""
        return tuple(ref for done in sorted(self.done, key=lambda done: done.index) for ref in done.outputs)

    def lost(self) -> tuple[tuple[int, int], ...]:
        """(offset, rows): what the recorded ranges dropped, by the time index's buckets at admission."""
        return tuple((start, rows) for start, rows in zip(self._starts(), _sums(self.done).lost, strict=False) if rows)

    def sizes(self) -> tuple[tuple[int, int, int], ...] | None:
        """(offset, kept, lost): raw bytes that the recorded ranges kept and dropped, by the same buckets. None: an
        earlier release did some of them, and did not count."""
        if any(done.counts.rows_in and not done.kept_bytes for done in self.done):
            return None
        sums = _sums(self.done)
        sizes = itertools.zip_longest(sums.kept_bytes, sums.lost_bytes, fillvalue=0)
        return tuple((start, *each) for start, each in zip(self._starts(), sizes, strict=False) if any(each))

    def _starts(self) -> tuple[int, ...]:
        return self.plan.rules.buckets if self.plan else ()


class _Sums(NamedTuple):
    """As in RangeDone, but `kept_bytes` is never (), which means "not counted"."""

    lost: tuple[int, ...] = ()
    kept_bytes: tuple[int, ...] = (0,)
    lost_bytes: tuple[int, ...] = ()


def _sums(done: Iterable[RangeDone]) -> _Sums:
    ranges = [(d.lost, d.kept_bytes, d.lost_bytes) for d in done]
    return _Sums(*(tuple(map(sum, itertools.zip_longest(*each, fillvalue=0))) for each in zip(*ranges, strict=True)))


def recorded(job: Job, fresh: Iterable[RangeDone]) -> Job:
    """`job` with these ranges done as well."""
    done = (*job.done, *(_telling(d, _Sums()) if d.index in job.counted else d for d in fresh))
    again = frozenset(job.counted) - {d.index for d in done}
    return replace(job, done=_carried(done, _sums(filter(_by_size, done))), counted=tuple(sorted(again)))


def discarded(job: Job, keep: Container[int]) -> Job:
    """`job` with only these of its ranges done.

    The sums cannot be split per range, so the discarded ranges stay counted; when they are done again they add nothing.
    The result is the same, since the plan is frozen (P9).
    """
    left = tuple(d for d in job.done if d.index in keep)
    if not any(map(_by_size, left)):  # no range carries the sums
        return replace(job, done=left, counted=())
    gone = {d.index for d in job.done if d.index not in keep and _by_size(d)}
    again = gone.union(job.counted)
    return replace(job, done=_carried(left, _sums(filter(_by_size, job.done))), counted=tuple(sorted(again)))


def _carried(done: Sequence[RangeDone], sums: _Sums) -> tuple[RangeDone, ...]:
    """`done`, with `sums` in the first range that was counted by size, and none in the others. Every write of a
    `.compactor` file contains all ranges, and counts of 128 buckets each would be most of it."""
    first = next(filter(_by_size, done), None)
    return tuple(_telling(d, sums if d is first else _Sums()) if _by_size(d) else d for d in done)


def _by_size(done: RangeDone) -> bool:
    return done.kept_bytes != ()


def _telling(done: RangeDone, sums: _Sums) -> RangeDone:
    return replace(done, **sums._asdict())


def summed_up(job: Job) -> Job:
    """A job that has ended, as the history keeps it: its name, its outcome and counts. Every commit writes the history
    again, so it has no plan, no list of segments and no outputs; the job's name protects those (P10).

    Calling it again changes nothing. A job that an earlier release put whole into the history is reduced the same way.
    """
    named = job.sources or job.requested
    if job.plan is not None:
        ranges = len(job.plan.ranges)
        job = replace(
            job,
            plan=None,
            done=(),
            counted=(),
            segments=(),
            input_segments=job.plan.input_segments,
            input_bytes=job.plan.input_bytes,
            ranges=ranges,
            ranges_done=ranges if job.status == "completed" else len(job.done),
        )
    return replace(
        job,
        attempts=job.attempts[-ENDED_ATTEMPTS_KEPT:],
        input_sources=job.input_sources or len(named),
        requested=job.requested[:ENDED_SOURCES_KEPT],
        sources=job.sources[:ENDED_SOURCES_KEPT],
    )


class FailureCount(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Consecutive attempts on one set of source segments that recorded no new output (P14)."""

    sources: str  # XXH3-64 of the sorted segment ids
    count: int  # except those that ended with the engine or the store
    lost: int = 0  # those during which the engine died: the job may be what kills it
    away: int = 0  # jobs on them that ended because a home was away, or refused
    error: JobError
    retry_at_ms: int


class CompactorState(Collected, frozen=True, omit_defaults=True, kw_only=True, tag_field=KIND, tag="compactor"):
    """The compactor's own file at version `id`."""

    topic: str
    topic_id: str
    partition: int
    epoch: int = 0
    owner: str = ""  # nonce of the claim that owns this epoch; "": an admin wrote this before any claim
    owner_name: str = ""  # host:pid, for people
    planning: bool = False  # the owner claimed, or plans a job, and has not begun or ended one since
    heartbeat_at_ms: int = 0  # the owner's latest sign of life while at work (P5)
    jobs: tuple[Job, ...] = ()  # active: submitted or in progress
    history: tuple[Job, ...] = ()  # finished, oldest first
    failures: tuple[FailureCount, ...] = ()

    @property
    def format_needed(self) -> int:
        """The format of the file that says this: an earlier lithify does not know relocations."""
        relocates = any(job.relocates for job in (*self.jobs, *self.history))
        return FORMAT_HOMES if relocates else FORMAT

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs + self.history if job.id == job_id), None)
