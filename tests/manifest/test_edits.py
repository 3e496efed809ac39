"""An edit changes what it is about, once, and leaves all else as it was: each on a partition that has everything."""

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.claims import Claim
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.consumers import CommitPosition, ForgetConsumer, ResetPosition, TakePosition
from lithify.manifest.edits import Already, Refused
from lithify.manifest.floor import DropSegments, RaiseFloor, SetBounds
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import CreatePartition, Seal, Touch
from lithify.manifest.model import Manifest
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint, RefreshCheckpoint
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.quarantine import LiftQuarantine, SetQuarantine
from lithify.manifest.retention import KEEP_ALL, Retention
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.store.errors import NotFound
from tests.protocol import scene
from tests.protocol.scene import FIRST, L0_MAX, at, replacing, segment
from tests.sim.frames import Step, kind_of_commit, unwarranted

NOW_MS = 1_000


def after(head: Manifest, *edits: Any) -> Manifest:
    return scene.after(head, *edits, now_ms=NOW_MS)


def new(number: int) -> str:
    return f"{number:012}-{number:08x}"


def appends(*numbers: int) -> list[Append]:
    return [Append(segment(new(number), 2), L0_MAX) for number in numbers]


def merged(head: Manifest, count: int, **fields: Any) -> CommitCompaction:
    return replacing(head, head.l0[:count], head.compactor_epoch, **fields)


def with_everything() -> Manifest:
    head = after(at(FIRST, 1), Claim(None), *appends(1, 2, 3, 4, 5, 6), OpenProducer("p"), OpenProducer("q"))
    head = after(
        head,
        *(
            Append(segment(new(at)), L0_MAX, producer=ProducerStamp(p.id, p.epoch, 0))
            for at, p in enumerate(head.producers, 7)
        ),
        Append(segment(new(9)), L0_MAX, transaction=TransactionStamp("a", 4)),
        Append(segment(new(10)), L0_MAX, transaction=TransactionStamp("b", 4)),
        *(CommitPosition(name, 3, 0, "i") for name in ("x", "y")),
        *(CreateCheckpoint(name, name, 10) for name in ("c", "d")),
    )
    head = after(head, merged(head, 2, job="000000000002-0000aaaa"))
    head = after(head, merged(head, 2, job="000000000004-0000bbbb"))
    head = after(head, BeginUpload("a" * 16, 10), BeginUpload("b" * 16, 10))
    return after(head, SetBounds(Retention(records=10**6), 3, KEEP_ALL))


HEAD = with_everything()
EPOCH = HEAD.compactor_epoch
P, X, U = HEAD.producers[0], HEAD.consumers[0], HEAD.uploads[0]


def of_upload(rows: int, *nonces: int, **fields: Any) -> AppendUploaded:
    refs = tuple(segment(SegmentId.for_upload(U.name, f"{nonce:016x}"), rows) for nonce in nonces)
    return AppendUploaded(U.name, refs, L0_MAX, **fields)


