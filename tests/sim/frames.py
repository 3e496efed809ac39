"""What a commit may change: of each kind the fields of a manifest, and of its lists the entries; of a `.compactor` file
one job. All else stays as it was, whatever the edit was about."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from lithify.compactor import job_edits
from lithify.manifest.jobs import FAILURES_MAX, Attempt, CompactorState
from lithify.manifest.model import Manifest, ProducerBatch

__all__ = ["Step", "counted_as", "kind_of_commit", "unwarranted", "unwarranted_of_compactor"]

EVERY_COMMIT = frozenset(("id", "nonce", "committed_at_ms", "boundary_seen"))
FLOOR = frozenset(("log_start_offset", "time_index"))
LISTS = frozenset(("lists", "retired_lists", "format"))  # how runs are stored: tests/sim/lists.py
MAY_CHANGE = {
    "seal": frozenset(("sealed", "l0", "runs", "retired", "checkpoints", "unpinned", "time_index", "uploads")) | LISTS,
    "append": frozenset(("l0", "next_offset", "producers", "transactions", "uploads")) | FLOOR,
    "bounds": frozenset(("retention", "config_at")) | FLOOR,
    "claim": frozenset(("compactor_epoch",)),
    "compaction": frozenset(("l0", "runs", "retired", "completed_jobs", "consumers"))
    | frozenset(("cleaned_to", "last_compacted_at_ms", "last_cleaned_at_ms"))
    | FLOOR
    | LISTS,
    "relocation": frozenset(("runs", "retired", "completed_jobs")) | LISTS,
    "homes": frozenset(("homes", "format")),
    "drop": frozenset(("l0", "runs", "retired", "quarantine")) | FLOOR | LISTS,
    "collect": frozenset(("retired", "retired_lists", "format", "checkpoints", "unpinned", "orphan_floor", "uploads")),
    "checkpoint": frozenset(("checkpoints", "unpinned")) | FLOOR,
    "quarantine": frozenset(("quarantine",)),
    "floor": frozenset(("deleted_to",)) | FLOOR,
    "position": frozenset(("consumers",)),
    "producer": frozenset(("producers",)),
    "transaction": frozenset(("transactions",)),
    "upload": frozenset(("uploads",)),
    "nothing": frozenset[str](),
}
BY_CLAIM = frozenset(("attempts", "failed_attempts"))
BY_PROGRESS = frozenset(("attempts", "counted", "done", "failed_attempts"))
BY_ADMISSION = frozenset(
    (
        *("kind", "status", "sources", "segments", "destination", "plan", "reason", "started_at_ms", "estimate"),
        *("price", "attempts"),
    )
)


class Changes(NamedTuple):
    """Of a list whose entries have names."""

    added: list[Any]
    removed: list[Any]
    changed: list[tuple[Any, Any]]  # before, after

    @property
    def all(self) -> int:
        return len(self.added) + len(self.removed) + len(self.changed)


NO_CHANGES = Changes([], [], [])


def changes(before: Sequence[Any], after: Sequence[Any], name: str = "id") -> Changes:
    was, now = ({getattr(entry, name): entry for entry in entries} for entries in (before, after))
    return Changes(
        [now[key] for key in now.keys() - was.keys()],
        [was[key] for key in was.keys() - now.keys()],
        [(was[key], now[key]) for key in was.keys() & now.keys() if was[key] != now[key]],
    )


def _differing(before: Any, after: Any) -> frozenset[str]:
    """The fields in which two structs of one kind differ."""
    return frozenset(field for field in before.__struct_fields__ if getattr(before, field) != getattr(after, field))


@dataclass(frozen=True)
class Step:
    """A commit, and what is known of the rest of the partition."""

    previous: Manifest
    manifest: Manifest
    dead: int  # as far as the boundary has come
    active: frozenset[str]  # jobs in progress
    moves: bool = False  # it is the commit of a relocation

    @cached_property
    def changed(self) -> frozenset[str]:
        """The fields of the manifest."""
        return _differing(self.previous, self.manifest) - EVERY_COMMIT

    def of(self, field: str, name: str = "id") -> Changes:
        before, after = getattr(self.previous, field), getattr(self.manifest, field)
        return changes(before, after, name) if before or after else NO_CHANGES


def kind_of_commit(step: Step) -> str:
    """By what it alone does."""
    return next((kind for kind, shown in _signs(step) if shown), "nothing")


def _signs(step: Step) -> Iterator[tuple[str, bool]]:
    changed = step.changed
    yield "seal", "sealed" in changed
    yield "bounds", "config_at" in changed
    yield "append", "next_offset" in changed
    yield "claim", "compactor_epoch" in changed
    yield "relocation", step.moves
    yield "compaction", "completed_jobs" in changed
    yield "drop", "retired" in changed and bool(step.of("retired").added)
    yield "checkpoint", bool(step.of("checkpoints").added)
    yield (
        "collect",
        bool(changed & {"retired", "retired_lists", "unpinned", "orphan_floor"})
        or bool(step.of("checkpoints").removed),
    )
    yield "checkpoint", "checkpoints" in changed
    yield "quarantine", "quarantine" in changed
    yield "floor", bool(changed & MAY_CHANGE["floor"])
    yield "position", "consumers" in changed
    yield "producer", "producers" in changed
    yield "transaction", "transactions" in changed
    yield "upload", bool(step.of("uploads", "name").added or step.of("uploads", "name").changed)
    yield "collect", "uploads" in changed
    yield "homes", bool(changed & MAY_CHANGE["homes"])


def unwarranted(step: Step, kind: str) -> str | None:
    """What a commit of this kind changes and may not."""
    found = next(_unwarranted(step, kind), None)
    return None if found is None else f"{kind} {step.manifest.id} {found}"


def _unwarranted(step: Step, kind: str) -> Iterator[str]:
    beyond = step.changed - MAY_CHANGE[kind]
    if beyond:
        yield f"changes {', '.join(sorted(beyond))}, too"
    if kind != "collect" and "retired" in step.changed and step.of("retired").removed:
        yield "forgets retired segments"
    if kind in CHECKS:
        yield from CHECKS[kind](step)


def _came(entry: Any) -> tuple[int, int]:
    """How far an application is: with the same version, by how little it passed over."""
    return entry.version, -sum(each.last - each.first + 1 for each in entry.passed_over)


def _append(step: Step) -> Iterator[str]:
    """One append, those of several callers, or the segments of an upload."""
    previous, manifest = step.previous, step.manifest
    producers, transactions = step.of("producers"), step.of("transactions", "application")
    uploads = step.of("uploads", "name")
    if uploads.added or uploads.removed or uploads.all > 1:
        yield "touches other uploads than its own"
    added = manifest.l0[len(previous.l0) :]
    if manifest.l0[: len(previous.l0)] != previous.l0 or not added:
        yield "does other than add segments to L0"
    if producers.added or producers.removed or producers.all > len(added):
        yield "touches other producers than its own"
    sent = [*transactions.added, *(now for was, now in transactions.changed if was.touched_at)]  # else it was dated
    callers = 1 if uploads.changed else len(added)
    if len(sent) > callers or len(transactions.removed) > len(transactions.added):
        yield "touches other applications than its own"
    rows = {ref.base_offset: ref.rows for ref in added}
    for was, now in producers.changed:
        mine = now.batches[-1]
        batch = ProducerBatch(was.next_sequence, rows.pop(mine.base_offset, 0), mine.base_offset)
        after = replace(was, next_sequence=was.next_sequence + mine.rows, touched_at=manifest.id, batches=now.batches)
        kept = now.batches[:-1]
        if now != after or mine != batch or kept != was.batches[len(was.batches) - len(kept) :]:
            yield "does not go on where its producer was"
    if any(_came(now) <= _came(was) for was, now in transactions.changed if was.touched_at):
        yield "goes back to an earlier version of its application"
    if not uploads.changed and any(rows.pop(entry.base_offset, 0) != entry.rows for entry in sent):
        yield "does not say where its application's records are"


def _producer(step: Step) -> Iterator[str]:
    producers = step.of("producers")
    opened = [(now, 0) for now in producers.added] + [(now, was.next_sequence) for was, now in producers.changed]
    if len(opened) != 1 or any((now.epoch, now.next_sequence) != (step.manifest.id, sent) for now, sent in opened):
        yield "does other than open one producer"
    if any(entry.touched_at >= step.previous.orphan_floor for entry in producers.removed):
        yield "forgets a producer that may still append"


def _transaction(step: Step) -> Iterator[str]:
    transactions = step.of("transactions", "application")
    ended = [replace(was, ended=True) == now for was, now in transactions.changed]
    if transactions.all != 1 or transactions.added or not all(ended):
        yield "does other than end or forget one application"


def _compaction(step: Step) -> Iterator[str]:
    jobs, consumers = step.of("completed_jobs"), step.of("consumers", "name")
    if len(jobs.added) != 1 or jobs.changed or any(job.id in step.active for job in jobs.removed):
        yield "does other than add its job to those that are done"
    warned = [replace(was, missed_to=now.missed_to) == now for was, now in consumers.changed]
    later = [was.missed_to < now.missed_to for was, now in consumers.changed]
    if consumers.added or consumers.removed or not all(warned + later):
        yield "does other than warn consumers"


def _homes(step: Step) -> Iterator[str]:
    was, now = step.previous.homes, step.manifest.homes
    named = {each.home for each in (*step.manifest.segments(), *step.manifest.retired)}
    if len({*now} - {*was}) > 1 or len({*now}) < len(now):
        yield "does other than note one home, or forget some"
    if ({*was} - {*now}) & named:
        yield "forgets a home in which a segment is (P18)"


def _drop(step: Step) -> Iterator[str]:
    if step.manifest.quarantine not in (None, step.previous.quarantine):
        yield "changes the quarantine"


def _collect(step: Step) -> Iterator[str]:
    checkpoints, now_ms = step.of("checkpoints"), step.manifest.committed_at_ms
    early = [c for c in checkpoints.removed if c.expires_at_ms is None or c.expires_at_ms > now_ms]
    by_hand = checkpoints.all == 1 and step.changed <= frozenset(("checkpoints", "unpinned"))
    if checkpoints.added or checkpoints.changed or (early and not by_hand):
        yield "lets go of a checkpoint that has not expired"
    uploads = step.of("uploads", "name")
    if uploads.added or uploads.changed or _removed_early(step):
        yield "lets go of an upload that has not expired"
    if step.manifest.orphan_floor > step.dead:
        yield f"raises the orphan floor to {step.manifest.orphan_floor}, above the boundary at {step.dead} (P7)"


def _removed_early(step: Step) -> list[Any]:
    now_ms = step.manifest.committed_at_ms
    return [each for each in step.of("uploads", "name").removed if each.expires_at_ms > now_ms]


def counted_as(step: Step, kind: str) -> str:
    return f"{kind} in place of one that was appended" if kind == "upload" and _removed_early(step) else kind


def _upload(step: Step) -> Iterator[str]:
    uploads = step.of("uploads", "name")
    told = uploads.all == len(uploads.changed) == 1  # its version had been appended by another
    # At the bound one that was appended gives way: tests/sim/judge/uploads.py sees which.
    early = [each for each in _removed_early(step) if each.appended is None]
    if not told and (len(uploads.added) != 1 or uploads.changed or early or len(_removed_early(step)) > 1):
        yield "does other than begin one upload, in place of some that have expired or were appended"


def _checkpoint(step: Step) -> Iterator[str]:
    checkpoints = step.of("checkpoints")
    pinned = [entry.manifest for entry in checkpoints.added]
    extended = [replace(was, expires_at_ms=now.expires_at_ms) == now for was, now in checkpoints.changed]
    for gone in checkpoints.removed:
        same = any((gone.owner, gone.name) == (entry.owner, entry.name) for entry in checkpoints.added)
        # At its bound an owner lets go of its own (docs/rfcs/0016): tests/sim/judge/owners.py sees which.
        makes_room = gone.owner != "user" and gone.owner in [entry.owner for entry in checkpoints.added]
        if not makes_room and (not same or gone.expires_at_ms is None):
            yield "lets go of another checkpoint than an expired one of its name"
    if (pinned, extended) not in (([step.manifest.id], []), ([], [True])):
        yield "does other than pin itself, or extend one checkpoint"


def _position(step: Step) -> Iterator[str]:
    consumers = step.of("consumers", "name")
    moved = [*consumers.added, *(now for _, now in consumers.changed)]
    if consumers.all != 1 or any(now.committed_at != step.manifest.id for now in moved):
        yield "moves other than one position"


CHECKS: dict[str, Callable[[Step], Iterator[str]]] = {
    "append": _append,
    "producer": _producer,
    "transaction": _transaction,
    "compaction": _compaction,
    "drop": _drop,
    "homes": _homes,
    "relocation": _compaction,
    "collect": _collect,
    "checkpoint": _checkpoint,
    "position": _position,
    "upload": _upload,
}


def unwarranted_of_compactor(previous: CompactorState, state: CompactorState, *, claims: bool) -> str | None:
    """What an owner's commit, or its claim, changes and may not."""
    return next(_compactor(previous, state, claims=claims), None)


