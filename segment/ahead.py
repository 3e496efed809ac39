"""Read ahead: the next fetches of every source are under way while the current ones are decoded (docs/rfcs/0028).

Everything is decided in the thread that consumes: the threads of `store/fetching.py` only make requests. So a segment
is opened, and an error raised, where it would be without reading ahead. Segments of a store that is not far are read at
their turn, as without reading ahead.
"""

import heapq
import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import SegmentRef
from lithify.segment.footer import TAIL_BYTES
from lithify.segment.read import OpenSegment, SegmentReader, Span
from lithify.store.fetching import Fetch, Landings

__all__ = ["AHEAD_BYTES_MAX", "EARLY_BYTES_MAX", "Lane", "ReadAhead"]

AHEAD_BYTES_MAX = 24 << 20  # requested and not yet taken, of all sources together
_OPENED_MAX = 32  # segments of one source
EARLY_BYTES_MAX = 3 << 20  # of what a segment of many sources begins with: takes little longer than a round trip
_FEW_LANES = 3  # whose fetches are split: a connection has a rate, and several carry more
_PIECE_BYTES = 2 << 20  # takes about a round trip, so that a smaller one is hardly faster; each request costs CPU, too

Pieces = list[tuple[int, memoryview]]
Asked = list[tuple[int, int, Fetch[memoryview]]]
"""Requests that are under way: for each its start and length in the object."""


