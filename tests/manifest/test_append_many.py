"""Appends of several callers in one commit (docs/rfcs/0024): each as if it had been committed alone, after those before
it."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.events.changes import changes_of_manifest
from lithify.events.types import Appended
from lithify.manifest.appends import Append, AppendMany, Full, NoneAppended
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.floor import SetBounds
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import GROUP_MAX, Manifest
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.retention import KEEP_ALL, Retention
from lithify.manifest.transactions import TransactionStamp
from lithify.store.errors import AlreadyExists, Fenced, NotFound
from tests.protocol import scene
from tests.protocol.scene import FIRST, L0_MAX, at, segment

FLOOR = 3  # below it an id is refused
NOW_MS = 9_000


def after(head: Manifest, *edits: Any) -> Manifest:
    return scene.after(head, *edits, now_ms=NOW_MS)


def new(number: int, nonce: int) -> str:
    return SegmentId.for_append(number, f"{nonce:016x}")


def with_clients() -> Manifest:
    """Two producers, the first of which has sent two records; an application at version 4; six L0 segments."""
    head = after(at(FIRST, 4), OpenProducer("p"), OpenProducer("q"))
    first = ProducerStamp("p", head.producers[0].epoch, 0)
    head = after(head, Append(segment(new(4, 900), 2), L0_MAX, producer=first))
    head = after(head, Append(segment(new(4, 901), 3), L0_MAX, transaction=TransactionStamp("a", 4)))
    head = after(head, *(Append(segment(new(4, n), 1), L0_MAX) for n in range(902, 906)))
    return replace(head, orphan_floor=FLOOR)


HEAD = with_clients()
EPOCHS = {entry.id: entry.epoch for entry in HEAD.producers}

# A member is a letter and two small numbers: what it is, and which.
MEMBERS = st.lists(
    st.tuples(st.sampled_from("nnnobpqft"), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=8
)


def member(at_place: int, letter: str, x: int, rows: int, most: int) -> Append:
    ref = segment(new(5, at_place), rows)
    match letter:
        case "o":  # it is there already
            return Append(HEAD.l0[2 + x], most)
        case "b":  # below the orphan floor
            return Append(replace(ref, id=new(FLOOR - 1, at_place)), most)
        case "p" | "q":  # of a producer, in its sequence or not
            return Append(ref, most, producer=ProducerStamp(letter, EPOCHS[letter], x))
        case "f":  # of one that was opened again since
            return Append(ref, most, producer=ProducerStamp("p", EPOCHS["p"] - 1, x))
        case "t":
            return Append(ref, most, transaction=TransactionStamp("a", 3 + x))
        case _:
            return Append(ref, most)


def one_after_the_other(members: list[Append]) -> tuple[Manifest, list[range | type[Exception]]]:
    head, answers = HEAD, list[range | type[Exception]]()
    for each in members:
        verdict = each.apply(head, head.id + 1, NOW_MS)
        if isinstance(verdict, Next):
            head = after(head, each)
        answers.append(type(verdict.error) if isinstance(verdict, Refused) else verdict.result)
    return head, answers


def told(answers: Any) -> list[range | type[Exception]]:
    return [type(answer.error) if isinstance(answer, Refused) else answer for answer in answers]


def undated(head: Manifest) -> Any:
    """What does not depend on how many commits there were."""
    return (
        [replace(ref, added_at=0) for ref in head.l0],
        head.next_offset,
        [replace(entry, touched_at=0) for entry in sorted(head.producers, key=lambda entry: entry.id)],
        [replace(entry, touched_at=0) for entry in head.transactions],
        head.time_index,
    )


@given(MEMBERS, st.sampled_from((7, 8, L0_MAX)))
@example([("t", 1, 1), ("t", 2, 1)], L0_MAX)  # a version sent again, and the one after it
@example([("q", 1, 1), ("q", 0, 1)], L0_MAX)  # the second batch before the first
def test_a_group_is_what_its_members_are_one_after_the_other(drawn: list[tuple[str, int, int]], most: int) -> None:
    given_all = [member(place, *each, most) for place, each in enumerate(drawn)]
    members = list({each.segment.id: each for each in given_all}.values())
    alone, answers = one_after_the_other(members)
    verdict = AppendMany(tuple(members)).apply(HEAD, HEAD.id + 1, NOW_MS)
    if isinstance(verdict, Next):
        assert told(verdict.result) == answers
        together = after(HEAD, AppendMany(tuple(members)))
        assert undated(together) == undated(alone)
        assert together.id == HEAD.id + 1
        again = AppendMany(tuple(members)).apply(together, together.id + 1, NOW_MS)
        repeated = again.error.answers if isinstance(again, Refused) else again.result  # type: ignore[attr-defined]
        latest = max((each.transaction.version for each in members if each.transaction is not None), default=0)
        for each, answer, anew in zip(members, answers, told(repeated), strict=True):
            if each.transaction is not None and each.transaction.version < latest and isinstance(answer, range):
                assert anew in (answer, AlreadyExists), "of an application only the latest version's place is kept"
            elif isinstance(answer, range):
                assert anew == answer, "each recognises itself"
            elif isinstance(anew, range):
                assert each.producer is not None, "what it was to come after stood behind it in the group"
    elif isinstance(verdict, Already):
        assert alone is HEAD
        assert list(verdict.result) == answers
    else:
        assert alone is HEAD
        assert isinstance(verdict.error, NoneAppended)
        assert told(verdict.error.answers) == answers
        assert not verdict.final


@given(MEMBERS)
def test_each_append_has_its_event(drawn: list[tuple[str, int, int]]) -> None:
    """One member of each producer and application, as the queue takes them."""
    members = [member(place, *each, L0_MAX) for place, each in enumerate({each[0]: each for each in drawn}.values())]
    verdict = AppendMany(tuple(members)).apply(HEAD, HEAD.id + 1, NOW_MS)
    if not isinstance(verdict, Next):
        return
    events = changes_of_manifest(HEAD, replace(verdict.value, id=HEAD.id + 1))
    before = {ref.id for ref in HEAD.l0}
    expected = [
        (each.segment.id, answer.start, "" if each.producer is None else each.producer.id)
        + (("", None) if each.transaction is None else (each.transaction.application, each.transaction.version))
        for each, answer in zip(members, verdict.result, strict=True)
        if isinstance(answer, range) and each.segment.id not in before and answer.start >= HEAD.next_offset
    ]
    found = [
        (each.segment, each.offset, each.producer, each.application, each.version)
        for each in events
        if isinstance(each, Appended)
    ]
    assert found == expected


def test_the_floor_is_that_of_the_head_that_it_found() -> None:
    """R3: also where the index is full."""
    head = after(HEAD, SetBounds(Retention(records=4), 2, KEEP_ALL))
    while len(head.time_index) < 128:
        head = after(head, Append(segment(new(5, head.id), 1), L0_MAX))
    members = tuple(Append(segment(new(5, 70_000 + n), 1), L0_MAX) for n in range(3))
    assert after(head, AppendMany(members)).log_start_offset == head.next_offset - 4


def test_where_a_partition_is_gone_or_deleted_all_are_refused() -> None:
    members = AppendMany((Append(segment(new(5, 1)), L0_MAX), Append(segment(new(5, 2)), L0_MAX)))
    absent = members.apply(None, 1, NOW_MS)
    assert isinstance(absent, Refused)
    assert isinstance(absent.error, NotFound)
    sealed = after(HEAD, Seal())
    deleted = members.apply(sealed, sealed.id + 1, NOW_MS)
    assert isinstance(deleted, Refused)
    assert deleted.final
    assert isinstance(deleted.error, NoneAppended)
    assert told(deleted.error.answers) == [NotFound, NotFound]


def test_the_limit_of_l0_segments_counts_members() -> None:
    members = tuple(Append(segment(new(5, n)), len(HEAD.l0) + 2) for n in range(4))
    verdict = AppendMany(members).apply(HEAD, HEAD.id + 1, NOW_MS)
    assert isinstance(verdict, Next)
    end = HEAD.next_offset
    assert told(verdict.result) == [range(end, end + 1), range(end + 1, end + 2), Full, Full]


def test_a_fenced_member_fails_nobody_else() -> None:
    fenced = Append(segment(new(5, 1)), L0_MAX, producer=ProducerStamp("p", EPOCHS["p"] - 1, 2))
    verdict = AppendMany((fenced, Append(segment(new(5, 2)), L0_MAX))).apply(HEAD, HEAD.id + 1, NOW_MS)
    assert isinstance(verdict, Next)
    assert told(verdict.result) == [Fenced, range(HEAD.next_offset, HEAD.next_offset + 1)]


def test_a_group_has_members_each_with_its_segment_and_not_too_many() -> None:
    many = tuple(Append(segment(new(5, n)), L0_MAX) for n in range(GROUP_MAX + 1))
    AppendMany(many[:-1])
    for wrong in ((), many, (many[0], many[0])):
        with pytest.raises(ValueError, match="1 to 256 members"):
            AppendMany(wrong)
