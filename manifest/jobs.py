"""What a `.compactor` file holds: the compactor's jobs, their frozen plans, attempts and progress (P8-P15). Pure.

It lies beside the manifest's model because both the compactor and garbage collection read it.
"""

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from lithify.manifest.categories import Category
from lithify.manifest.model import KIND, Numbered, SegmentRef

__all__ = [
    "ATTEMPTS_KEPT",
    "BORN",
    "ENDED_ATTEMPTS_KEPT",
    "ENDED_SOURCES_KEPT",
    "FAILURES_MAX",
    "HISTORY_MAX",
    "IN_PROGRESS_MAX",
    "MAY_BECOME",
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
    "recorded",
    "summed_up",
]

REQUESTS_MAX = 64  # submitted jobs
IN_PROGRESS_MAX = 8  # more jobs: however many requests wait, there is room for what a compactor does before them
HISTORY_MAX = 64  # finished jobs kept for status; also what protects their output names (P10)
FAILURES_MAX = 256
ATTEMPTS_KEPT = 16
ENDED_ATTEMPTS_KEPT = 4  # of a job in the history: the last ones; the number of the last says how many there were
ENDED_SOURCES_KEPT = 16  # of a job in the history: the first ones, and how many there were

_CATEGORIES = frozenset(Category)

Kind = Literal["tier", "clean"]
Ended = Literal["completed", "failed", "cancelled"]
Status = Literal["submitted", "in_progress", "completed", "failed", "cancelled"]
Origin = Literal["scheduler", "manual"]


