"""The parts of a segment that a point read needs: its map, the indexes of a row group, some rows (docs/rfcs/0025).

Each part says which bytes it is made of, and is made of these once they are there. Whatever decides an answer is
checked first: the footer, the indexes and a whole row group by an XXH3-64 each, stripes by the CRC-32 of their pages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from lithify.manifest.bounds import Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.arrays import ByteStrings, flags, longs, nulls
from lithify.segment.columns import Window
from lithify.segment.footer import RowGroup, decode, row_groups
from lithify.segment.page_index import RowGroupIndex, locate, parts_of
from lithify.segment.stripes import Chunk, chunks_of, decoded, schema_of_footer

__all__ = ["WHOLE", "Row", "Rows", "SegmentMap", "Span"]

Span = tuple[int, int]  # position in the object, length

WHOLE = -1  # instead of the number of a stripe
_FOOTER_COPIES = 4  # what a decoded footer takes in memory, in sizes of the stored one


class Row(NamedTuple):
    """A record, with what `lithify.log.record` needs to make it a Record."""

    key: bytes
    value: bytes | None
    offset: int
    timestamp_ms: int
    headers: Any  # as pyarrow gives them, None or a list of {"key", "value"}


class Rows:
    """Decoded rows, in the segment's order, offsets as they are stored."""

    def __init__(self, batch: pa.RecordBatch, *, in_key_order: bool) -> None:
        key, self._value, offset, timestamp = batch.columns[:4]
        self._headers: Any = batch.column(4)
        self._values = ByteStrings(self._value)
        # As bytes of Python's own, since a search is mostly made of taking keys out.
        self._starts = memoryview(key.buffers()[1]).cast("B").cast("i")
        self._contents = (key.buffers()[2] or pa.py_buffer(b"")).to_pybytes()
        self._first: int = key.offset
        self._count = len(key)
        self._no_keys: int = key.null_count
        self._key = key
        self._offsets, self._timestamps = longs(offset), longs(timestamp)
        self._in_key_order = in_key_order
        self.bytes: int = batch.get_total_buffer_size() + len(self._contents)

    def last_of(self, key: bytes) -> int | None:
        """The last row of `key`: in either order the one with the highest offset."""
        if not self._in_key_order:
            same = pc.call_function("equal", [self._key, pa.scalar(key, self._key.type)])
            found = np.flatnonzero(flags(same) & ~nulls(same))
            return int(found[-1]) if len(found) else None
        starts, contents, first = self._starts, self._contents, self._first
        low, high = self._no_keys, self._count
        while low < high:
            middle = (low + high) // 2
            at = first + middle
            if key < contents[starts[at] : starts[at + 1]]:
                high = middle
            else:
                low = middle + 1
        row = low - 1
        return row if row >= self._no_keys and self._at(row) == key else None

    def _at(self, row: int) -> bytes:
        at = self._first + row
        return self._contents[self._starts[at] : self._starts[at + 1]]

    def row(self, row: int, base_offset: int) -> Row:
        value = None if self._value.null_count and not self._value[row].is_valid else self._values[row]
        headers = None if self._headers.null_count == self._count else self._headers[row].as_py()
        return Row(self._at(row), value, int(self._offsets[row]) + base_offset, int(self._timestamps[row]), headers)


