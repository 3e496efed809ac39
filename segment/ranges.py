"""Cut a job into key ranges of about one output each, by the row-group statistics of its sources. Pure."""

import bisect
import itertools
from collections.abc import Iterable, Iterator

import msgspec

from lithify.manifest.jobs import KeyRange
from lithify.manifest.model import SegmentRef
from lithify.segment.extent import shared_prefix
from lithify.segment.read import SegmentReader

__all__ = ["BOUNDARY_BYTES_MAX", "Weight", "row_group_weights", "split_ranges"]

BOUNDARY_BYTES_MAX = 64  # of the key between two ranges; any byte string can be a boundary


class Weight(msgspec.Struct, frozen=True):
    """So many bytes of Parquet lie between these keys. None: their place is unknown."""

    min_key: bytes | None
    max_key: bytes | None
    weight_bytes: int

    @staticmethod
    def of(ref: SegmentRef) -> "Weight":
        """A whole segment, by its reference alone: coarser than its row groups, and costs no request. Of bounds that
        are cut, or absent, only the balance of ranges suffers."""
        return Weight(ref.min_key, ref.max_key, ref.bytes)


_TWICE_SHARE = 1 / 8  # of the bytes that may be read twice,
_TWICE_BYTES_MIN = 32 << 20  # but this much always may: about a tenth of a second's work
_DIGITS = 12  # bytes after the common prefix that distinguish keys
_FRACTION_BITS = 8 * _DIGITS
_CLASSES = (b"0123456789", b"abcdef", b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def row_group_weights(reader: SegmentReader) -> list[Weight]:
    """Where a segment's bytes lie, by row group."""
    return [Weight(group.min_key, group.max_key, group.stored_bytes) for group in reader.row_groups]


def split_ranges(
    weights: Iterable[Weight], target_bytes: int, *, twice_share: float = _TWICE_SHARE, free: int = 1
) -> tuple[KeyRange, ...]:
    """Ranges that cover all keys, in key order, without overlap, of about equal weight, each of about `target_bytes` or
    less. Each weight is taken as spread evenly between its keys; their order does not matter.

    Any ranges are correct; these are as balanced as the statistics allow. Both sides of a cut read and decode the row
    groups that it divides. If that is more than `twice_share` of everything (and more than 32 MiB), the number of
    ranges is halved, again if needed, down to `free`. There are also fewer if keys differ only beyond the length of a
    boundary.
    """
    known = [(w.min_key, w.max_key, w.weight_bytes) for w in weights if w.min_key is not None and w.max_key is not None]
    if not known:
        return (KeyRange(None, None),)
    stem = shared_prefix(min(low for low, _, _ in known), max(high for _, high, _ in known))[
        : BOUNDARY_BYTES_MAX - _DIGITS
    ]
    scale = _Scale(stem, (key for low, high, _ in known for key in (low, high)))
    spans = [(scale.number(low), scale.number(high) + 1, weight) for low, high, weight in known]
    total = sum(weight for _, _, weight in spans)
    twice_max = max(int(total * twice_share), _TWICE_BYTES_MIN)
    count = -(-total // max(1, target_bytes))
    cuts = _cuts(spans, scale, count)
    while len(cuts) >= free and _read_twice(spans, map(scale.number, cuts)) > twice_max:
        count = max(-(-count // 2), free)
        cuts = _cuts(spans, scale, count)
    lows: list[bytes | None] = [None, *cuts]
    highs: list[bytes | None] = [*cuts, None]
    return tuple(KeyRange(low, high) for low, high in zip(lows, highs, strict=True))


def _read_twice(spans: list[tuple[int, int, int]], cuts: Iterable[int]) -> int:
    """The total weight of the spans that the cuts divide."""
    begun = _Sums((low, weight) for low, _, weight in spans)
    ended = _Sums((high, weight) for _, high, weight in spans)
    return sum(begun.below(cut) - ended.below(cut + 1) for cut in cuts)


class _Sums:
    """The total weight below a number."""

    def __init__(self, weights: Iterable[tuple[int, int]]) -> None:
        found = sorted(weights)
        self._numbers = [number for number, _ in found]
        self._sums = list(itertools.accumulate((weight for _, weight in found), initial=0))

    def below(self, number: int) -> int:
        return self._sums[bisect.bisect_left(self._numbers, number)]


def _cuts(spans: list[tuple[int, int, int]], scale: "_Scale", count: int) -> list[bytes]:
    return sorted({cut for cut in (scale.key(number) for number in _even_cuts(spans, count)) if cut})


def _even_cuts(spans: list[tuple[int, int, int]], count: int) -> Iterator[int]:
    """Where `count` equal shares of the weight meet. Integers throughout: the same result on every machine."""
    slopes: dict[int, int] = {}
    total = 0
    for low, high, weight in spans:
        slope = (weight << _FRACTION_BITS) // (high - low)
        slopes[low] = slopes.get(low, 0) + slope
        slopes[high] = slopes.get(high, 0) - slope
        total += slope * (high - low)
    at = before = slope = 0
    share = 1
    for point in sorted(slopes):
        here = before + slope * (point - at)
        while share < count and slope and total * share // count <= here:
            yield at + (total * share // count - before) // slope
            share += 1
        at, before, slope = point, here, slope + slopes[point]


class _Scale:
    """Maps keys to integers of the same order. Digits are ranks in the alphabet that the keys seem to use, so that
    decimal, hexadecimal and textual keys are spread as evenly as arbitrary bytes."""

    def __init__(self, stem: bytes, keys: Iterable[bytes]) -> None:
        seen = {byte for key in keys for byte in key[len(stem) : len(stem) + _DIGITS]}
        for letters in _CLASSES:
            seen |= set(letters) if _fits(seen, letters) else set()
        self._alphabet = bytes(range(256)) if len(seen) > 128 else bytes(sorted(seen))
        self._stem = stem

    def number(self, key: bytes) -> int:
        total, base = 0, len(self._alphabet) + 1
        tail = key[len(self._stem) : len(self._stem) + _DIGITS]
        for byte in tail:
            total = total * base + bisect.bisect_left(self._alphabet, byte) + 1
        return total * base ** (_DIGITS - len(tail))

    def key(self, number: int) -> bytes:
        base = len(self._alphabet) + 1
        ranks = [number // base ** (_DIGITS - 1 - i) % base for i in range(_DIGITS)]
        end = ranks.index(0) if 0 in ranks else _DIGITS
        return self._stem + bytes(self._alphabet[rank - 1] for rank in ranks[:end])


def _fits(seen: set[int], letters: bytes) -> bool:
    """Whether keys with these bytes seem to use `letters`, among others. Hexadecimal letters do not imply the whole
    alphabet."""
    inside = seen & set(letters)
    return bool(inside) and (letters != _CLASSES[2] or not inside <= set(_CLASSES[1]))