# A job's life, whoever writes it: what it may be when it is first seen, and what may become of it. Of the edits
# (compactor/job_edits.py) Submit and Admit begin it, Admit lets a request in, Finish ends it. Each write is checked.
BORN: frozenset[Status] = frozenset(("submitted", "in_progress"))
MAY_BECOME: dict[Status, frozenset[Status]] = {
    "submitted": frozenset(("in_progress", "completed", "failed", "cancelled")),  # completed: nothing was left to do
    "in_progress": frozenset(("completed", "failed", "cancelled")),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge keeps. Frozen at admission and the same for every attempt (P9)."""

    order: Literal["key", "offset"] = "key"  # of the outputs
    drop_superseded: bool = False  # drop a record when a higher offset of its key is in the merge
    drop_keyless: bool = False  # drop (and count) records with a null key: the topic is compacted now
    floor: int = 0  # records with a smaller offset are dropped
    clock_ms: int = 0  # the job's "now": a tombstone whose stamped horizon is ≤ it is dropped
    coverage_offset: int = 0  # T: the merge holds every record below it
    stamp_horizon_ms: int | None = None  # a clean stamps this on unstamped tombstones below T; None stamps nothing
    buckets: tuple[int, ...] = ()  # starts of the time index's buckets at admission: what is dropped is told by these

    @property
    def cleans(self) -> bool:
        """Whether what lies below T is merged with everything else when it is done. A merge that keeps what is
        superseded is no clean, whatever it is called: it raises no `cleaned_to`, and stamps nothing (R4)."""
        return self.drop_superseded and self.stamp_horizon_ms is not None


class KeyRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task of a job covers: keys; in offset-ordered topics offsets, which no source segment straddles."""

    low: bytes | None = None  # inclusive; None: from the smallest key, null keys included
    high: bytes | None = None  # exclusive; None: to the largest key
    low_offset: int | None = None  # inclusive
    high_offset: int | None = None  # exclusive


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Frozen at admission; a resume recomputes none of it (P9)."""

    ranges: tuple[KeyRange, ...]
    rules: MergeRules
    output_bytes: int  # where outputs are cut (R5)
    input_bytes: int
    input_rows: int
    input_segments: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction was foretold to take; kept with the job, beside what it took."""

    input_segments: int
    input_rows: int
    input_bytes: int
    output_rows: int
    output_bytes: int
    ranges: int
    peak_memory_bytes: int  # of one worker
    gets: int  # GET and HEAD requests of the workers, as `MergeCounts` counts them afterwards
    puts: int  # PUT and POST requests of the workers
    own_gets: int = 0  # of the compactor: its numbered files, and a look at each output
    own_puts: int = 0
    basis: str  # what rows and bytes out go by


class MergeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Why records went, and what it took; summed over tasks."""

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
    """A finished task: range `index` of the plan, its outputs in order (none, if no record survived)."""

    index: int
    attempt: int
    outputs: tuple[SegmentRef, ...]
    counts: MergeCounts
    # By the rules' buckets. In a job, its first range that was counted by size carries the sums of all that were:
    lost: tuple[int, ...] = ()  # rows dropped from each; () for none
    kept_bytes: tuple[int, ...] = ()  # raw bytes of the records kept of each; () where an earlier release did not count
    lost_bytes: tuple[int, ...] = ()  # and of those dropped
    dropped_to: int = 0  # 1 + the highest offset of an expired tombstone that was dropped
    peak_memory_bytes: int = 0  # of the worker's process


class JobError(msgspec.Struct, frozen=True):
    category: str  # a Category, or one of a later release
    reason: str

    @property
    def blames_job(self) -> bool:
        """As of its Category; one that is not known does."""
        return self.category not in _CATEGORIES or Category(self.category).blames_job

    @property
    def damage(self) -> bool:
        """As of its Category."""
        return self.category in _CATEGORIES and Category(self.category).damage


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of work, resume included. Its number is in the names of its outputs (P10)."""

    number: int
    epoch: int
    worker: str  # host:pid of the coordinator
    started_at_ms: int
    ended_at_ms: int | None = None
    ranges_done: int = 0
    error: JobError | None = None


class Job(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A compaction from request to its place in the history."""

    id: str
    kind: Kind | None = None  # decided at admission
    status: Status
    origin: Origin
    requested: tuple[str, ...] = ()  # of a manual request: L0 and run ids, as merges left them; empty: everything
    sources: tuple[str, ...] = ()  # L0 and run ids, in the manifest's order
    segments: tuple[str, ...] = ()  # exactly those that it holds (P8)
    destination: str = ""  # id of the run it will make
    plan: Plan | None = None
    attempts: tuple[Attempt, ...] = ()
    done: tuple[RangeDone, ...] = ()
    failed_attempts: int = 0  # all that there were, but for those that found engine or store away
    counted: tuple[int, ...] = ()  # ranges that are to be done again, and are in the sums of those done
    cancel_requested: bool = False
    reason: str = ""  # why it was chosen, or what became of it
    error: JobError | None = None
    created_at_ms: int
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    paced_to_ms: int | None = None  # its bytes have their time by then, at the rate it ended under; None: it had none
    counts: MergeCounts = MergeCounts()
    estimate: Estimate | None = None
    peak_memory_bytes: int = 0  # of a finished job: the largest of its workers
    # What stays of the plan and the outputs of a finished job (`summed_up`):
    output_segments: int = 0
    output_bytes: int = 0
    input_sources: int = 0
    input_segments: int = 0
    input_bytes: int = 0
    ranges: int = 0
    ranges_done: int = 0

    @property
    def active(self) -> bool:
        return self.status in ("submitted", "in_progress")

    def outputs(self) -> tuple[SegmentRef, ...]:
        """Recorded outputs in the order of the plan's ranges."""
        return tuple(ref for done in sorted(self.done, key=lambda done: done.index) for ref in done.outputs)

    def lost(self) -> tuple[tuple[int, int], ...]:
        """(offset, rows): what the recorded ranges dropped, by the buckets of the time index at admission."""
        return tuple((start, rows) for start, rows in zip(self._starts(), _sums(self.done).lost, strict=False) if rows)

    def sizes(self) -> tuple[tuple[int, int, int], ...] | None:
        """(offset, kept, lost): raw bytes of what the recorded ranges kept and dropped, by the same buckets. None: an
        earlier release did some of them, and did not count."""
        if any(done.counts.rows_in and not done.kept_bytes for done in self.done):
            return None
        sums = _sums(self.done)
        sizes = itertools.zip_longest(sums.kept_bytes, sums.lost_bytes, fillvalue=0)
        return tuple((start, *each) for start, each in zip(self._starts(), sizes, strict=False) if any(each))

    def _starts(self) -> tuple[int, ...]:
        return self.plan.rules.buckets if self.plan else ()


class _Sums(NamedTuple):
    """As in RangeDone; `kept_bytes` is never (), which says that nobody counted."""

    lost: tuple[int, ...] = ()
    kept_bytes: tuple[int, ...] = (0,)
    lost_bytes: tuple[int, ...] = ()


def _sums(done: Iterable[RangeDone]) -> _Sums:
    ranges = [(d.lost, d.kept_bytes, d.lost_bytes) for d in done]
    return _Sums(*(tuple(map(sum, itertools.zip_longest(*each, fillvalue=0))) for each in zip(*ranges, strict=True)))


def recorded(job: Job, fresh: Iterable[RangeDone]) -> Job:
    """`job` with these ranges done, too."""
    done = (*job.done, *(_telling(d, _Sums()) if d.index in job.counted else d for d in fresh))
    again = frozenset(job.counted) - {d.index for d in done}
    return replace(job, done=_carried(done, _sums(filter(_by_size, done))), counted=tuple(sorted(again)))


def discarded(job: Job, keep: Container[int]) -> Job:
    """`job` with only these of its ranges done. What the others dropped stays in the sums, from which nothing can be
    taken; so doing them again counts nothing. It would be the same: a plan is frozen (P9)."""
    left = tuple(d for d in job.done if d.index in keep)
    if not any(map(_by_size, left)):  # nobody carries the sums
        return replace(job, done=left, counted=())
    gone = {d.index for d in job.done if d.index not in keep and _by_size(d)}
    again = gone.union(job.counted)
    return replace(job, done=_carried(left, _sums(filter(_by_size, job.done))), counted=tuple(sorted(again)))


def _carried(done: Sequence[RangeDone], sums: _Sums) -> tuple[RangeDone, ...]:
    """`done`, with `sums` in the first range that was counted by size, and nothing in the others. Every write of a
    `.compactor` file holds all ranges, and counts of 128 buckets would be most of it."""
    first = next(filter(_by_size, done), None)
    return tuple(_telling(d, sums if d is first else _Sums()) if _by_size(d) else d for d in done)


def _by_size(done: RangeDone) -> bool:
    return done.kept_bytes != ()


def _telling(done: RangeDone, sums: _Sums) -> RangeDone:
    return replace(done, **sums._asdict())


def summed_up(job: Job) -> Job:
    """A job that has ended, as the history keeps it: its name, what became of it, and counts. Every commit writes the
    history again, so no plan is kept, no list of segments and no output: what protects these is the job's name (P10).

    Calling it again changes nothing; a job that an earlier release put whole into the history is lessened alike.
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
    count: int  # but for those that ended with the engine, or with the store
    lost: int = 0  # those under which the engine died: perhaps the job is what kills it
    error: JobError
    retry_at_ms: int


class CompactorState(Numbered, frozen=True, omit_defaults=True, kw_only=True, tag_field=KIND, tag="compactor"):
    """The compactor's own file at version `id`."""

    topic: str
    topic_id: str
    partition: int
    epoch: int = 0
    owner: str = ""  # nonce of the claim that owns this epoch; "": written by an admin before any claim
    owner_name: str = ""  # host:pid, for people
    planning: bool = False  # the owner claimed, or plans a job, and has not yet begun or ended one
    heartbeat_at_ms: int = 0  # the owner's latest sign of life while it is at work (P5)
    jobs: tuple[Job, ...] = ()  # active: submitted or in progress
    history: tuple[Job, ...] = ()  # finished, oldest first
    failures: tuple[FailureCount, ...] = ()

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs + self.history if job.id == job_id), None)
