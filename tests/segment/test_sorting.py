"""Sorting by key: the fast way by the first bytes and the general one agree with Python's own order of bytes."""

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lithify.segment.arrays import ByteStrings
from lithify.segment.sorting import repeats, stable_by_key

# Few different bytes, zeros among them: keys that differ only in zeros at their end, or beyond their eighth byte.
KEYS = st.one_of(
    st.binary(max_size=3),
    st.lists(st.sampled_from([b"\0", b"a", b"\xff"]), max_size=11).map(b"".join),
    st.sampled_from([b"account-99999999", b"account-100000000", b"account-999999990", b"account-99999999\0"]),
)


def column(keys: list[bytes | None], skipped: int) -> Any:
    """The keys as an Arrow column that does not begin at its buffers' beginning."""
    return pa.array([b"before"] * skipped + keys, pa.binary()).slice(skipped)


@given(keys=st.lists(st.none() | KEYS, min_size=1, max_size=30), skipped=st.integers(0, 9))
@example(keys=[b"a\0", b"a", b"a\0"], skipped=3)
@example(keys=[b"12345678", b"123456780", b"12345678"], skipped=0)
def test_stable_by_key(keys: list[bytes | None], skipped: int) -> None:
    given_keys = column(keys, skipped)
    expected = sorted(range(len(keys)), key=lambda row: (keys[row] is not None, keys[row] or b""))
    same = [keys[a] is not None and keys[a] == keys[b] for a, b in itertools.pairwise(expected)]
    whole = [key for key in keys if key is not None]
    known = [(min(whole), max(whole)), (b"", b"\xff" * 12)] if whole else []
    for extremes in (None, *known):
        indices, repeated = stable_by_key(given_keys, extremes)
        assert indices.tolist() == expected
        assert repeated.tolist() == [*same, False]
    assert repeats(given_keys.take(pa.array(expected))).tolist() == [*same, False]


@given(keys=st.lists(KEYS, max_size=10), skipped=st.integers(0, 3))
def test_bytes_of_a_column_as_a_sequence(keys: list[bytes], skipped: int) -> None:
    found = ByteStrings(column(list(keys), skipped))
    assert list(found) == keys
    assert found[::-1] == keys[::-1]
    assert all(found[-row] == keys[-row] for row in range(1, len(keys) + 1))
