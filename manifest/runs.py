"""References to segments, and the runs that they make. Pure: frozen structs, and what is computed of them once."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

__all__ = ["Key", "Runs", "SegmentRef", "SortedRun"]

T = TypeVar("T")

Key = bytes  # of a record; this name leaves `bytes` free to mean sizes


# A manifest holds thousands of references, so JSON has shorter names: 350 bytes each (docs/rfcs/0002). And the structs
# that it has thousands of are not tracked by Python's collector of cycles (gc=False), which would look at all of them
# again and again while they are made. They cannot be part of a cycle: they are frozen, and hold texts, numbers, and
# tuples of such.
_IN_JSON = {
    "home": "store",
    "raw_bytes": "raw",
    "min_timestamp_ms": "min_ts_ms",
    "max_timestamp_ms": "max_ts_ms",
    "min_horizon_ms": "horizon_ms",
    "max_horizon_ms": "last_horizon_ms",
    "checksum": "xxh3",
}


class SegmentRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename=_IN_JSON, gc=False):
    """One immutable Parquet object.

    `min_key` is ≤ every key and `max_key` ≥ every key: exact up to 32 bytes, rounded outward beyond (then `max_key` is
    padded with zeros to 32). None: unbounded; if both are None, there are no keyed records at all. In an L0 segment row
    r has offset `base_offset` + r's `offset_delta`; rows of runs carry their offsets, and there is no base offset.
    """

    id: str
    home: str = ""  # where its bytes are (lithify.manifest.homes); "" is the warehouse itself
    bytes: int  # of the Parquet object
    raw_bytes: int  # of its columns in memory, for planning
    max_row_bytes: int = 0  # of its largest row in memory, if larger than a usual row group; else 0
    rows: int
    min_key: Key | None = None
    max_key: Key | None = None
    base_offset: int | None = None
    min_offset: int
    max_offset: int  # inclusive
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int = 0
    min_horizon_ms: int | None = None  # earliest stamped tombstone horizon in it (R4)
    max_horizon_ms: int | None = None  # and the latest
    order: str = "key"  # "key": by (key, offset); "offset": by offset
    added_at: int = 0  # the manifest that made it live
    # When it was moved to its home, by that commit's clock. 0: it was written where it is, or by an earlier lithify.
    moved_ms: int = 0
    checksum: str  # XXH3-64 of the object's bytes, 16 hexadecimal digits


class SortedRun(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Segments with disjoint key ranges in key order (in offset-ordered topics: disjoint offsets, in offset order)."""

    id: str
    # Of all that was ever merged into it nothing lay below this offset. An older lithify that commits drops it: 0 says
    # that nothing is known, and costs no more than the compacted state until the next clean (docs/rfcs/0017).
    reaches_to: int = 0
    segments: tuple[SegmentRef, ...]


class Runs(tuple[SortedRun, ...]):
    """The runs of a manifest, and what every commit asks of them. Most commits leave the runs as they are, and the
    answers with them: so an append to a partition of 40,000 segments looks at none of these."""

    @classmethod
    def of(cls, runs: Iterable[SortedRun]) -> "Runs":
        return runs if isinstance(runs, cls) else cls(runs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Runs, (tuple(self),)

    def kept(self, compute: Callable[["Runs"], T]) -> T:
        """What `compute` makes of these runs, and of nothing else; computed once."""
        known: dict[Any, Any] = self.__dict__.setdefault("_kept", {})
        if compute not in known:
            known[compute] = compute(self)
        return known[compute]

    @cached_property
    def segments(self) -> tuple[SegmentRef, ...]:
        """In their order: the first run's, then the second's."""
        return tuple(segment for run in self for segment in run.segments)

    def after(self, count: int) -> tuple[SortedRun, ...]:
        """Without the first `count` segments."""
        left = len(self.segments) - count
        found: list[SortedRun] = []
        for run in reversed(self):
            if left <= 0:
                break
            found.append(run if len(run.segments) <= left else replace(run, segments=run.segments[-left:]))
            left -= len(run.segments)
        return tuple(reversed(found))

    @cached_property
    def ids(self) -> frozenset[str]:
        """Of the segments."""
        return frozenset(segment.id for segment in self.segments)

    @cached_property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @cached_property
    def homes(self) -> frozenset[str]:
        return frozenset(segment.home for segment in self.segments)

    def bytes_from(self, starts: Sequence[int]) -> list[int]:
        """For each offset of `starts`, the bytes of the segments with records at or after it."""
        ends, sums = self._bytes_by_end
        return [sums[-1] - sums[bisect_left(ends, start)] for start in starts]

    @cached_property
    def _bytes_by_end(self) -> tuple[list[int], list[int]]:
        """The largest offsets of the segments, in order; and the bytes of the first 0, 1, 2 … of them."""
        by_end = sorted((segment.max_offset, segment.bytes) for segment in self.segments)
        return [end for end, _ in by_end], list(accumulate((size for _, size in by_end), initial=0))