def damaged(head: Manifest) -> Manifest:
    return after(head, SetQuarantine(EPOCH, "why", head.l0[0].id))


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (Append(segment(new(20)), L0_MAX), "append"),
        (Append(segment(new(20)), L0_MAX, producer=ProducerStamp("p", P.epoch, 1)), "append"),
        (Append(segment(new(20)), L0_MAX, transaction=TransactionStamp("a", 5)), "append"),
        (of_upload(2, 1, 2, 3), "append"),
        (of_upload(2, 1, 2, 3, transaction=TransactionStamp("a", 5)), "append"),
        (BeginUpload("c" * 16, 10), "upload"),
        (OpenProducer("p"), "producer"),
        (OpenProducer("r"), "producer"),
        (Claim(None), "claim"),
        (merged(HEAD, 2, job="000000000006-0000cccc"), "compaction"),
        (merged(HEAD, 2, job="000000000006-0000cccc", dropped_to=4, forget=("000000000002-0000aaaa",)), "compaction"),
        (DropSegments(EPOCH, frozenset()), "drop"),
        (CreateCheckpoint("e", "e", None), "checkpoint"),
        (RefreshCheckpoint("c", 99), "checkpoint"),
        (DeleteCheckpoint("c"), "collect"),
        (SetQuarantine(EPOCH, "why", HEAD.l0[0].id), "quarantine"),
        (RaiseFloor(3), "floor"),
        (SetBounds(Retention(records=6), 5, KEEP_ALL), "bounds"),
        (CommitPosition("x", 5, X.committed_at, "another"), "position"),
        (CommitPosition("z", 5, 0, "i"), "position"),
        (TakePosition("x", "another", 0), "position"),
        (TakePosition("z", "i", 5), "position"),
        (ResetPosition("x", 5, "another"), "position"),
        (ResetPosition("x", None, "another"), "position"),
        (ForgetConsumer("x"), "position"),
        (Seal(), "seal"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_it_changes_what_it_is_about_and_no_more(edit: Any, kind: str) -> None:
    head = replace(HEAD, retention=Retention(records=6)) if kind == "drop" else HEAD
    step = Step(head, after(head, edit), head.id, frozenset())
    assert kind_of_commit(step) == kind
    assert unwarranted(step, kind) is None


def test_a_collection_forgets_what_it_was_told_to() -> None:
    gone = HEAD.retired[0].id
    edit = Collect(HEAD.id, frozenset((gone,)), frozenset(("c",)), homes=ONLY_HERE)
    head = replace(
        HEAD,
        checkpoints=tuple(replace(c, expires_at_ms=NOW_MS) for c in HEAD.checkpoints),
        uploads=(replace(U, expires_at_ms=NOW_MS), *HEAD.uploads[1:]),
    )
    following = after(head, edit)
    assert unwarranted(Step(head, following, HEAD.id, frozenset()), "collect") is None
    assert following.retired == (), "the others are handed over to the other checkpoint"
    assert [c.id for c in following.checkpoints] == ["d"]
    assert following.uploads == HEAD.uploads[1:]
    assert following.orphan_floor == HEAD.id
    assert [r.id for r in after(replace(head, checkpoints=()), edit).retired] == [r.id for r in HEAD.retired[1:]]


@pytest.mark.parametrize(
    "edit",
    [
        CreatePartition(FIRST),
        DeleteCheckpoint("nobody's"),
        ForgetConsumer("nobody"),
        LiftQuarantine(),
        RaiseFloor(0),
        SetBounds(KEEP_ALL, HEAD.config_at, KEEP_ALL),
        DropSegments(EPOCH, frozenset()),
        Collect(0, frozenset(), homes=ONLY_HERE),
        merged(HEAD, 2, job="000000000004-0000bbbb"),
        Append(HEAD.l0[0], L0_MAX),
        BeginUpload(U.id, 10),
    ],
    ids=lambda edit: type(edit).__name__,
)
def test_done_already_it_writes_nothing(edit: Any) -> None:
    assert isinstance(edit.apply(HEAD, HEAD.id + 1, NOW_MS), Already)


def test_what_ends_a_partition_or_a_quarantine_does_so_once() -> None:
    for head, edit in ((after(HEAD, Seal()), Seal()), (damaged(HEAD), SetQuarantine(EPOCH, "again", "s"))):
        assert isinstance(edit.apply(head, head.id + 1, NOW_MS), Already)
    assert after(damaged(HEAD), LiftQuarantine()).quarantine is None


OF_A_PARTITION = [
    Append(segment(new(20)), L0_MAX),
    OpenProducer("p"),
    Claim(None),
    merged(HEAD, 2, job="000000000006-0000cccc"),
    DropSegments(EPOCH, frozenset()),
    CreateCheckpoint("e", "e", None),
    BeginUpload("c" * 16, 10),
    of_upload(2, 1),
    SetQuarantine(EPOCH, "why", "s"),
    RaiseFloor(3),
    SetBounds(KEEP_ALL, 5, KEEP_ALL),
    CommitPosition("x", 5, X.committed_at, "another"),
    TakePosition("x", "another", 5),
    ResetPosition("x", 5, "another"),
]


@pytest.mark.parametrize(
    "edit", [*OF_A_PARTITION, RefreshCheckpoint("c", 99), Touch()], ids=lambda edit: type(edit).__name__
)
def test_where_there_is_no_partition_it_is_refused(edit: Any) -> None:
    verdict = edit.apply(None, 1, NOW_MS)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, NotFound)


@pytest.mark.parametrize("edit", [*OF_A_PARTITION, ForgetConsumer("x")], ids=lambda edit: type(edit).__name__)
def test_where_the_topic_was_deleted_it_is_refused(edit: Any) -> None:
    verdict = edit.apply(after(HEAD, Seal()), HEAD.id + 2, NOW_MS)
    assert isinstance(verdict, Refused)
    assert "was deleted" in str(verdict.error)