class ReadAhead:
    """What the sources of one reading share: a budget. Not thread-safe, as iterators are.

    `check` is called while it waits; what it raises ends the reading.
    """

    def __init__(self, check: Callable[[], None] | None = None) -> None:
        self._check = check
        self._bytes_max = AHEAD_BYTES_MAX
        self._lanes: list[weakref.ref[Lane]] = []  # they hold this
        self._landings = Landings()
        self.held_bytes = 0

    def lane(
        self, segments: Sequence[SegmentRef], open_segment: OpenSegment, wanted: Bounds, fetch_bytes: int
    ) -> "Lane":
        """A source: consecutive segments. Nothing is requested before any source is asked for its first rows; then
        what all of them begin with is."""
        made = Lane(self, segments, open_segment, wanted, fetch_bytes)
        self._lanes.append(weakref.ref(made))
        return made

    def fetch(self, reader: SegmentReader, start: int, length: int) -> Fetch[memoryview]:
        """What is at hand is read at its turn: threads would take longer to pass it on than it takes to read."""
        if self._landings.pid != os.getpid():
            self._landings = Landings()
        request, at_hand = reader.request(start, length), reader.at_hand(start, length)
        return Fetch(request, self._landings, reader.apart, at_hand=at_hand)

    def early_bytes_max(self, fetch_bytes: int) -> int:
        """Of what a segment begins with. All lanes can have as much at once, with their footers."""
        share = max(0, self._bytes_max // max(1, len(self._lanes)) - TAIL_BYTES)
        return share if self._few else min(share, EARLY_BYTES_MAX, fetch_bytes)

    def cut(self, start: int, length: int) -> Iterator[tuple[int, int]]:
        """The requests (start, length) for a part of an object. If there are few lanes they are several, each of which
        has a connection of its own."""
        piece_bytes = _PIECE_BYTES if self._few else max(1, length)
        for at in range(0, length, piece_bytes):
            yield start + at, min(piece_bytes, length - at)

    @property
    def _few(self) -> bool:
        return len(self._lanes) <= _FEW_LANES

    def wait(self, fetch: Fetch[memoryview]) -> None:
        """Until it has ended. Meanwhile whatever has become known to be needed is requested."""
        while not fetch.help():
            if self._check is not None:
                self._check()
            seen = self._landings.count
            if not fetch.ended:
                self._landings.wait(seen)
                self.go_on()

    def go_on(self) -> None:
        """Request what the budget allows, first for the sources that have least."""
        lanes = (lane for each in self._lanes if (lane := each()) is not None)
        ready = [(lane.held_bytes, at, lane) for at, lane in enumerate(lanes) if lane.next_bytes() is not None]
        heapq.heapify(ready)
        while ready:
            _, at, lane = ready[0]
            size = lane.next_bytes()
            if size is None:
                heapq.heappop(ready)
                continue
            if self.held_bytes + size > self._bytes_max:
                return
            lane.request()
            heapq.heapreplace(ready, (lane.held_bytes, at, lane))

    def forget(self, gone: "Lane") -> None:
        self.held_bytes -= gone.held_bytes
        self._lanes = [each for each in self._lanes if each() not in (None, gone)]


class _Begun:
    """A segment of which something was requested. What failed raises when its turn comes."""

    def __init__(self, ref: SegmentRef, reader: SegmentReader | None, error: Exception | None) -> None:
        self.ref = ref
        self.reader = reader
        self.error = error
        self.opening: Fetch[memoryview] | None = None
        self.early_bytes = 0  # to be requested with the footer
        self.early: deque[tuple[int, int, Fetch[memoryview]]] = deque()  # requested
        self.spans: deque[tuple[Span, Asked]] = deque()  # requested
        self.coming: deque[Span] = deque()  # to be requested
        self.kept_bytes = 0  # what it was opened with, if that has its rows
        self.is_open = False

    @property
    def far(self) -> bool:
        return self.reader is not None and self.reader.far


class Lane:
    """Made by `ReadAhead.lane`. Yields batches of schema RUN; `bytes_read` is of what was taken."""

    def __init__(
        self,
        ahead: ReadAhead,
        segments: Sequence[SegmentRef],
        open_segment: OpenSegment,
        wanted: Bounds,
        fetch_bytes: int,
    ) -> None:
        self._ahead = ahead
        self._left = deque(ref for ref in segments if may_hold(ref, wanted))
        self._open_segment = open_segment
        self._wanted = wanted
        self._fetch_bytes = fetch_bytes
        self._begun: deque[_Begun] = deque()
        self.held_bytes = 0
        self.bytes_read = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        return itertools.chain.from_iterable(rows for _, rows in self.segments())

    def segments(self) -> Iterator[tuple[SegmentRef, Iterator[pa.RecordBatch]]]:
        """Each segment with its rows. Requires: those are taken before the next segment is."""
        try:
            while self._begun or self._left:
                begun = self._begun[0] if self._begun else self._begin()
                yield begun.ref, self._rows(begun)
                if begun.reader is not None:
                    self.bytes_read += begun.reader.bytes_read
                self._let_go(begun)
                self._begun.popleft()
        finally:
            self._begun.clear()
            self._left.clear()
            self._ahead.forget(self)
            self.held_bytes = 0

    def _rows(self, begun: _Begun) -> Iterator[pa.RecordBatch]:
        if not begun.far:
            yield from self._reader(begun).batches(self._wanted)
            return
        self._open(begun)
        while begun.spans or begun.coming:
            if not begun.spans:
                self._request_of(begun)
            span, asked = begun.spans.popleft()
            while begun.early and begun.early[0][0] < span.end:
                self._keep(begun)
            pieces = self._pieces(asked)
            asked.clear()
            if span.last:
                self._let_go(begun)
            self._ahead.go_on()
            yield from self._reader(begun).rows(span, pieces, self._wanted)

    def _reader(self, begun: _Begun) -> SegmentReader:
        error, begun.error = begun.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # it holds this frame
        assert begun.reader is not None
        return begun.reader

    def _open(self, begun: _Begun) -> None:
        while not begun.is_open:
            if begun.opening is None:
                self._request_of(begun)
            self._ahead.go_on()
            if begun.opening is not None:
                self._ahead.wait(begun.opening)
            self._look(begun)

    def _let_go(self, begun: _Begun) -> None:
        """Nothing more is needed of it."""
        self._hold(-begun.kept_bytes - sum(length for _, length, _ in begun.early))
        begun.kept_bytes = 0
        begun.early.clear()

    def _keep(self, begun: _Begun) -> None:
        start, length, fetch = begun.early[0]
        self._ahead.wait(fetch)
        begun.early.popleft()
        self._hold(-length)
        self._reader(begun).keep(start, fetch.answer())

    def _pieces(self, asked: Asked) -> Pieces:
        for _, _, fetch in asked:
            self._ahead.wait(fetch)
        self._hold(-sum(length for _, length, _ in asked))
        return [(start, fetch.answer()) for start, _, fetch in asked]

    def _ask(self, reader: SegmentReader, start: int, length: int) -> Asked:
        self._hold(length)
        cut = [(start, length)] if reader.at_hand(start, length) else self._ahead.cut(start, length)
        return [(at, size, self._ahead.fetch(reader, at, size)) for at, size in cut]

    def next_bytes(self) -> int | None:
        """The size of what it would request next; None: nothing, or it is not known yet. Opens what has arrived, and
        may begin the next segment, to find out."""
        for begun in self._begun:
            self._look(begun)
            if begun.error is not None or not begun.far:
                return None
            if begun.coming:
                # Records that are row groups by themselves are fetched when they are needed: a merge holds each of
                # them several times already.
                return None if begun.ref.max_row_bytes else _bytes(begun.coming[0])
            if begun.opening is None and not begun.is_open:
                return _length(begun)
        return self._next_opening()

    def _next_opening(self) -> int | None:
        if not self._left or len(self._begun) >= _OPENED_MAX:
            return None
        if sum(begun.ref.bytes for begun in self._begun) >= AHEAD_BYTES_MAX:
            return None
        begun = self._begin()
        return _length(begun) if begun.far else None

    def request(self) -> None:
        """Request what `next_bytes` spoke of."""
        for begun in self._begun:
            if begun.coming or (begun.opening is None and not begun.is_open):
                self._request_of(begun)
                return

    def _begin(self) -> _Begun:
        ref = self._left.popleft()
        try:
            begun = _Begun(ref, self._open_segment(ref, self._fetch_bytes), None)
            if begun.reader is not None:
                begun.early_bytes = begun.reader.begin(self._wanted, self._ahead.early_bytes_max(self._fetch_bytes))
        except Exception as error:  # noqa: BLE001 - it is raised when the segment's turn comes
            begun = _Begun(ref, None, error.with_traceback(None))
        self._begun.append(begun)
        return begun

    def _request_of(self, begun: _Begun) -> None:
        reader = self._reader(begun)
        if begun.is_open:
            span = begun.coming.popleft()
            begun.spans.append((span, [asked for each in span.requests for asked in self._ask(reader, *each)]))
            return
        wanted = reader.wants()
        assert wanted is not None
        self._hold(wanted[1])
        begun.opening = self._ahead.fetch(reader, *wanted)
        if begun.opening.at_hand:
            begun.opening.help()  # what follows may not be at hand, and is known only now
        early_bytes, begun.early_bytes = begun.early_bytes, 0
        begun.early.extend(self._ask(reader, 0, early_bytes))

    def _look(self, begun: _Begun) -> None:
        """Open it, if what that takes is there."""
        opening = begun.opening
        if opening is None or not opening.ended or begun.reader is None:
            return
        begun.opening = None
        reader = begun.reader
        wanted = reader.wants()
        assert wanted is not None
        try:
            reader.open(opening.answer())
            if reader.wants() is None:
                begun.kept_bytes = reader.kept_bytes
                begun.coming.extend(reader.spans(self._wanted))
                begun.is_open = True
        except Exception as error:  # noqa: BLE001 - it is raised when the segment's turn comes
            begun.error = error.with_traceback(None)
        self._hold(begun.kept_bytes - wanted[1])

    def _hold(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes
        self._ahead.held_bytes += more_bytes


def _bytes(span: Span) -> int:
    return sum(length for _, length in span.requests)


def _length(begun: _Begun) -> int | None:
    """Of what is requested to open it."""
    wanted = begun.reader.wants() if begun.reader is not None else None
    return None if wanted is None else wanted[1] + begun.early_bytes
