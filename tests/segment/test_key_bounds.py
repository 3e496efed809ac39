"""Bounds of keys, cut and rounded outward: what they may hide from whoever compares them, and what they may not."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.invariants import manifest_problems
from lithify.manifest.model import FORMAT, KEY_BOUND_BYTES, Manifest, SortedRun
from lithify.segment.extent import are_bounds, key_bounds
from tests.refs import segment_ref

CUT = KEY_BOUND_BYTES
STEMS = st.lists(st.sampled_from([b"\0", b"a", b"\xfe", b"\xff"]), max_size=2).map(b"".join)
FILLED = st.tuples(STEMS, st.sampled_from([b"\0", b"a", b"\xff"]), st.sampled_from([0, CUT - 1, CUT, CUT + 1, 3 * CUT]))
KEYS = st.tuples(FILLED.map(lambda made: made[0].ljust(made[2], made[1])), STEMS).map(b"".join)
Bounds = tuple[bytes | None, bytes | None]


def as_first_written(smallest: bytes, largest: bytes) -> Bounds:
    """By the first writers: what was rounded up was not filled with zeros."""
    low, high = key_bounds(smallest, largest)
    return low, high.rstrip(b"\0") if high and len(largest) > CUT else high


def is_sorted(*bounds: Bounds) -> bool:
    segments = tuple(
        segment_ref(f"s{index}", first=index, min_key=low, max_key=high, added_at=1)
        for index, (low, high) in enumerate(bounds)
    )
    empty = Manifest(
        format=FORMAT,
        id=1,
        nonce="n",
        committed_at_ms=0,
        topic="t",
        topic_id="0",
        partition=0,
        next_offset=len(segments),
    )
    problems = manifest_problems(None, replace(empty, runs=(SortedRun(id="r", segments=segments),)))
    return not any("disjoint and in order" in problem for problem in problems)


@given(st.sets(KEYS, min_size=2, max_size=8), st.data())
def test_segments_in_order_are_never_refused(keys: set[bytes], data: Any) -> None:
    ordered = sorted(keys)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ordered) - 1))))
    pieces = [ordered[a:b] for a, b in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]
    assert is_sorted(*(key_bounds(piece[0], piece[-1]) for piece in pieces))
    assert is_sorted((None, None), *(key_bounds(piece[0], piece[-1]) for piece in pieces))


@given(KEYS, KEYS)
def test_what_the_first_writers_rounded_is_refused_where_it_looks_like_a_key_alone(one: bytes, other: bytes) -> None:
    low, high = sorted((one + b"\0", other))
    below, above = as_first_written(low, low), as_first_written(high, high)
    assert low == high or is_sorted(below, above) or below[1] == above[0]
    assert are_bounds(*below, low, low)


def test_a_short_key_that_ends_with_a_zero_was_not_rounded() -> None:
    high, low = b"\xff".ljust(CUT - 1, b"\0"), b"\xfe".ljust(CUT, b"\xff")
    assert not is_sorted(key_bounds(high, high), key_bounds(low, low))


@given(KEYS, KEYS)
def test_segments_out_of_order_are_refused(one: bytes, other: bytes) -> None:
    """Whenever the first bytes tell them apart, and a key of two segments whenever it is shorter than a bound. But a
    key as long as a bound may look rounded up, and a shorter one as rounded up by the first writers."""
    low, high = sorted((one, other))
    looks_rounded = len(high) == CUT or high == as_first_written(low, low[:CUT] + b"a")[1]
    if low[:CUT] != high[:CUT] and not looks_rounded:
        assert not is_sorted(key_bounds(high, high), key_bounds(low, low))
    if len(low) < CUT:
        assert not is_sorted(key_bounds(low, low), key_bounds(low, high))
    assert not is_sorted(key_bounds(low, high), (None, None))


@given(st.sets(KEYS, min_size=1), KEYS)
def test_bounds_are_those_of_their_keys_alone(keys: set[bytes], other: bytes) -> None:
    low, high = key_bounds(min(keys), max(keys))
    assert are_bounds(low, high, min(keys), max(keys))
    assert low is not None
    assert low <= min(keys)
    assert high is None or high >= max(keys)
    assert high is None or len(high) == CUT or high == max(keys)
    if other > max(keys) and len(other) <= CUT:
        assert not are_bounds(low, other, min(keys), max(keys)) or other == high or len(max(keys)) > CUT