def _compactor(previous: CompactorState, state: CompactorState, *, claims: bool) -> Iterator[str]:
    active, ended = changes(previous.jobs, state.jobs), changes(previous.history, state.history)
    failures = changes(previous.failures, state.failures, "sources")
    kept = state.history[: len(state.history) - len(ended.added)]
    dropped = len(previous.history) - len(kept)
    if previous.history[dropped:] != kept or (dropped and len(state.history) < job_edits.HISTORY_MAX):
        yield "rewrites the history (P15)"
    if {job.id for job in ended.added} != {job.id for job in active.removed}:
        yield "loses a job (P15)"
    first_of_all = len(active.added) == 1 and not previous.jobs and not previous.failures  # docs/rfcs/0033
    if claims and ((active.added and not first_of_all) or active.removed or failures.removed):
        yield "claims, and touches more than attempts (P5)"
    renamed = [
        now for was, now in active.changed if active.removed and _differing(was, now) == frozenset(("requested",))
    ]
    if not claims and (active.all - len(renamed) > 1 or len(failures.added + failures.changed) > 1):
        yield "is about more than one job (P8, P14)"
    if failures.removed and len(state.failures) < FAILURES_MAX and failures.all > 1:
        yield "forgets failures of other jobs (P14)"
    for was, now in (pair for pair in active.changed if pair[1] not in renamed):
        beyond = _differing(was, now) - (BY_CLAIM if claims else BY_PROGRESS if was.plan else BY_ADMISSION)
        if beyond:
            yield f"changes {', '.join(sorted(beyond))} of job {now.id} (P9)"
        if _rewritten(was.attempts, now.attempts):
            yield f"rewrites attempts of job {now.id} that had ended (P14)"


def _rewritten(was: tuple[Attempt, ...], now: tuple[Attempt, ...]) -> bool:
    """Whether anything became of attempts but that one began, those that ran ended, and the oldest are forgotten."""
    known = {attempt.number for attempt in was}
    kept = [attempt for attempt in now if attempt.number in known]
    before = was[len(was) - len(kept) :]
    changed = any(then.ended_at_ms is not None and then != again for then, again in zip(before, kept, strict=True))
    lost = len(kept) < len(was) and len(now) < job_edits.ATTEMPTS_KEPT
    return changed or lost or len(now) > len(kept) + 1
