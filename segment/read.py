"""Read one segment by row groups, pruned by bounds of keys and offsets; every byte used is checked first.

A reader costs one GET for the footer and one for each run of needed row groups; a small segment of a far store one for
all. Bytes are used only after their
checksum (lithify.segment.footer, lithify.segment.write) matched, so damage raises Corrupt and never gives wrong rows.
If only some columns of a row group are fetched, Parquet's page checksums take the place of its own (docs/rfcs/0021).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from lithify.manifest.bounds import EVERYTHING, Bounds, lies_within
from lithify.manifest.model import SegmentRef
from lithify.segment.arrays import from_longs, longs
from lithify.segment.columns import (
    ALL,
    GAP_BYTES_MAX,
    MOST,
    Columns,
    Window,
    chunk_pieces,
    joined,
    stand_in,
    without_contents,
)
from lithify.segment.footer import TAIL_BYTES, RowGroup, decode, footer_in, footer_length, row_groups
from lithify.segment.schema import RUN
from lithify.segment.within import within
from lithify.store.errors import RESTORE, Corrupt, NotFound
from lithify.store.port import Store

__all__ = ["FAR_FETCH_BYTES_MAX", "FETCH_BYTES_MAX", "OpenSegment", "SegmentReader", "Span"]

FETCH_BYTES_MAX = 8 << 20  # of neighbouring row groups, in one fetch; a single row group may be larger
FAR_FETCH_BYTES_MAX = 4 << 20  # of a far store, where several fetches are under way
WHOLE_BYTES_MAX = 512 << 10  # a smaller segment of a far store is fetched whole: that takes less than a round trip more


class _Needed(NamedTuple):
    """A row group, which of its columns are decoded, and the parts of the object (start, end) with these."""

    group: RowGroup
    names: frozenset[str]
    ranges: list[tuple[int, int]]

    @property
    def whole(self) -> bool:
        return self.ranges == [(self.group.start, self.group.start + self.group.stored_bytes)]

    @property
    def end(self) -> int:
        return self.group.start + self.group.stored_bytes


class Span(NamedTuple):
    """Row groups that are fetched together, and the parts of the object (start, length) that are requested for them
    beside the object's beginning, if that was requested before (`early`). `last`: no other follows."""

    parts: list[_Needed]
    requests: list[tuple[int, int]]
    early: bool
    last: bool

    @property
    def end(self) -> int:
        """Up to where the object is needed for it."""
        return self.parts[-1].end


