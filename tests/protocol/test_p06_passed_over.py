"""P6: of an application whose appends follow one another, the partition knows which versions are in, and which were
passed over (docs/rfcs/0011)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.codec import decode, encode
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.invariants import check_manifest
from lithify.manifest.model import PASSED_OVER_MAX, Manifest, Stretch, Transaction
from lithify.manifest.transactions import EndTransaction, Reach, TransactionStamp, reach_of
from lithify.store.errors import AlreadyExists, Corrupt, InvalidRequest
from tests.protocol.scene import FIRST, L0_MAX, at, segment

NOW_MS = 1_760_000_000_000


def sent(head: Manifest, first: int, version: int, previous: Reach | None = None) -> Append:
    """By who has just looked, or who knows `previous`."""
    known = reach_of(head.transactions[0]) if head.transactions else Reach()
    stamp = TransactionStamp("import", version, known if previous is None else previous, first=first)
    return Append(segment(f"{head.id:012}-{first}x{version}", 2), L0_MAX, transaction=stamp)


def then(head: Manifest, edit: Any) -> Manifest:
    found = edit.apply(head, head.id + 1, NOW_MS)
    assert isinstance(found, Next), found
    return replace(at(found.value, head.id + 1), l0=())


def passed_over(head: Manifest) -> list[tuple[int, int]]:
    (entry,) = head.transactions
    return [(each.first, each.last) for each in entry.passed_over]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), max_size=12))
def test_what_was_sent_is_known_number_by_number(sends: list[tuple[int, int]]) -> None:
    reach, there = Reach(), set[int]()
    for first, more in sends:
        reach = reach.after(first, first + more)
        there |= {*range(first, first + more + 1)}
        missing = {n for each in reach.passed_over for n in range(each.first, each.last + 1)}
        assert there == {*range(1, reach.version + 1)} - missing
        bare = [end for each in reach.passed_over for end in (each.first, each.last + 1)]
        assert bare == sorted(set(bare))
        assert all(end <= reach.version for end in bare)


def test_what_was_passed_over_is_noted_and_can_be_sent() -> None:
    head = then(at(FIRST, 5), sent(FIRST, 11, 15))
    assert passed_over(head) == [(1, 10)]
    head = then(head, sent(head, 18, 20))
    assert passed_over(head) == [(1, 10), (16, 17)]
    head = then(head, sent(head, 4, 6))
    assert passed_over(head) == [(1, 3), (7, 10), (16, 17)]
    head = then(head, sent(head, 1, 20))
    assert passed_over(head) == []
    assert head.transactions[0].version == 20


def test_who_goes_by_what_was_passed_over_before_is_refused() -> None:
    """Two begin to send it, and the second would send it twice."""
    head = then(at(FIRST, 5), sent(FIRST, 11, 15))
    other = sent(head, 1, 8)
    head = then(head, sent(head, 1, 6))
    verdict = other.apply(head, head.id + 1, NOW_MS)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, AlreadyExists)


def test_an_append_that_brings_nothing_more_is_refused() -> None:
    head = then(at(FIRST, 5), sent(FIRST, 11, 15))
    verdict = sent(head, 12, 14).apply(head, head.id + 1, NOW_MS)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, AlreadyExists)


def test_who_lets_gaps_be_passes_over_nothing() -> None:
    head = then(at(FIRST, 5), Append(segment(f"{5:012}-a"), L0_MAX, transaction=TransactionStamp("stream", 7)))
    head = then(head, Append(segment(f"{6:012}-b"), L0_MAX, transaction=TransactionStamp("stream", 9)))
    assert passed_over(head) == []


def test_at_the_bound_what_was_passed_over_comes_first() -> None:
    head = at(FIRST, 5)
    for version in range(2, 2 * PASSED_OVER_MAX + 1, 2):
        head = then(head, sent(head, version, version))
    verdict = sent(head, 99, 100).apply(head, head.id + 1, NOW_MS)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidRequest)
    then(head, sent(head, 2 * PASSED_OVER_MAX + 1, 100))
    head = then(head, sent(head, 3, 3))
    assert len(passed_over(then(head, sent(head, 99, 100)))) == PASSED_OVER_MAX


def test_an_end_holds_where_nobody_went_on() -> None:
    head = then(at(FIRST, 5), sent(FIRST, 11, 15))
    late = EndTransaction("import", reach_of(head.transactions[0]))
    assert then(head, late).transactions[0].ended
    head = then(head, sent(head, 1, 6))
    assert late.apply(head, head.id + 1, NOW_MS) == Already(None)
    assert then(head, EndTransaction("import")).transactions[0].ended


def with_stretches(*stretches: Stretch) -> Manifest:
    entry = Transaction(application="a", version=20, base_offset=0, rows=1, passed_over=stretches)
    return replace(at(FIRST, 1), transactions=(entry,))


def test_it_is_kept_as_it_was_written() -> None:
    head = with_stretches(Stretch(1, 3), Stretch(5, 19))
    check_manifest(None, head)
    assert b'"passed_over":[[1,3],[5,19]]' in encode(head)
    assert decode(Manifest, encode(head), "m", head.id) == head


@pytest.mark.parametrize(
    "stretches",
    [
        (Stretch(0, 3),),
        (Stretch(3, 2),),
        (Stretch(1, 3), Stretch(4, 5)),
        (Stretch(5, 6), Stretch(1, 2)),
        (Stretch(1, 20),),
    ],
    ids=str,
)
def test_stretches_that_cannot_be_are_not_written(stretches: tuple[Stretch, ...]) -> None:
    with pytest.raises(Corrupt, match="separate stretches below its version"):
        check_manifest(None, with_stretches(*stretches))


def test_more_of_them_than_the_bound_are_not_written() -> None:
    with pytest.raises(Corrupt, match="at most 16 stretches"):
        check_manifest(None, with_stretches(*(Stretch(n, n) for n in range(1, 35, 2))))
