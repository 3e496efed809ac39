"""P6: an application that numbers its appends has each of them once, however often it is sent; and it is forgotten by
rule (docs/rfcs/0011)."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.codec import decode, encode
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import TRANSACTIONS_MAX, Manifest, Transaction
from lithify.manifest.transactions import EndTransaction, ForgetTransaction, Reach, TransactionStamp
from lithify.store.errors import AlreadyExists, InvalidRequest, LithifyError, Unavailable
from tests.protocol.scene import FIRST, L0_MAX, at, segment

WEEK_MS = 7 * 86_400_000
NOW_MS = 10 * WEEK_MS
FULL_AT = 5_000  # a manifest number


def entry(name: str, *, touched_at: int = 100, idle_ms: int = 0, ended: bool = False) -> Transaction:
    when = {"touched_at": touched_at, "touched_at_ms": NOW_MS - idle_ms}
    return Transaction(application=name, version=3, base_offset=0, rows=1, ended=ended, **when)


def full(*special: Transaction, floor: int = 0) -> Manifest:
    """Everybody else was here just now."""
    others = (entry(f"a{n}", touched_at=200 + n) for n in range(TRANSACTIONS_MAX - len(special)))
    return replace(at(FIRST, FULL_AT), transactions=(*special, *others), orphan_floor=floor)


def sent(application: str, version: int, **more: Any) -> Append:
    stamp = TransactionStamp(application, version, **more)
    return Append(segment(f"{FULL_AT:012}-{application}{version}", 2), L0_MAX, transaction=stamp)


def verdict(head: Manifest, edit: Any) -> Any:
    return edit.apply(head, head.id + 1, NOW_MS)


def then(head: Manifest, edit: Any) -> Manifest:
    found = verdict(head, edit)
    assert isinstance(found, Next), found
    return at(found.value, head.id + 1)


def refusal(head: Manifest, edit: Any) -> LithifyError:
    found = verdict(head, edit)
    assert isinstance(found, Refused), found
    return found.error


def names(head: Manifest) -> set[str]:
    return {known.application for known in head.transactions}


OLD = entry("old", idle_ms=WEEK_MS + 1)


def test_at_the_bound_the_one_idle_for_longest_gives_way() -> None:
    older = entry("older", touched_at=99, idle_ms=WEEK_MS + 1)
    head = then(full(OLD, older, floor=150), sent("new", 1))
    assert "older" not in names(head)
    assert {"new", "old"} <= names(head)
    assert len(head.transactions) == TRANSACTIONS_MAX


@pytest.mark.parametrize(
    ("young", "floor"),
    [(entry("young", idle_ms=WEEK_MS), 150), (OLD, 100), (OLD, 0), (entry("ahead", idle_ms=-WEEK_MS), 150)],
    ids=["not idle for long enough", "not below the orphan floor", "no collection yet", "its clock was ahead"],
)
def test_who_is_young_stays_and_the_newcomer_is_refused(young: Transaction, floor: int) -> None:
    told = refusal(full(young, floor=floor), sent("new", 1))
    assert isinstance(told, Unavailable)
    assert "lithify transaction forget t" in str(told)


def test_a_clock_that_was_far_ahead_keeps_no_other_from_giving_way() -> None:
    ahead = entry("ahead", touched_at=1, idle_ms=-100 * WEEK_MS)
    assert "old" not in names(then(full(ahead, OLD, floor=150), sent("new", 1)))


def test_the_time_is_the_topics() -> None:
    young = entry("young", idle_ms=1_001)
    edit = sent("new", 1)
    assert "young" not in names(then(full(young, floor=150), _with(edit, 1_000)))
    assert isinstance(refusal(full(young, floor=150), _with(edit, 1_001)), Unavailable)


def _with(edit: Append, expiration_ms: int) -> Append:
    return Append(edit.segment, L0_MAX, transaction=edit.transaction, expiration_ms=expiration_ms)


def test_whoever_is_known_goes_on_at_the_bound() -> None:
    assert len(then(full(), sent("a7", 4)).transactions) == TRANSACTIONS_MAX


def test_who_has_ended_gives_way_first() -> None:
    done = entry("done", touched_at=190, ended=True)
    assert "done" not in names(then(full(OLD, done, floor=150), sent("new", 1)))
    assert "done" not in names(then(full(done), sent("new", 1)))


def test_an_end_is_told_with_the_last_append_or_after_it() -> None:
    head = then(at(FIRST, FULL_AT), sent("a", 1, last=True))
    assert [known.ended for known in head.transactions] == [True]
    head = then(head, sent("a", 2))
    assert [known.ended for known in head.transactions] == [False]
    head = then(head, EndTransaction("a"))
    assert [known.ended for known in head.transactions] == [True]
    assert verdict(head, EndTransaction("a")) == verdict(head, EndTransaction("nobody")) == Already(None)


def test_who_was_forgotten_begins_anew() -> None:
    """What the documentation says of it: its records are appended again."""
    head = then(at(FIRST, FULL_AT), sent("a", 4))
    head = then(head, ForgetTransaction("a"))
    assert head.transactions == ()
    assert verdict(head, ForgetTransaction("a")) == Already(None)
    then(head, sent("a", 3))


def test_a_commit_says_when_it_was_and_an_entry_without_a_time_counts_from_the_next_append() -> None:
    undated = Transaction(application="old", version=1, base_offset=0, rows=1)
    assert b"touched" not in encode(replace(full(), transactions=(undated,)))
    head = then(full(undated, floor=FULL_AT), Append(segment(f"{FULL_AT:012}-x"), L0_MAX))
    known = head.transactions[0]
    assert (known.touched_at, known.touched_at_ms) == (FULL_AT + 1, NOW_MS)
    assert decode(Manifest, encode(head), "m", head.id) == head


def test_an_append_that_follows_another_version_than_the_latest_is_refused() -> None:
    """Process 1 sends rows 1 to 10 and stands still; process 2 looks, finds nothing, and cuts its batches elsewhere.
    Whichever comes first, the other's rows are not all missing any more."""
    head = at(FIRST, FULL_AT)
    late = then(head, sent("import", 10, previous=Reach()))
    for of_2 in (
        sent("import", 7, previous=Reach()),
        sent("import", 12, previous=Reach()),
        sent("import", 12, previous=Reach(7)),
    ):
        assert isinstance(refusal(late, of_2), AlreadyExists)
    then(late, sent("import", 12, previous=Reach(10)))
    head = then(head, sent("import", 7, previous=Reach()))  # or 2 comes first
    assert isinstance(refusal(head, sent("import", 10, previous=Reach())), AlreadyExists)
    then(head, sent("import", 12, previous=Reach(7)))


def test_the_same_version_of_another_call_is_not_taken_for_ones_own() -> None:
    """A rival began it elsewhere, perhaps: who sends it looks again, and counts what it finds as found."""
    edit = sent("import", 10, previous=Reach())
    head = then(at(FIRST, FULL_AT), edit)
    assert verdict(head, edit) == Already(range(2))
    again = Append(segment(f"{FULL_AT:012}-b", 2), L0_MAX, transaction=TransactionStamp("import", 10, Reach()))
    assert isinstance(refusal(head, again), AlreadyExists)


def test_one_that_follows_a_version_that_was_forgotten_is_refused() -> None:
    assert isinstance(refusal(at(FIRST, FULL_AT), sent("import", 12, previous=Reach(7))), InvalidRequest)