class SegmentReader:
    """Reads the segment `ref` that is stored under `key`. Memory: one fetch and one decoded row group at a time.
    Columns that are not wanted are not decoded and, where that saves enough, not fetched.

    `batches` does it all. Whoever fetches ahead (docs/rfcs/0028) takes the steps one by one: `begin`; `wants` and
    `open` until the footer is there; for each of the `spans` its requests, and `keep` what was begun with; `rows`. All
    of it raises NotFound if the object is gone, Corrupt if it is not what was written.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        ref: SegmentRef,
        *,
        fetch_bytes: int = FETCH_BYTES_MAX,
        columns: Columns = ALL,
        footer: pq.FileMetaData | None = None,
        opens: bool = True,
        told: Callable[[str], object] | None = None,
    ) -> None:
        """`footer`: if it is known already. `opens`: whether the footer is read now, and not at its first use. `told`
        is called with the segment's id before each request."""
        self.ref = ref
        self.key = key
        self.bytes_read = 0
        self.far = store.far
        self.apart = store.apart
        self._store = store
        self._told = told
        self._fetch_bytes = min(fetch_bytes, FAR_FETCH_BYTES_MAX) if self.far else fetch_bytes
        self._columns = columns
        self._base = ref.base_offset or 0
        self._footer_bytes = min(ref.bytes, TAIL_BYTES)
        self._end: memoryview | None = None  # what the footer came with, if rows may lie there
        self._early: list[tuple[int, memoryview]] = []
        self._early_bytes = 0
        self._footer: Any = None
        self._window = Window(ref.bytes)
        self._files: dict[bool, pq.ParquetFile] = {}
        self._row_groups: tuple[RowGroup, ...] | None = None
        if footer is not None:
            self._use(footer)
        elif opens:
            self._open()

    @property
    def footer(self) -> pq.FileMetaData:
        self._open()
        return self._footer

    @property
    def row_groups(self) -> tuple[RowGroup, ...]:
        self._open()
        assert self._row_groups is not None
        return self._row_groups

    def begin(self, wanted: Bounds, bytes_max: int) -> int:
        """How many of the object's first bytes to request beside its footer, since they are wanted for sure: at most
        `bytes_max`."""
        large = self.ref.bytes > WHOLE_BYTES_MAX and not self.ref.max_row_bytes
        closed = self._row_groups is None
        if self.far and large and closed and self._columns.names >= MOST and lies_within(self.ref, wanted):
            self._early_bytes = min(bytes_max, self.tail[0])
        return self._early_bytes

    def keep(self, start: int, piece: memoryview) -> None:
        """A piece of what the object begins with, as requested by `begin`; until the last of its rows is decoded.
        Requires: they are given in their order."""
        self._early.append((start, piece))

    @property
    def kept_bytes(self) -> int:
        """What the footer came with: all of a small segment."""
        return len(self._end or b"")

    def batches(self, wanted: Bounds = EVERYTHING) -> Iterator[pa.RecordBatch]:
        """The rows within `wanted`, in the segment's order, one row group at a time, with schema RUN: offsets absolute,
        L0 rows without a horizon."""
        for span in self.spans(wanted):
            pieces = [(start, self.request(start, length)()) for start, length in span.requests]
            yield from self.rows(span, pieces, wanted)

    def request(self, start: int, length: int) -> Callable[[], memoryview]:
        """The request for a part of the object. It does not hold this reader."""
        self.bytes_read += length
        if self._told is not None:
            self._told(self.ref.id)
        return partial(_read, self._store, self.key, self.ref.id, start, length)

    def at_hand(self, start: int, length: int) -> bool:
        """Whether a request for a part of the object is answered from a local disk."""
        return self._store.at_hand(self.key, start, length)

    def wants(self) -> tuple[int, int] | None:
        """The part of the object (start, length) that is needed next to open it; None: it is open."""
        if self._row_groups is not None:
            return None
        whole = self.far and self.ref.bytes <= WHOLE_BYTES_MAX
        return (0, self.ref.bytes) if whole else self.tail

    @property
    def tail(self) -> tuple[int, int]:
        """The part of the object with the footer."""
        return self.ref.bytes - self._footer_bytes, self._footer_bytes

    def open(self, tail: memoryview) -> None:
        """Go on with the part that it wants."""
        size = self.ref.bytes
        try:
            length = footer_length(tail, size)
            if length > len(tail):
                self._footer_bytes = length
                return
            footer = footer_in(tail, length)
        except ValueError as error:
            raise self._corrupt(str(error)) from None
        self._use(self._guard(lambda: decode(footer)))
        if self.far and (len(tail) == size or self._columns.names >= MOST):
            self._end = tail

    def spans(self, wanted: Bounds) -> list[Span]:
        """What is fetched for the rows within `wanted`, in their order."""
        needed = [self._needed(group, wanted) for group in self.row_groups if group.meets(wanted)]
        runs = list(self._fetches(needed))
        return [self._span(run, last=run is runs[-1]) for run in runs]

    def _span(self, run: list[_Needed], *, last: bool) -> Span:
        ranges = run[0].ranges if len(run) == 1 else [(run[0].ranges[0][0], run[-1].ranges[-1][1])]
        there, there_again = self._early_bytes, self.ref.bytes - self.kept_bytes
        missing = [(max(start, there), min(end, there_again)) for start, end in ranges]
        requests = [(start, end - start) for start, end in missing if start < end]
        return Span(run, requests, early=ranges[0][0] < there, last=last)

    def rows(
        self, span: Span, pieces: list[tuple[int, memoryview]], wanted: Bounds = EVERYTHING
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `span`, as `batches` gives them. `pieces`: what its requests answered, each with its start; they
        are freed as soon as the last row group is decoded."""
        if span.early:
            pieces[:0] = self._early
            self._early = [(start, piece) for start, piece in self._early if start + len(piece) > span.end]
        if self._end is not None:
            pieces.append((self.ref.bytes - self.kept_bytes, self._end))
            self._end = None if span.last else self._end
        for part in span.parts:
            group = part.group
            batch = self._decode(part, pieces)
            if part is span.parts[-1]:
                pieces.clear()  # free them while the last batch is in use
            batch = within(batch, self.ref.order, group, wanted)
            if batch.num_rows:
                yield batch

    def _open(self) -> None:
        while (wanted := self.wants()) is not None:
            self.open(self.request(*wanted)())

    def _use(self, footer: pq.FileMetaData) -> None:
        groups = self._guard(lambda: row_groups(footer, self._base))
        if sum(group.rows for group in groups) != self.ref.rows:
            raise self._corrupt("its row count differs from that in the manifest")
        self._footer, self._row_groups = footer, groups

    def _needed(self, group: RowGroup, wanted: Bounds) -> _Needed:
        whole = [(group.start, group.start + group.stored_bytes)]
        names = self._decoded(group, wanted)
        if names >= ALL.names:
            return _Needed(group, names, whole)
        stored = {self._stored_name(name) for name in names}
        ranges = chunk_pieces(self.footer.row_group(group.index), stored)
        saved = group.stored_bytes - sum(end - start for start, end in ranges)
        return _Needed(group, names, ranges if saved > GAP_BYTES_MAX else whole)

    def _decoded(self, group: RowGroup, wanted: Bounds) -> frozenset[str]:
        """The columns that are wanted, and those that the bounds are compared with."""
        names = self._columns.names
        if names >= ALL.names:
            return names
        if wanted.low is not None or wanted.high is not None:
            names |= {"key"}
        if (wanted.from_offset is not None and group.min_offset < wanted.from_offset) or (
            wanted.to_offset is not None and group.max_offset >= wanted.to_offset
        ):
            names |= {"offset"}
        return names | {"value"} if self._columns.tombstones and self.ref.tombstones else names

    def _fetches(self, parts: list[_Needed]) -> Iterator[list[_Needed]]:
        """Neighbours that are fetched together: all of them whole, or one alone."""
        run: list[_Needed] = []
        for part in parts:
            if run and (
                part.group.index != run[-1].group.index + 1
                or part.end - run[0].group.start > self._fetch_bytes
                or not (part.whole and run[-1].whole)
            ):
                yield run
                run = []
            run.append(part)
        if run:
            yield run

    def _stored_name(self, name: str) -> str:
        return "offset_delta" if name == "offset" and self.ref.base_offset is not None else name

    def _decode(self, part: _Needed, pieces: list[tuple[int, memoryview]]) -> pa.RecordBatch:
        group, names, whole = part.group, part.names, part.whole
        if whole:
            content = joined(pieces, group.start, part.end)
            if xxhash.xxh3_64_hexdigest(content) != group.checksum:
                raise self._corrupt(f"row group {group.index} fails its checksum")
            pieces = [(group.start, content)]
        batch = self._guard(lambda: self._batch(group, names, pieces, check_pages=not whole))
        if batch.num_rows != group.rows:
            raise self._corrupt(f"row group {group.index} has another number of rows than the footer says")
        return batch

    def _batch(
        self, group: RowGroup, names: frozenset[str], pieces: list[tuple[int, memoryview]], *, check_pages: bool
    ) -> pa.RecordBatch:
        stored = None if names >= ALL.names else [self._stored_name(name) for name in names]
        file = self._parquet(check_pages=check_pages)
        with self._window.showing(pieces):
            table = file.read_row_group(group.index, columns=stored, use_threads=False).combine_chunks()
        rows: Any = table.to_batches()[0]
        columns = [self._column(name, rows, names) for name in RUN.names]
        return pa.RecordBatch.from_arrays(columns, schema=RUN)

    def _parquet(self, *, check_pages: bool) -> pq.ParquetFile:
        """Made once: that costs as much as to decode a column."""
        if check_pages not in self._files:
            self._files[check_pages] = pq.ParquetFile(
                pa.PythonFile(self._window, mode="r"),
                metadata=self.footer,
                pre_buffer=False,
                page_checksum_verification=check_pages,
            )
        return self._files[check_pages]

    def _column(self, name: str, rows: Any, names: frozenset[str]) -> pa.Array:
        if name not in names or (name == "horizon_ms" and self.ref.base_offset is not None):
            return stand_in(name, rows.num_rows)
        column = rows.column(self._stored_name(name))
        if name == "offset" and self.ref.base_offset is not None:
            return from_longs(longs(column) + self._base)
        if name == "value" and name not in self._columns.names:
            return without_contents(column)
        return column

    def _guard(self, decode: Callable[[], Any]) -> Any:
        """Decode a checked part of the file. If that fails, the file was wrong when it was written: raises Corrupt."""
        try:
            return decode()
        except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._corrupt(f"it cannot be decoded ({type(error).__name__})") from None

    def _corrupt(self, what: str) -> Corrupt:
        self._store.distrust(self.key)
        return Corrupt(
            f"segment {self.key}: {what}. {RESTORE}",
            self.key,
            self.ref.id,
        )


OpenSegment = Callable[[SegmentRef, int], SegmentReader]
"""Opens a segment; a fetch has at most so many bytes."""


def _read(store: Store, key: str, segment: str, start: int, length: int) -> memoryview:
    try:
        return store.view(key, start, length)
    except (NotFound, Corrupt) as error:
        error.segment = segment  # a store knows only keys
        raise
