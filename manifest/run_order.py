"""Whether the segments of a run are in order, as far as their bounds tell. Pure."""

from itertools import pairwise

from lithify.manifest.model import KEY_BOUND_BYTES, SegmentRef, SortedRun

__all__ = ["is_sorted"]


def is_sorted(run: SortedRun) -> bool:
    """Whether its segments are disjoint, and in the order of their keys or offsets. False for a run of none."""
    if not run.segments or len({s.order for s in run.segments}) != 1:
        return False
    if run.segments[0].order == "offset":
        return all(a.max_offset < b.min_offset for a, b in pairwise(run.segments))
    return all(_may_precede(a, b) for a, b in pairwise(run.segments))


def _may_precede(one: SegmentRef, other: SegmentRef) -> bool:
    """Whether all keys of `one` can be below all keys of `other`, judging by their bounds."""
    if other.min_key is None:
        return False  # records without a key, which come first
    if one.min_key is None:
        return True
    upper, lower = one.max_key, other.min_key
    if upper is not None and len(upper) < KEY_BOUND_BYTES:
        # The largest key itself; or a bound rounded up by the first writers, who did not pad it with zeros: then it
        # ends with the byte that was raised.
        rounded = not upper.endswith(b"\0") and len(lower) == KEY_BOUND_BYTES
        return upper < lower or (rounded and _cut_of(upper) == lower)
    return _cut_of(upper) <= lower


def _cut_of(upper: bytes | None) -> bytes:
    """The smallest possible first KEY_BOUND_BYTES of the largest key, given a bound that may be rounded up: then its
    last byte before the zeros was one less, followed by 0xff. None: all bytes were 0xff."""
    stem = b"" if upper is None else upper.rstrip(b"\0")
    if upper is not None and not stem:
        return upper
    lessened = stem and stem[:-1] + bytes([stem[-1] - 1])
    return lessened.ljust(KEY_BOUND_BYTES, b"\xff")