def test_the_floor_is_raised_by_hand_by_retention_or_both() -> None:
    last = HEAD.next_offset
    for before, retention, start, by_hand in (
        (last, KEEP_ALL, last, last),
        (3, Retention(records=6), last - 6, 3),
        (last - 1, Retention(records=6), last - 1, last - 1),
        (0, Retention(records=6), last - 6, 0),
    ):
        raised = after(replace(HEAD, retention=retention), RaiseFloor(before))
        assert (raised.log_start_offset, raised.deleted_to) == (start, by_hand)
        assert isinstance(RaiseFloor(before).apply(raised, raised.id + 1, NOW_MS), Already)
    expired = after(replace(HEAD, retention=Retention(records=6)), RaiseFloor(0))
    assert after(expired, RaiseFloor(3)).deleted_to == 3, "what had expired is deleted by hand now"


def test_a_batch_of_another_size_is_no_repetition() -> None:
    again = Append(segment(new(20), 1), L0_MAX, producer=ProducerStamp("p", P.epoch, 0))
    assert isinstance(again.apply(HEAD, HEAD.id + 1, NOW_MS), Already)
    other = Append(segment(new(20), 2), L0_MAX, producer=ProducerStamp("p", P.epoch, 0))
    assert isinstance(other.apply(HEAD, HEAD.id + 1, NOW_MS), Refused)


def test_before_there_is_a_partition_there_is_nothing_to_end_or_forget() -> None:
    for edit in (Seal(), DeleteCheckpoint("c"), ForgetConsumer("x")):
        assert isinstance(edit.apply(None, 1, NOW_MS), Already)


def test_a_clean_says_how_far_and_when_and_a_tier_does_not() -> None:
    head = after(at(FIRST, 1), Claim(None), *appends(1, 2, 3))
    covered = head.l0[2].min_offset
    edits = (merged(head, 2, clean=clean, coverage_offset=covered) for clean in (False, True))
    tier, clean = (scene.after(head, edit, now_ms=77) for edit in edits)
    assert (tier.cleaned_to, tier.last_cleaned_at_ms, tier.last_compacted_at_ms) == (0, None, 77)
    assert (clean.cleaned_to, clean.last_cleaned_at_ms) == (covered, 77)
    later = scene.after(clean, merged(clean, 1, job="000000000009-0000dddd"), now_ms=99)
    assert (later.cleaned_to, later.last_cleaned_at_ms, later.last_compacted_at_ms) == (clean.cleaned_to, 77, 99)


def test_what_a_merge_dropped_below_its_floor_stays_below_though_the_clock_of_its_commit_is_behind() -> None:
    assert after(HEAD, merged(HEAD, 2, job="000000000006-0000cccc", floor=3)).log_start_offset == 3


def test_runs_are_in_the_order_of_their_offsets() -> None:
    head = after(at(FIRST, 1), Claim(None), *appends(1, 2, 3, 4))
    head = after(head, replacing(head, head.l0[2:], 1, job="000000000004-0000bbbb"))
    head = after(head, replacing(head, head.l0, 1, job="000000000005-0000aaaa"))
    assert [run.segments[0].min_offset for run in head.runs] == [0, 4]


def test_a_touch_takes_a_number_and_changes_nothing() -> None:
    for head in (HEAD, after(HEAD, Seal())):
        step = Step(head, after(head, Touch()), head.id, frozenset())
        assert step.manifest.id == head.id + 1
        assert (kind_of_commit(step), unwarranted(step, "nothing")) == ("nothing", None)


def edit_classes() -> list[type[Any]]:
    """Every class of the product that is handed to `Lineage.commit`: it has an `apply` that is told the number."""
    root = Path(__file__).resolve().parents[2]
    found: list[type[Any]] = []
    folders = ("manifest", "compactor", "gc", "log", "admin")
    for file in sorted(file for folder in folders for file in root.glob(f"{folder}/*.py")):
        classes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
        if classes and "def apply(" in file.read_text(encoding="utf-8"):
            module = importlib.import_module(f"lithify.{file.parent.name}.{file.stem}")
            found += [getattr(module, c.name) for c in classes if hasattr(getattr(module, c.name), "apply")]
    return [each for each in found if each.__name__ not in ("Edit", "_Owned")]


def test_every_edit_says_whether_it_may_be_repeated_and_whether_it_frees_space() -> None:
    """An edit that forgot it would be found out at its first commit only, or on a full disk."""
    classes = edit_classes()
    assert {"Append", "Collect", "Touch", "_Advance", "_Alter", "ClaimState", "Finish"} <= {c.__name__ for c in classes}
    for each in classes:
        assert isinstance(each.repeatable, bool), each
        assert isinstance(each.frees, bool), each
