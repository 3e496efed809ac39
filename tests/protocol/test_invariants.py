"""P2: whatever edits are applied, the invariants hold; whatever is damaged, some invariant says so."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.claims import Claim
from lithify.manifest.codec import decode, encode
from lithify.manifest.compactions import coverage_offset
from lithify.manifest.edits import Next
from lithify.manifest.floor import DropSegments, RaiseFloor, SetBounds
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.invariants import manifest_problems
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import (
    TIME_INDEX_MAX,
    Checkpoint,
    Manifest,
    Retired,
    SegmentRef,
    SortedRun,
    Transaction,
    Upload,
    UploadAppended,
)
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint, RefreshCheckpoint
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.quarantine import LiftQuarantine, SetQuarantine
from lithify.manifest.retention import KEEP_ALL, Retention
from lithify.manifest.transactions import (
    EndTransaction,
    ForgetTransaction,
    Reach,
    TransactionStamp,
    find_transaction,
    reach_of,
)
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from tests.protocol.scene import FIRST, L0_MAX, at, replacing, segment

# An operation is a letter and three small numbers that say which segment, producer or checkpoint it is about.
Operation = tuple[str, int, int, int]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from("aaaaapttiiecxkkkgggdrqlzfwwuUU"), *(st.integers(0, 5) for _ in range(3))), max_size=40
)
# What a segment holds: (first offset, rows) of each append in it.
Contents = dict[str, tuple[tuple[int, int], ...]]


def edit_of(head: Manifest, operation: Operation, contents: Contents) -> Any:  # noqa: C901 - one flat table
    letter, x, y, z = operation
    name = SegmentId.for_append(max(head.id - x, 1), f"{head.id}{x}{y}")
    match letter:
        case "a":
            return Append(segment(name, y + 1), L0_MAX)
        case "p":
            known = next((p for p in head.producers if p.id == f"p{x}"), None)
            if known is None or z == 0:
                return OpenProducer(f"p{x}")
            return Append(segment(name, y + 1), L0_MAX, ProducerStamp(known.id, known.epoch, known.next_sequence))
        case "t":
            return Append(segment(name, y + 1), L0_MAX, transaction=TransactionStamp(f"app{x}", head.id))
        case "i":
            known = find_transaction(head, f"import{x}")
            reach = Reach() if known is None else reach_of(known)
            first = max(1, reach.version + (y if z else -2 * y))
            stamp = TransactionStamp(f"import{x}", first + z, reach, first=first)
            return Append(segment(name, y + 1), L0_MAX, transaction=stamp)
        case "e":
            return EndTransaction(f"app{x}") if y else ForgetTransaction(f"app{x}")
        case "u":
            return BeginUpload(f"{x:016x}", 1 + 3 * y)
        case "U":
            if not head.uploads:
                return Claim(None)
            upload = head.uploads[x % len(head.uploads)]
            names = (SegmentId.for_upload(upload.name, f"{head.id:08x}{n:08x}") for n in range(y + 1))
            return AppendUploaded(upload.name, tuple(segment(each, z + 1) for each in names), L0_MAX)
        case "c":
            return Claim(None)
        case "x":
            return CreateCheckpoint(f"c{x}{y}", f"name{x}", None if z else 5)
        case "d":
            return DeleteCheckpoint(f"c{x}{y}")
        case "r":
            return RefreshCheckpoint(f"c{x}{y}", z)
        case "k":
            return compaction(head, x, y, z, contents)
        case "f":
            return RaiseFloor(head.next_offset * x // 6)
        case "w":
            held = frozenset(s.id for s in head.segments()[x:]) if z else frozenset[str]()
            return DropSegments(head.compactor_epoch, held)
        case "b":
            return SetBounds(Retention(records=3 * z if z else -1), head.config_at + y, KEEP_ALL)
        case "g":
            going = frozenset(r.id for r in head.retired if r.retired_at < head.id - x)
            return Collect(
                max(head.id - x - 1, 0),
                going,
                frozenset(c.id for c in head.checkpoints),
                always=bool(y),
                homes=ONLY_HERE,
            )
        case "q":
            return SetQuarantine(head.compactor_epoch, "reason", "s")
        case "l":
            return LiftQuarantine()
        case _:
            return Seal() if x == y == 0 else Claim(None)


def compaction(head: Manifest, x: int, y: int, z: int, contents: Contents) -> Any:
    """A commit of some whole runs and some L0 segments; every z-th append in them is dropped (0: all, 1: none)."""
    runs = [run for index, run in enumerate(head.runs) if (index + x) % 2]
    loose = head.l0[y : y + 3]
    sources = tuple(s for run in runs for s in run.segments) + loose
    if not sources:
        return Claim(None)
    covered = coverage_offset(head, frozenset(s.id for s in sources))
    edit = replacing(
        head, sources, head.compactor_epoch, job=SegmentId.for_job(head.id, f"{head.id:08x}"), coverage_offset=covered
    )
    forget = tuple(d.id for d in head.completed_jobs)
    held = sorted(piece for s in sources for piece in contents[s.id])
    lost = tuple(held if z == 0 else held[::z] if z > 1 else ())
    kept = tuple(piece for piece in held if piece not in lost)
    run = SortedRun(id=edit.job, segments=())
    if kept:
        (merged,) = edit.run.segments
        reach = {"min_offset": kept[0][0], "max_offset": kept[-1][0] + kept[-1][1] - 1}
        run = SortedRun(id=edit.job, segments=(replace(merged, rows=sum(rows for _, rows in kept), **reach),))
        contents[merged.id] = kept
    return type(edit)(
        epoch=edit.epoch,
        job=edit.job,
        segments=edit.segments,
        run=run,
        coverage_offset=covered,
        clean=y == 0,
        forget=forget,
        lost=lost,
    )


def history(operations: list[Operation]) -> list[Manifest]:
    manifests = [at(FIRST, 1)]
    contents: Contents = {}
    for operation in operations:
        head = manifests[-1]
        verdict = edit_of(head, operation, contents).apply(head, head.id + 1, head.id)
        if isinstance(verdict, Next):
            manifests.append(at(verdict.value, head.id + 1))
            contents.update((s.id, ((s.min_offset, s.rows),)) for s in manifests[-1].l0)
    return manifests


@given(OPERATIONS)
def test_edits_keep_the_invariants(operations: list[Operation]) -> None:
    manifests = history(operations)
    for previous, following in pairwise(manifests):
        assert list(manifest_problems(previous, following)) == []
        assert decode(Manifest, encode(following), "m", following.id) == following
    floors = [(m.next_offset, m.log_start_offset, m.orphan_floor, m.cleaned_to, m.compactor_epoch) for m in manifests]
    assert all(a <= b for earlier, later in pairwise(floors) for a, b in zip(earlier, later, strict=True))


def test_the_history_meets_every_edit() -> None:
    operations: list[Operation] = [
        *[("a", 0, 2, 1)] * 4,
        ("c", 0, 0, 0),
        ("p", 1, 0, 0),
        ("p", 1, 2, 1),
        ("t", 1, 1, 1),
        ("x", 1, 1, 1),
        ("k", 1, 0, 1),
        ("q", 0, 0, 0),
        ("l", 0, 0, 0),
        ("f", 1, 1, 0),
        ("b", 0, 1, 1),
        ("w", 0, 5, 0),
        ("k", 0, 0, 0),
        ("r", 1, 1, 4),
        ("g", 0, 1, 0),
        ("d", 1, 1, 0),
        ("z", 0, 0, 0),
    ]
    manifests = history(operations)
    last = manifests[-1]
    assert last.id == 1 + len(operations)  # none was refused
    assert last.sealed
    assert last.producers
    assert last.transactions
    assert any(m.retired for m in manifests)
    assert last.log_start_offset


START: list[Operation] = [*[("a", 0, 2, 1)] * 3, ("x", 1, 1, 1), ("k", 1, 0, 1), *[("a", 0, 1, 1)] * 3]


def _l0(m: Manifest, index: int, **fields: Any) -> Manifest:
    changed = replace(m.l0[index], **fields)
    return replace(m, l0=(*m.l0[:index], changed, *m.l0[index + 1 :]))


def _transaction(touched_at: int) -> Transaction:
    return Transaction(application="a", version=1, base_offset=0, rows=1, touched_at=touched_at)


def _upload(begun_at: int, **fields: Any) -> Upload:
    return Upload(id="a" * 16, begun_at=begun_at, expires_at_ms=9, **fields)


def _last_bucket(m: Manifest, **fields: Any) -> Manifest:
    return replace(m, time_index=(*m.time_index[:-1], replace(m.time_index[-1], **fields)))


DAMAGES: dict[str, Any] = {
    "numbers are dense": lambda m, n: replace(m, id=m.id + 1 + n),
    "every file carries a nonce": lambda m, n: replace(m, nonce=""),
    "a partition keeps its identity": lambda m, n: replace(m, partition=m.partition + 1 + n),
    "next_offset never falls": lambda m, n: replace(m, next_offset=m.next_offset - 3 - n),
    "next_offset grows by what is appended": lambda m, n: replace(m, next_offset=m.next_offset + 1 + n),
    "cleaned_to never falls": lambda m, n: replace(m, cleaned_to=m.cleaned_to - 1 - n),
    "log_start_offset never falls": lambda m, n: replace(m, log_start_offset=-1 - n),
    "deleted_to never falls": lambda m, n: replace(m, deleted_to=-1 - n),
    "the log starts at its end at the latest": lambda m, n: replace(m, log_start_offset=m.next_offset + 1 + n),
    "the time index is in offset order, and no bucket is empty": lambda m, n: replace(
        m, time_index=(*m.time_index, replace(m.time_index[-1], rows=n))
    ),
    "the time index counts the live rows, but for those below the floor": lambda m, n: replace(
        m, time_index=(replace(m.time_index[0], rows=m.time_index[0].rows + 1 + n), *m.time_index[1:])
    ),
    "an application has one transaction": lambda m, n: replace(m, transactions=(_transaction(1),) * (2 + n)),
    "a transaction's commit is a manifest number": lambda m, n: replace(m, transactions=(_transaction(m.id + 1 + n),)),
    "a stretch of the log holds no more than before": lambda m, n: _last_bucket(
        m, bytes=m.time_index[-1].bytes + 1 + n
    ),
    "the time index counts no more bytes": lambda m, n: _last_bucket(
        m, bytes=m.time_index[-1].bytes + TIME_INDEX_MAX + 1
    ),
    "orphan_floor never falls": lambda m, n: replace(m, orphan_floor=-1 - n),
    "compactor_epoch never falls": lambda m, n: replace(m, compactor_epoch=-1 - n),
    "live offsets lie below next_offset": lambda m, n: _l0(m, -1, max_offset=m.next_offset + n),
    "added_at is a manifest number": lambda m, n: _l0(m, n % 3, added_at=m.id + 1 + n),
    "L0 segments are in offset order": lambda m, n: replace(m, l0=m.l0[::-1]),
    "an L0 segment's offsets are dense": lambda m, n: _l0(m, n % 3, rows=m.l0[n % 3].rows + 1 + n),
    "a segment is live or retired, once": lambda m, n: replace(m, l0=(*m.l0, m.l0[n % 3])),
    "for the retired list only": lambda m, n: replace(m, l0=tuple(s for i, s in enumerate(m.l0) if i != n % 2)),
    "what is newly retired was live": lambda m, n: replace(
        m, retired=(*m.retired, Retired(id=f"never{n}", bytes=1, rows=1, added_at=1, retired_at=m.id))
    ),
    "the orphan floor covers what was collected": lambda m, n: replace(m, retired=m.retired[1:]),
    "a retired segment does not return": lambda m, n: replace(
        m, retired=m.retired[1:], runs=(*m.runs, SortedRun(id="r", segments=(segment(m.retired[0].id, added_at=m.id),)))
    ),
    "a new segment says when it was added": lambda m, n: replace(
        m, runs=(*m.runs, SortedRun(id="r", segments=(segment("new", added_at=1),)))
    ),
    "a run's segments are disjoint": lambda m, n: replace(
        m, runs=(SortedRun(id="r", segments=m.runs[0].segments * 2),)
    ),
    "a run reaches down to its records": lambda m, n: replace(
        m, runs=(replace(m.runs[0], reaches_to=m.runs[0].segments[0].min_offset + 1 + n),)
    ),
    "an upload is begun once": lambda m, n: replace(m, uploads=(_upload(m.id), _upload(m.id - n))),
    "an upload begins with a manifest that exists": lambda m, n: replace(m, uploads=(_upload(m.id + 1 + n),)),
    "a checkpoint pins a manifest that exists": lambda m, n: replace(
        m, checkpoints=(Checkpoint(id="c", name="c", manifest=m.id + 1 + n, created_at_ms=0),)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@given(st.integers(0, 5))
def test_a_damaged_successor_is_caught(damage: str, n: int) -> None:
    manifests = history(START)
    head, following = manifests[-2], manifests[-1]
    assert list(manifest_problems(head, following)) == []
    problems = list(manifest_problems(head, DAMAGES[damage](following, n)))
    assert any(damage in problem for problem in problems), problems


@pytest.mark.parametrize(
    "segments",
    [
        (),
        (segment("a", order="key"), segment("b", order="offset", min_offset=1, max_offset=1)),
        (segment("a", order="offset", max_offset=1), segment("b", order="offset", min_offset=1, max_offset=1)),
        (segment("a", order="key", max_key=b"n"), segment("b", order="key", min_key=b"m")),
    ],
    ids=["empty", "in two orders", "offsets overlap", "keys overlap"],
)
def test_what_is_no_sorted_run_is_caught(segments: tuple[SegmentRef, ...]) -> None:
    manifests = history(START)
    damaged = replace(manifests[-1], runs=(SortedRun(id="r", segments=segments),))
    problems = list(manifest_problems(manifests[-2], damaged))
    assert "a run's segments are disjoint and in order" in problems


NUMBERS = ("next_offset", "log_start_offset", "deleted_to", "cleaned_to", "orphan_floor", "compactor_epoch")


@given(st.sampled_from(NUMBERS), st.integers(1, 2**62))
def test_no_order_of_the_protocol_runs_backwards(field: str, distance: int) -> None:
    manifests = history(START)
    following = replace(manifests[-1], **{field: getattr(manifests[-2], field) - distance})
    assert list(manifest_problems(manifests[-2], following))


def test_sealed_is_final_and_takes_no_appends() -> None:
    sealed = history([*START, ("z", 0, 0, 0)])[-1]
    open_again = replace(at(sealed, sealed.id + 1), sealed=False)
    assert "sealed is final" in list(manifest_problems(sealed, open_again))
    more = replace(at(sealed, sealed.id + 1), next_offset=sealed.next_offset + 1)
    assert "nothing is appended to a sealed partition" in list(manifest_problems(sealed, more))


def test_what_became_of_an_upload_stays_as_it_was() -> None:
    head, following = history(START)[-2:]
    head = replace(head, uploads=(_upload(1, appended=UploadAppended(3, 0, 1)),))
    for appended in (None, UploadAppended(3, 0, 2)):
        changed = replace(following, uploads=(_upload(1, appended=appended),))
        assert list(manifest_problems(head, changed)) == ["an upload is appended once"]
    assert list(manifest_problems(head, replace(following, uploads=head.uploads))) == []
