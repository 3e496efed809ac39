"""Cutting a job into key ranges of about one output each, from the row-group statistics of its sources. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from lithify.manifest.jobs import KeyRange
from lithify.segment.extent import shared_prefix
from lithify.segment.read import SegmentReader

__all__ = ["BOUNDARY_BYTES_MAX", "Weight", "row_group_weights", "split_ranges"]

BOUNDARY_BYTES_MAX = 64  # of a key between two ranges; any byte string can be a boundary


class Weight(msgspec.Struct, frozen=True):
    """So many bytes of Parquet lie between these keys. None: it is not known where."""

    min_key: bytes | None
    max_key: bytes | None
    weight_bytes: int


_DIGITS = 12  # bytes after the common prefix by which keys are told apart
_FRACTION_BITS = 8 * _DIGITS


def row_group_weights(reader: SegmentReader) -> list[Weight]:
    """Where a segment's bytes lie, by row group."""
    return [Weight(group.min_key, group.max_key, group.stored_bytes) for group in reader.row_groups]


def split_ranges(weights: Iterable[Weight], target_bytes: int) -> tuple[KeyRange, ...]:
    """Ranges that cover all keys, in key order, without overlap, of about equal weight, each about `target_bytes` or
    less. Weights are taken as spread evenly between their keys; their order does not matter.

    Any ranges are right; these are balanced as well as the statistics tell. Fewer come out where keys differ only
    beyond what a boundary holds.
    """
    known = [(w.min_key, w.max_key, w.weight_bytes) for w in weights if w.min_key is not None and w.max_key is not None]
    if not known:
        return (KeyRange(None, None),)
    stem = shared_prefix(min(low for low, _, _ in known), max(high for _, high, _ in known))[
        : BOUNDARY_BYTES_MAX - _DIGITS
    ]
    spans = [(_number(low, stem), _number(high, stem) + 1, weight) for low, high, weight in known]
    count = -(-sum(weight for _, _, weight in spans) // max(1, target_bytes))
    cuts = sorted({cut for cut in (_key(number, stem) for number in _even_cuts(spans, count)) if cut})
    lows: list[bytes | None] = [None, *cuts]
    highs: list[bytes | None] = [*cuts, None]
    return tuple(KeyRange(low, high) for low, high in zip(lows, highs, strict=True))


def _even_cuts(spans: list[tuple[int, int, int]], count: int) -> Iterator[int]:
    """Where `count` equal shares of all weight meet. Whole numbers throughout: the same on every machine."""
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


def _number(key: bytes, stem: bytes) -> int:
    return int.from_bytes(key[len(stem) : len(stem) + _DIGITS].ljust(_DIGITS, b"\0"), "big")


def _key(number: int, stem: bytes) -> bytes:
    return stem + number.to_bytes(_DIGITS, "big").rstrip(b"\0")
