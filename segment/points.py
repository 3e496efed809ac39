"""The latest records of some keys, by reading little more than these (docs/rfcs/0025).

Each key is looked for in each segment that may hold it. Such a look goes from part to part: the segment's map, the
indexes of a row group, the rows. What the looks need next is fetched together (lithify.segment.parts).
"""

from collections.abc import Iterable
from contextlib import closing

from lithify.manifest.homes import in_warehouse
from lithify.manifest.model import Manifest, SegmentRef
from lithify.segment.cold_reads import ColdReads
from lithify.segment.key_filter import key_hash
from lithify.segment.key_map import KeyMap
from lithify.segment.page_index import RowGroupIndex
from lithify.segment.parts import Need, Parts
from lithify.segment.point_parts import WHOLE, Row, Rows, SegmentMap
from lithify.segment.room import LOOKS_MAX, Room
from lithify.segment.segments import Segments
from lithify.store.cache import Cache

__all__ = ["Elsewhere", "Points"]


class Elsewhere(Exception):
    """An answer takes a segment of another home than the warehouse."""


class Points:
    """Point reads of one manifest. Thread-safe."""

    def __init__(self, segments: Segments, cache: Cache, manifest: Manifest) -> None:
        self.manifest = manifest
        self._segments = segments
        self._cache = cache
        self._key_map = KeyMap(manifest)

    def latest(
        self,
        keys: Iterable[bytes],
        floor: int,
        *,
        here_only: bool = False,
        cold_reads: ColdReads | None = None,
        room: Room | None = None,
    ) -> dict[bytes, Row]:
        """The record with the highest offset ≥ `floor` of each key (possibly a tombstone); keys without one are left
        out. Raises InvalidRequest for a segment that cannot be reached, NotFound, Corrupt, Unavailable; Elsewhere if
        only the warehouse may be asked (`here_only`) and that is not enough. `cold_reads` counts the segments that are
        read elsewhere. `room`: other partitions are asked at the same time, and share it."""
        looks_max = LOOKS_MAX if room is None else max(LOOKS_MAX // room.partitions, 1)
        found: dict[bytes, Row] = {}
        looks: list[_Look] = []
        for key in keys:
            looks.extend(_Look(key, ref) for ref in self._key_map.candidates(key, floor))
            if len(looks) >= looks_max:
                self._look(looks, floor, found, cold_reads, here_only=here_only, room=room)
                looks = []
        self._look(looks, floor, found, cold_reads, here_only=here_only, room=room)
        return found

    def _look(
        self,
        looks: list["_Look"],
        floor: int,
        found: dict[bytes, Row],
        cold_reads: ColdReads | None,
        *,
        here_only: bool,
        room: Room | None,
    ) -> None:
        """First in the warehouse: what is found there may be newer than all that another home has, which is then not
        asked at all. So such a get is neither slow nor fails with that home."""
        self._look_at([look for look in looks if in_warehouse(look.ref)], floor, found, None, room)
        elsewhere = [look for look in looks if not in_warehouse(look.ref) and not look.is_older_than(found)]
        if here_only and elsewhere:
            raise Elsewhere
        self._look_at(elsewhere, floor, found, cold_reads, room)

    def _look_at(
        self,
        looks: list["_Look"],
        floor: int,
        found: dict[bytes, Row],
        cold_reads: ColdReads | None,
        room: Room | None,
    ) -> None:
        """SUBTLE! Looks may end in any order: a segment whose newest record is older than what was found is not looked
        at, all others are, and the highest offset counts (R1). Test: tests/segment/test_points.py"""
        with closing(Parts(self._segments, self._cache, cold_reads, room)) as parts:
            while looks:
                needs: dict[Need, None] = {}  # in order: a simulated history is the same in every process
                waiting: list[_Look] = []
                for look in looks:
                    if look.is_older_than(found):
                        continue
                    best = found.get(look.key)
                    row = look.go_on(parts)
                    if isinstance(row, Need):
                        needs[row] = None
                        waiting.append(look)
                    elif row is not None and row.offset >= floor and (best is None or row.offset > best.offset):
                        found[look.key] = row
                parts.fetch(needs)
                looks = waiting


class _Look:
    """One key in one segment."""

    __slots__ = ("_groups", "_hash", "_index", "_map", "_stripes", "key", "ref")

    def __init__(self, key: bytes, ref: SegmentRef) -> None:
        self.key = key
        self.ref = ref
        self._hash: int | None = None
        self._map: SegmentMap | None = None
        self._groups: list[int] = []  # row groups left to look at, the next one last
        self._index: RowGroupIndex | None = None  # of the next row group
        self._stripes: list[int] | None = None  # of that row group, left to look at, the next one last

    def is_older_than(self, found: dict[bytes, Row]) -> bool:
        """Whether the segment's newest record is older than what was found of the key."""
        best = found.get(self.key)
        return best is not None and self.ref.max_offset <= best.offset

    def go_on(self, parts: Parts) -> Row | Need | None:
        """The last record of the key in the segment; None: it has none; or what has to be fetched first."""
        if self._map is None:
            found = parts.map(self.ref)
            if isinstance(found, Need):
                return found
            self._map, self._groups = found, list(reversed(found.near(self.key)))
        while self._groups:
            outcome = self._in_group(parts, self._map, self._groups[-1])
            if outcome is not None:
                return outcome
            self._groups.pop()
            self._index = self._stripes = None
        return None

    def _in_group(self, parts: Parts, segment: SegmentMap, group: int) -> Row | Need | None:
        rows = parts.known_rows(segment, group, WHOLE)
        if rows is not None:
            return self._among(rows)
        if self._stripes is None:
            index = parts.index(self.ref, segment, group)
            if isinstance(index, Need):
                return index
            if index is not None and index.filter is not None and not index.filter.may_have(self._hashed()):
                return None
            self._index, self._stripes = index, list(reversed(segment.stripes_near(self.key, index)))
        while self._stripes:
            found = parts.rows(self.ref, segment, group, self._stripes[-1], self._index)
            if isinstance(found, Need):
                return found
            row = self._among(found)
            if row is not None:
                return row
            self._stripes.pop()
        return None

    def _hashed(self) -> int:
        if self._hash is None:
            self._hash = key_hash(self.key)
        return self._hash

    def _among(self, rows: Rows) -> Row | None:
        at = rows.last_of(self.key)
        return None if at is None else rows.row(at, self.ref.base_offset or 0)
