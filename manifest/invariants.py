"""What must hold between a file and its successor in a chain, checked before every commit (P2). Pure.

An edit that would break one of these is a bug of lithify: the commit is refused and nothing is written.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from lithify.manifest.homes import HERE, named_homes
from lithify.manifest.index_rules import index_moves, index_problems
from lithify.manifest.jobs import (
    FAILURES_MAX,
    HISTORY_MAX,
    IN_PROGRESS_MAX,
    REQUESTS_MAX,
    CompactorState,
    may_become,
)
from lithify.manifest.keys import is_topic_name
from lithify.manifest.list_rules import list_problems
from lithify.manifest.model import (
    COMPLETED_JOBS_MAX,
    CONSUMERS_MAX,
    HOMES_MAX,
    PARTITIONS_MAX,
    PASSED_OVER_MAX,
    PINS_MAX,
    PRODUCERS_MAX,
    RETIRED_MAX,
    TIME_INDEX_MAX,
    TRANSACTIONS_MAX,
    UNPINNED_MAX,
    UPLOADS_MAX,
    Boundary,
    Manifest,
    Numbered,
    SegmentRef,
    TopicFile,
    WarehouseFile,
)
from lithify.manifest.run_order import is_sorted
from lithify.manifest.runs import Runs
from lithify.store.errors import Corrupt

__all__ = [
    "check_boundary",
    "check_compactor",
    "check_manifest",
    "check_topic",
    "check_warehouse",
    "manifest_problems",
    "shape_problems",
]


def shape_problems(value: Numbered) -> Iterator[str]:
    """The invariants that `value` breaks by itself, whatever came before it. A manifest must be whole."""
    match value:
        case Manifest():
            yield from _manifest_counts(value)
            yield from _shape(value)
            yield from _run_problems(value)
            yield from index_problems(value)
            yield from list_problems(None, value)
        case CompactorState():
            yield from _compactor_shape(value)
        case Boundary():
            yield from _boundary_shape(value)
        case TopicFile():
            yield from _topic_shape(value)
        case _:
            return


def check_manifest(previous: Manifest | None, following: Manifest) -> None:
    """Raises Corrupt, naming every broken invariant."""
    _refuse(f"{following.topic}/{following.partition} manifest {following.id}", manifest_problems(previous, following))


def _refuse(what: str, problems: Iterator[str]) -> None:
    found = list(problems)
    if found:
        raise Corrupt(
            f"{what} was not written, because it would break an invariant: {'; '.join(found)}. Please report this"
        )


def _follows(previous: Numbered | None, following: Numbered) -> Iterator[str]:
    if following.id != (previous.id if previous else 0) + 1:
        yield "numbers are dense"
    if not following.nonce:
        yield "every file carries a nonce"


def _grows(previous: Numbered | None, following: Numbered, *fields: str) -> Iterator[str]:
    for field in fields:
        if previous is not None and getattr(following, field) < getattr(previous, field):
            yield f"{field} never falls"


def manifest_problems(previous: Manifest | None, following: Manifest) -> Iterator[str]:
    """The invariants that `following` breaks as the successor of `previous`, as statements of what should hold."""
    yield from _follows(previous, following)
    yield from _shape(following)
    yield from index_problems(following)
    yield from _homes(following)
    yield from list_problems(previous, following)
    # Runs that are the same object were checked when they came.
    if previous is None or following.runs is not previous.runs:
        yield from _run_problems(following)
    if previous is None:
        return
    same = ("topic", "topic_id", "partition")
    if any(getattr(previous, field) != getattr(following, field) for field in same):
        yield "a partition keeps its identity"
    floors = ("next_offset", "log_start_offset", "deleted_to", "cleaned_to", "orphan_floor")
    yield from _grows(previous, following, *floors, "compactor_epoch", "config_at")
    if previous.sealed:
        if not following.sealed:
            yield "sealed is final"
        if following.next_offset != previous.next_offset:
            yield "nothing is appended to a sealed partition"
    done = {each.name: each.appended for each in previous.uploads if each.appended is not None}
    if any(done.get(each.name, each.appended) != each.appended for each in following.uploads):
        yield "an upload is appended once"
    yield from _moves(previous, following)
    yield from index_moves(previous, following)


def _manifest_counts(manifest: Manifest) -> Iterator[str]:
    """Checked only when a file is read: no edit can break these, so a check at each commit would find nothing."""
    if any(n < 0 for s in manifest.segments() for n in (s.min_offset, s.bytes, s.raw_bytes, s.tombstones)):
        yield "offsets and sizes are not negative"
    if any(s.rows <= 0 for s in manifest.segments()):
        yield "no segment is empty"
    if any(s.min_key is not None and s.max_key is not None and s.min_key > s.max_key for s in manifest.segments()):
        yield "keys begin before they end"
    floors = (manifest.log_start_offset, manifest.cleaned_to, manifest.orphan_floor, manifest.compactor_epoch)
    if min(floors) < 0 or manifest.cleaned_to > manifest.next_offset or manifest.orphan_floor > manifest.id:
        yield "what only grows stays below what it follows"
    if any(not 0 < r.added_at < r.retired_at <= manifest.id for r in manifest.retired):
        yield "a retired segment was live before"


def _run_problems(manifest: Manifest) -> Iterator[str]:
    """What runs must satisfy. As long as they stay the same, they do, for what they are compared with only grows."""
    runs = Runs.of(manifest.runs)
    if len(runs.ids) != len(runs.segments):
        yield "a segment is in one run, once"
    yield from _segment_problems(manifest, runs.segments)
    for run in runs:
        if not is_sorted(run):
            yield "a run's segments are disjoint and in order"
        elif run.reaches_to > min(s.min_offset for s in run.segments):
            yield "a run reaches down to its records"


def _segment_problems(manifest: Manifest, segments: Iterable[SegmentRef]) -> Iterator[str]:
    if any(s.min_offset > s.max_offset or s.max_offset >= manifest.next_offset for s in segments):
        yield "live offsets lie below next_offset"
    if any(s.added_at > manifest.id or s.added_at <= 0 for s in segments):
        yield "added_at is a manifest number"


def _shape(manifest: Manifest) -> Iterator[str]:
    ids = [s.id for s in manifest.l0] + [r.id for r in manifest.retired]
    if len(set(ids)) != len(ids) or not Runs.of(manifest.runs).ids.isdisjoint(ids):
        yield "a segment is live or retired, once"
    yield from _segment_problems(manifest, manifest.l0)
    if any(a.max_offset >= b.min_offset for a, b in pairwise(manifest.l0)):
        yield "L0 segments are in offset order and disjoint"
    if any(s.base_offset != s.min_offset or s.max_offset - s.min_offset + 1 != s.rows for s in manifest.l0):
        yield "an L0 segment's offsets are dense from its base"
    for name, bound in (
        ("completed_jobs", COMPLETED_JOBS_MAX),
        ("producers", PRODUCERS_MAX),
        ("transactions", TRANSACTIONS_MAX),
        ("consumers", CONSUMERS_MAX),
        ("time_index", TIME_INDEX_MAX),
        ("unpinned", UNPINNED_MAX),
        ("uploads", UPLOADS_MAX),
        ("homes", HOMES_MAX),
    ):
        if len(getattr(manifest, name)) > bound:
            yield f"{name} is bounded by {bound}"
    if len(manifest.retired) > RETIRED_MAX and not manifest.sealed:
        yield f"retired is bounded by {RETIRED_MAX}"
    yield from _pins(manifest)
    yield from _uploads(manifest)
    yield from _consumers(manifest)
    yield from _transactions(manifest)


def _homes(manifest: Manifest) -> Iterator[str]:
    """Of what is committed: a file of long ago may name a home without noting it."""
    if len(set(manifest.homes)) != len(manifest.homes) or HERE in manifest.homes:
        yield "a home is noted once, and the warehouse is none"
    elsewhere = named_homes(manifest)
    if not elsewhere <= set(manifest.homes):
        yield "a segment is in a home that is noted"
    if manifest.format < manifest.format_needed:
        yield f"what names another home, or a run list, has format {manifest.format_needed}"


def _pins(manifest: Manifest) -> Iterator[str]:
    for owner, most in PINS_MAX.items():
        if sum(pin.owner == owner for pin in manifest.checkpoints) > most:
            yield f"checkpoints is bounded by {most} for {owner}s"
    if any(pin.manifest > manifest.id for pin in manifest.checkpoints):
        yield "a checkpoint pins a manifest that exists"
    pinned = {pin.manifest for pin in manifest.checkpoints}
    if any(number in pinned or not 0 < number < manifest.orphan_floor for number in manifest.unpinned):
        yield "manifests that are no longer pinned are below the orphan floor"


def _transactions(manifest: Manifest) -> Iterator[str]:
    applications = [entry.application for entry in manifest.transactions]
    if len(set(applications)) != len(applications):
        yield "an application has one transaction"
    if any(not 0 <= entry.touched_at <= manifest.id for entry in manifest.transactions):
        yield "a transaction's commit is a manifest number"
    for entry in manifest.transactions:
        ends = [0, *(end for each in entry.passed_over for end in (each.first, each.last + 1)), entry.version + 1]
        if entry.passed_over and any(a >= b for a, b in pairwise(ends)):
            yield "the versions that a transaction skipped are separate stretches below its version"
        if len(entry.passed_over) > PASSED_OVER_MAX:
            yield f"a transaction has skipped at most {PASSED_OVER_MAX} stretches"


def _uploads(manifest: Manifest) -> Iterator[str]:
    if len({each.id for each in manifest.uploads}) < len(manifest.uploads):
        yield "an upload is begun once"
    if any(not 0 < each.begun_at <= manifest.id for each in manifest.uploads):
        yield "an upload begins with a manifest that exists"


def _consumers(manifest: Manifest) -> Iterator[str]:
    names = [consumer.name for consumer in manifest.consumers]
    if len(set(names)) != len(names):
        yield "a consumer has one position"
    if any(not 0 <= consumer.offset <= manifest.next_offset for consumer in manifest.consumers):
        yield "a consumer's position lies in the log, or at its end"
    if any(not 0 < consumer.committed_at <= manifest.id for consumer in manifest.consumers):
        yield "a consumer's commit is a manifest number"


def _moves(previous: Manifest, following: Manifest) -> Iterator[str]:
    # Of runs that are the same object nothing comes or goes.
    was, now = (m.l0 if following.runs is previous.runs else m.segments() for m in (previous, following))
    was_live = {s.id: s for s in was}
    is_live = {s.id for s in now}
    was_retired = {r.id: r for r in previous.retired}
    is_retired = {r.id: r for r in following.retired}
    for segment_id in was_live.keys() - is_live:
        if segment_id not in is_retired:
            yield "a segment leaves the live set for the retired list only"
            break
    for segment_id, retired in is_retired.items():
        if segment_id not in was_retired and (
            retired.retired_at != following.id
            or segment_id not in was_live
            or retired.added_at != was_live[segment_id].added_at
        ):
            yield "what is newly retired was live, and says when"
            break
    for segment_id in was_retired.keys() - is_retired.keys():
        if was_retired[segment_id].retired_at > following.orphan_floor:
            yield "the orphan floor covers what was collected"
            break
    if is_live & was_retired.keys():
        yield "a retired segment does not return"
    if any(s.added_at != following.id for s in now if s.id not in was_live):
        yield "a new segment says when it was added"
    appended = sum(s.rows for s in following.l0 if s.id not in was_live)
    if following.next_offset - previous.next_offset != appended:
        yield "next_offset grows by what is appended"


def _boundary_shape(boundary: Boundary) -> Iterator[str]:
    if boundary.manifest >= max(boundary.manifest_head, 1):
        yield "the boundary stays below the manifest's head"
    if boundary.compactor >= max(boundary.compactor_head, 1):
        yield "the boundary stays below the compactor's head"
    if min(boundary.manifest, boundary.compactor) < 0:
        yield "a boundary is a number of a file, or 0"


def check_boundary(previous: Boundary | None, following: Boundary) -> None:
    def problems() -> Iterator[str]:
        yield from _follows(previous, following)
        yield from _grows(previous, following, "manifest", "compactor", "manifest_head", "compactor_head")
        yield from _boundary_shape(following)

    _refuse(f"{following.topic}/{following.partition} boundary {following.id}", problems())


def _compactor_shape(state: CompactorState) -> Iterator[str]:
    requests = [job for job in state.jobs if job.status == "submitted"]
    begun = [job for job in state.jobs if job.status == "in_progress"]
    for name, entries, bound in (
        ("requests", requests, REQUESTS_MAX),
        ("jobs in progress", begun, IN_PROGRESS_MAX),
        ("history", state.history, HISTORY_MAX),
        ("failures", state.failures, FAILURES_MAX),
    ):
        if len(entries) > bound:
            yield f"{name}: at most {bound}"
    if not all(job.active for job in state.jobs) or any(job.active for job in state.history):
        yield "active jobs and history are apart"
    held = [s for job in begun for s in job.segments]
    if len(set(held)) != len(held):
        yield "a segment is in one active job"


def _lives(previous: CompactorState | None, following: CompactorState) -> Iterator[str]:
    """Each job changes its status only as the table allows, and keeps the plan that it was admitted with (P9)."""
    before = {} if previous is None else {job.id: job for job in previous.jobs + previous.history}
    for job in following.jobs + following.history:
        was = before.get(job.id)
        if not may_become(None if was is None else was.status, job.status):
            yield f"job {job.id} is not {job.status} after being {'nothing' if was is None else was.status}"
        if was is not None and was.plan is not None and job.active and job.plan != was.plan:
            yield f"the plan of job {job.id} never changes"


def check_compactor(previous: CompactorState | None, following: CompactorState) -> None:
    def problems() -> Iterator[str]:
        yield from _follows(previous, following)
        yield from _grows(previous, following, "epoch")
        yield from _compactor_shape(following)
        if following.format < following.format_needed:
            yield f"a state with a relocation has format {following.format_needed}"
        known = set[str]() if previous is None else {job.id for job in previous.history}
        if any(job.plan or job.done or job.segments for job in following.history if job.id not in known):
            yield "a job enters the history without its plan and outputs"
        yield from _lives(previous, following)
        if previous is not None:
            kept = {job.id for job in following.jobs + following.history}
            if any(job.id not in kept for job in previous.jobs):
                yield "a job leaves only through the history"

    _refuse(f"{following.topic}/{following.partition} compactor state {following.id}", problems())


def _topic_shape(topic: TopicFile) -> Iterator[str]:
    if not 1 <= topic.partitions <= PARTITIONS_MAX:
        yield f"a topic has 1 to {PARTITIONS_MAX} partitions"
    if not is_topic_name(topic.topic) or not topic.topic_id.isalnum():
        yield "a topic's name and id are parts of a path"


def check_topic(previous: TopicFile | None, following: TopicFile) -> None:
    def problems() -> Iterator[str]:
        yield from _follows(previous, following)
        if previous is not None and previous.topic_id == following.topic_id:
            yield from _grows(previous, following, "partitions", "deleted")

    _refuse(f"topic {following.topic} version {following.id}", problems())


def check_warehouse(previous: WarehouseFile | None, following: WarehouseFile) -> None:
    _refuse(f"warehouse settings version {following.id}", _follows(previous, following))
