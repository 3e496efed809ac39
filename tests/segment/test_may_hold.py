"""May a segment hold something of a range? Never "no" of one that does; and "no" wherever its bounds tell."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import KEY_BOUND_BYTES
from lithify.segment.extent import key_bounds
from tests.segment.test_key_bounds import KEYS, as_first_written

ENDS = st.none() | KEYS | KEYS.map(lambda key: key[:KEY_BOUND_BYTES]) | KEYS.map(lambda key: key + b"\0")
OFFSETS = st.integers(0, 9)


class Reference(NamedTuple):
    min_key: bytes | None
    max_key: bytes | None
    min_offset: int
    max_offset: int


def within(key: bytes | None, offset: int, wanted: Bounds) -> bool:
    """The words of `Bounds`, for one record."""
    above = wanted.low is None or (key is not None and key >= wanted.low)
    below = wanted.high is None or key is None or key < wanted.high
    after = wanted.from_offset is None or offset >= wanted.from_offset
    before = wanted.to_offset is None or offset < wanted.to_offset
    return above and below and after and before


@given(
    records=st.lists(st.tuples(st.none() | KEYS, OFFSETS), min_size=1, max_size=4),
    wanted=st.builds(Bounds, ENDS, ENDS, st.none() | OFFSETS, st.none() | OFFSETS),
    as_at_first=st.booleans(),
)
@example([(b"\xff" * 33, 0)], Bounds(low=b"\xff" * 33), False)  # no bound above it
@example([(b"a" * 33, 0)], Bounds(low=b"a" * 33), False)  # rounded up
@example([(b"a" * 33, 0)], Bounds(high=b"a" * 33 + b"\0", low=b""), False)  # rounded down
@example([(b"", 0)], Bounds(low=b"", high=b"\0"), False)
@example([(None, 0)], Bounds(high=b""), False)
def test_what_holds_a_record_of_the_range_may_hold_it(
    records: list[tuple[bytes | None, int]], wanted: Bounds, as_at_first: bool
) -> None:
    keys = sorted(key for key, _ in records if key is not None)
    bounds: tuple[bytes | None, bytes | None] = (None, None)
    if keys:
        bounds = (as_first_written if as_at_first else key_bounds)(keys[0], keys[-1])
    offsets = [offset for _, offset in records]
    ref = Reference(*bounds, min(offsets), max(offsets))
    assert may_hold(ref, wanted) or not any(within(key, offset, wanted) for key, offset in records)


@given(
    keys=st.sets(KEYS.filter(lambda key: len(key) <= KEY_BOUND_BYTES), min_size=1, max_size=3),
    low=KEYS,
    high=st.none() | KEYS,
    offsets=st.tuples(OFFSETS, OFFSETS).map(sorted),
    start=OFFSETS,
    end=OFFSETS,
)
def test_what_lies_outside_by_its_bounds_may_not(
    keys: set[bytes], low: bytes, high: bytes | None, offsets: list[int], start: int, end: int
) -> None:
    """Keys no longer than a bound are known exactly."""
    ref = Reference(*key_bounds(min(keys), max(keys)), offsets[0], offsets[1])
    overlaps = max(keys) >= low and (high is None or min(keys) < high)
    assert may_hold(ref, Bounds(low, high)) == overlaps
    assert may_hold(ref, Bounds(from_offset=start, to_offset=end)) == (offsets[1] >= start and offsets[0] < end)
    assert may_hold(ref, Bounds.of_key(low)) == (min(keys) <= low <= max(keys))
    assert not may_hold(Reference(None, None, *offsets), Bounds(low, high))
