"""Fetches the parts of segments that point reads need, many at once, and keeps them in the cache (docs/rfcs/0025).

Parts are kept under the key of their object: objects never change, so a part is never out of date. Memory: one wave of
fetches, decoded, beside the cache.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from lithify.manifest.homes import in_warehouse, where
from lithify.manifest.model import SegmentRef
from lithify.segment.cold_reads import ColdReads
from lithify.segment.footer import TAIL_BYTES, footer_in, footer_length
from lithify.segment.page_index import RowGroupIndex
from lithify.segment.point_parts import WHOLE, Rows, SegmentMap, Span
from lithify.segment.room import WAVE_RAW_BYTES, Room
from lithify.segment.segments import Segments
from lithify.store.cache import Cache
from lithify.store.errors import RESTORE, Corrupt, NotFound

__all__ = ["Need", "Parts"]

T = TypeVar("T")
Name = tuple[Any, ...]  # home and key of the object, the row group, the stripe
Made = tuple[Name, Any, int]  # a part with its name and about its size in memory

WAVE_BYTES = 16 << 20  # fetched at once, as they are stored (as they are in memory: WAVE_RAW_BYTES)
WAVE_PARTS = 256
INDEX_BYTES = 4 << 20  # of neighbouring row groups, fetched together
GAP_BYTES_MAX = 64 << 10  # between two spans: below that, one request for both is faster than two
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """A part that has to be fetched."""

    name: Name
    ref: SegmentRef
    spans: list[Span]
    raw_bytes: int  # about what it takes in memory
    make: Callable[[list[bytes]], list[Made]]  # of the bytes of the spans; it raises what _BROKEN lists
    whole: Callable[[], "Need"] | None = None  # the whole row group, if this is one stripe of it
    share: float = 1  # of the row group that this is


class Parts:
    """What is known of segments: from the cache, and from the last wave of fetches. For one thread. `room`: shared with
    those of other partitions; a wave holds its place there until the next one, or until `close`."""

    def __init__(
        self, segments: Segments, cache: Cache, cold_reads: ColdReads | None = None, room: Room | None = None
    ) -> None:
        self._segments = segments
        self._cache = cache
        self._cold_reads = cold_reads
        self._room = room
        self._held_bytes = 0  # in the room
        self._fetched: dict[Name, Any] = {}
        self._needs: dict[Name, Need] = {}  # since the last wave
        self._maps: dict[str, SegmentMap] = {}  # kept here even if the cache drops them: looks use them
        self._indexes: dict[Name, RowGroupIndex] = {}  # likewise
        self._last: tuple[Name, Rows | None] = ((), None)  # neighbouring keys ask for the same rows
        self._absent: set[Name] = set()  # what the cache did not have since the last wave

    def map(self, ref: SegmentRef) -> SegmentMap | Need:
        found = self._maps.get(ref.id)
        if found is not None:
            return found
        name = where(self._segments.keys, ref)
        found = self._known(name)
        if found is not None:
            self._maps[ref.id] = found
            return found
        length = min(ref.bytes, TAIL_BYTES)
        raw_bytes = ref.raw_bytes if length == ref.bytes else length  # a small one comes with its rows
        return self._need(
            name, lambda: Need(name, ref, [(ref.bytes - length, length)], raw_bytes, partial(self._made_map, name, ref))
        )

    def index(self, ref: SegmentRef, segment: SegmentMap, group: int) -> RowGroupIndex | Need | None:
        """None: the row group has none. Those of its neighbours are fetched with it, and decoded when they are used."""
        name = (*segment.name, group)
        found = self._indexes.get(name)
        if found is not None:
            return found
        stored = self._known(name)
        if stored is None:
            if not segment.index_spans(group):
                return None
            groups = segment.index_window(group, INDEX_BYTES)
            return self._need((*segment.name, "indexes", groups[0]), lambda: self._index_need(ref, segment, groups))
        if isinstance(stored, RowGroupIndex):
            found = stored
        else:
            found = self._guarded(ref, lambda: segment.index(group, stored))
            self._cache.put(name, found, found.bytes)
        self._indexes[name] = found
        return found

    def _index_need(self, ref: SegmentRef, segment: SegmentMap, groups: Sequence[int]) -> Need:
        spans = {group: segment.index_spans(group) or [] for group in groups}

        def make(contents: list[bytes]) -> list[Made]:
            rest = iter(contents)
            parts = {group: [next(rest) for _ in mine] for group, mine in spans.items()}
            return [((*segment.name, group), mine, sum(map(len, mine))) for group, mine in parts.items()]

        name = (*segment.name, "indexes", groups[0])
        every = [span for mine in spans.values() for span in mine]
        return Need(name, ref, every, sum(length for _, length in every), make)

    def known_rows(self, segment: SegmentMap, group: int, stripe: int) -> Rows | None:
        return self._known_rows((*segment.name, group, stripe))

    def _known_rows(self, name: Name) -> Rows | None:
        if name == self._last[0]:
            return self._last[1]
        if name in self._absent:
            return None
        found = self._known(name)
        if found is None:
            self._absent.add(name)
        else:
            self._last = name, found
        return found

    def rows(
        self, ref: SegmentRef, segment: SegmentMap, group: int, stripe: int, index: RowGroupIndex | None
    ) -> Rows | Need:
        name = (*segment.name, group, stripe)
        found = self._known_rows(name)
        if found is not None:
            return found
        return self._need(name, lambda: self._rows(name, ref, segment, group, stripe, index))

    def _rows(
        self, name: Name, ref: SegmentRef, segment: SegmentMap, group: int, stripe: int, index: RowGroupIndex | None
    ) -> Need:
        def make(contents: list[bytes]) -> list[Made]:
            rows = segment.rows(group, stripe, index, contents)
            return [(name, rows, rows.bytes)]

        spans, raw_bytes = segment.stripe_spans(group, stripe, index), segment.row_groups[group].raw_bytes
        if index is None or stripe == WHOLE:
            return Need(name, ref, spans, raw_bytes, make)
        share = 1 / len(index.stripes)
        return Need(name, ref, spans, int(raw_bytes * share), make, self._whole(ref, segment, group), share)

    def _whole(self, ref: SegmentRef, segment: SegmentMap, group: int) -> Callable[[], Need]:
        return partial(self._rows, (*segment.name, group, WHOLE), ref, segment, group, WHOLE, None)

    def _need(self, name: Name, make: Callable[[], Need]) -> Need:
        """The same one for all looks."""
        found = self._needs.get(name)
        if found is None:
            found = self._needs[name] = make()
        return found

    def fetch(self, needs: Iterable[Need]) -> None:
        """Fetch some of these together, at least one, in place of the last wave. Whoever needs the others asks for them
        again. Raises NotFound, Corrupt, Unavailable, InvalidRequest for a segment that cannot be reached."""
        self.close()
        self._needs, self._absent = {}, set()
        wave = list(_wave(_merged(needs), 1 if self._room is None else self._room.partitions))
        if self._room is not None and wave:
            size = sum(need.raw_bytes for need in wave)
            self._room.take(size)
            self._held_bytes = size
        asked = [(need, _joined(need.spans)) for need in wave]
        contents = iter(self._contents([(need.ref, span) for need, spans in asked for span in spans]))
        for need, spans in asked:
            bodies = [(start, next(contents)) for start, _ in spans]
            pieces = [_piece(bodies, span) for span in need.spans]
            for name, part, size in self._guarded(need.ref, partial(need.make, pieces)):
                self._fetched[name] = part
                self._cache.put(name, part, size)

    def close(self) -> None:
        """Nothing of the last wave is needed any more."""
        self._fetched = {}
        self._last = (), None
        if self._room is not None and self._held_bytes:
            size, self._held_bytes = self._held_bytes, 0
            self._room.give(size)

    def _known(self, name: Name) -> Any:
        found = self._fetched.get(name)
        return self._cache.get(name) if found is None else found

    def _made_map(self, name: tuple[str, str], ref: SegmentRef, contents: list[bytes]) -> list[Made]:
        """The map; and the rows of a small segment, whose end is all of it."""
        (tail,) = contents
        length = footer_length(tail, ref.bytes)
        if length > len(tail):
            tail = self._read(ref, (ref.bytes - length, length))
        segment = SegmentMap(name, ref, footer_in(tail, length))
        made: list[Made] = [(name, segment, segment.bytes)]
        if len(tail) == ref.bytes and len(segment.row_groups) == 1:
            start, size = segment.stripe_spans(0, WHOLE, None)[0]
            rows = segment.rows(0, WHOLE, None, [tail[start : start + size]])
            made.append(((*name, 0, WHOLE), rows, rows.bytes))
        return made

    def _guarded(self, ref: SegmentRef, make: Callable[[], T]) -> T:
        try:
            return make()
        except _BROKEN as error:
            what = str(error) if type(error) is ValueError else f"it cannot be decoded ({type(error).__name__})"
            store, key = self._segments.find(ref)
            store.distrust(key)
            raise Corrupt(
                f"segment {key}: {what}. {RESTORE}",
                key,
                ref.id,
            ) from None

    def _contents(self, reads: Sequence[tuple[SegmentRef, Span]]) -> list[bytes]:
        """SUBTLE! Each home's reads wait in threads of that home: 1. Many gets read from a slow home, in all threads of
        the warehouse's store. 2. A get of what is hot finds none, and makes its reads one after the other. Test:
        tests/segment/test_parts_of_homes.py"""
        by_home: dict[str, list[int]] = {}
        for number, (ref, _) in enumerate(reads):
            by_home.setdefault(self._segments.place(ref).home, []).append(number)
        found: dict[int, bytes] = {}
        for home, numbers in by_home.items():
            calls = [partial(self._read, *reads[number]) for number in numbers]
            outcomes = self._segments.homes.store(home).side_by_side(calls)
            for number, outcome in zip(numbers, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    raise outcome
                found[number] = outcome
        return [found[number] for number in range(len(reads))]

    def _read(self, ref: SegmentRef, span: Span) -> bytes:
        store, key = self._segments.find(ref)
        if self._cold_reads is not None and not in_warehouse(ref):
            self._cold_reads.add(ref.id)
        try:
            return store.read(key, *span)
        except (NotFound, Corrupt) as error:
            error.segment = ref.id  # a store knows only keys
            raise


def _merged(needs: Iterable[Need]) -> list[Need]:
    """A row group of which more than half is needed is read whole: that is one request and one decoding."""
    given, shares = list(needs), dict[Name, float]()
    for need in given:
        if need.whole is not None:
            shares[need.name[:3]] = shares.get(need.name[:3], 0) + need.share
    left: dict[Name, Need] = {}
    for need in given:
        if need.whole is not None and need.share < 0.5 < shares[need.name[:3]]:
            whole = (*need.name[:3], WHOLE)
            if whole not in left:
                left[whole] = need.whole()
        else:
            left[need.name] = need
    return list(left.values())


def _wave(needs: Iterable[Need], among: int) -> Iterator[Need]:
    """The first of `needs` that are fetched together, at least one, where `among` partitions are asked at once.

    SUBTLE! What is 64 KiB in the store may be many megabytes of like values in memory: their sum counts, too. Test:
    tests/segment/test_points.py"""
    size = raw = 0
    for number, need in enumerate(needs):
        size += sum(length for _, length in need.spans)
        raw += need.raw_bytes
        if number and (size > WAVE_BYTES // among or raw > WAVE_RAW_BYTES // among or number >= WAVE_PARTS):
            return
        yield need


def _joined(spans: Iterable[Span]) -> list[Span]:
    """What to ask for: neighbours together."""
    asked: list[Span] = []
    for start, length in sorted(spans):
        if asked and start - sum(asked[-1]) <= GAP_BYTES_MAX:
            first = asked[-1][0]
            asked[-1] = first, max(sum(asked[-1]), start + length) - first
        else:
            asked.append((start, length))
    return asked


def _piece(bodies: Iterable[tuple[int, bytes]], span: Span) -> bytes:
    start, length = span
    first, body = max(found for found in bodies if found[0] <= start)
    return body[start - first :][:length]