class SegmentMap:
    """What the footer of a segment says. Requires: `footer` comes from `footer_in`. Raises ValueError, or what pyarrow
    raises."""

    def __init__(self, name: tuple[str, str], ref: SegmentRef, footer: bytes) -> None:
        """`name`: home and key of the object."""
        self.name = name
        self._size = ref.bytes
        self._footer: pq.FileMetaData = decode(footer)
        self._metadata: dict[bytes, bytes] = self._footer.metadata or {}
        self._schema = schema_of_footer(footer)
        self.row_groups: tuple[RowGroup, ...] = row_groups(self._footer, 0)  # offsets as they are stored
        if sum(group.rows for group in self.row_groups) != ref.rows:
            raise ValueError("its row count differs from that in the manifest")
        self._in_key_order = ref.order == "key"
        self._lows = [group.min_key or b"" for group in self.row_groups]
        self._highs = [group.max_key or b"" for group in self.row_groups]
        self._searchable = self._in_key_order and all(group.bounded for group in self.row_groups)
        self.bytes = _FOOTER_COPIES * len(footer) + 500 * len(self.row_groups)

    def near(self, key: bytes) -> Sequence[int]:
        """The row groups that may hold `key`, the last one first."""
        within = range(len(self.row_groups))
        if self._searchable:
            within = range(bisect_left(self._highs, key), bisect_right(self._lows, key))
        wanted = Bounds.of_key(key)
        return [number for number in reversed(within) if self.row_groups[number].meets(wanted)]

    def index_spans(self, group: int) -> list[Span] | None:
        """Where the indexes of a row group are; None: it has none."""
        found = parts_of(self._metadata, group)
        return None if found is None else [span for span in found if span[1]]

    def index_window(self, group: int, bytes_max: int) -> range:
        """The row groups around `group` whose indexes are fetched with its own, always the same ones."""
        start, size = 0, 0
        for number in range(len(self.row_groups)):
            mine = sum(length for _, length in self.index_spans(number) or [])
            if size and size + mine > bytes_max:
                if number > group:
                    return range(start, number)
                start, size = number, 0
            size += mine
        return range(start, len(self.row_groups))

    def index(self, group: int, contents: Sequence[bytes]) -> RowGroupIndex:
        """Made of what lies at `index_spans`. Raises ValueError."""
        found, rest = list[bytes](), iter(contents)
        for _, length in parts_of(self._metadata, group) or []:
            found.append(next(rest) if length else b"")
        index = locate(self._metadata, group, found, self.row_groups[group].rows)
        if index is None:
            raise ValueError(f"the page index of row group {group} fails its checksum")
        return index if self._chunks(group) else index._replace(stripes=())

    def _chunks(self, group: int) -> tuple[Chunk, ...]:
        return chunks_of(self._footer.row_group(group))

    def stripes_near(self, key: bytes, index: RowGroupIndex | None) -> Sequence[int]:
        """The stripes of a row group that may hold `key`, the last one first; or it is to be read WHOLE."""
        if index is None or not index.stripes or not self._in_key_order:
            return [WHOLE]
        return [number for number in range(len(index.stripes) - 1, -1, -1) if index.stripes[number].may_hold(key)]

    def stripe_spans(self, group: int, stripe: int, index: RowGroupIndex | None) -> list[Span]:
        """Where the rows of a stripe are, or of the WHOLE row group."""
        if index is None or stripe == WHOLE:
            whole = self.row_groups[group]
            return [(whole.start, whole.stored_bytes)]
        columns = index.stripes[stripe].columns
        return [(pages[0].start, pages[-1].start + pages[-1].bytes - pages[0].start) for pages in columns]

    def rows(self, group: int, stripe: int, index: RowGroupIndex | None, contents: Sequence[bytes]) -> Rows:
        """Made of what lies at `stripe_spans`. Raises ValueError, or what pyarrow raises."""
        if index is None or stripe == WHOLE:
            return Rows(self._whole(group, contents[0]), in_key_order=self._in_key_order)
        batch = decoded(self._schema, self._chunks(group), index.stripes[stripe], contents)
        return Rows(batch, in_key_order=self._in_key_order)

    def _whole(self, group: int, content: bytes) -> pa.RecordBatch:
        wanted = self.row_groups[group]
        if xxhash.xxh3_64_hexdigest(content) != wanted.checksum:
            raise ValueError(f"row group {group} fails its checksum")
        window = Window(self._size)
        with window.showing([(wanted.start, memoryview(content))]):
            file = pq.ParquetFile(pa.PythonFile(window, mode="r"), metadata=self._footer, pre_buffer=False)
            table = file.read_row_group(group, use_threads=False).combine_chunks()
        if table.num_rows != wanted.rows:
            raise ValueError(f"row group {group} has another number of rows than the footer says")
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches[0]
