"""Write one segment: Parquet, streamed into an object, with the statistics for its reference.

Besides Parquet's own page checksums, which do not cover page headers and the footer, the file has two: an XXH3-64 for
each row group, and one for the footer (lithify.segment.footer). So a reader of any part of the file gets what was
written or raises Corrupt. Before the footer leaves, it is read as a reader will read it.
"""

import inspect
import io
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from lithify.manifest.model import SegmentRef
from lithify.segment.arrays import from_longs
from lithify.segment.extent import Extent, Order, key_bounds, row_bytes
from lithify.segment.footer import PLACEHOLDERS, ROW_GROUP_CHECKSUMS, decode, problem, row_groups, seal, verified
from lithify.segment.page_index import PAGE_INDEXES, placeholder, put
from lithify.segment.schema import L0, RUN
from lithify.store.errors import Corrupt, InvalidRequest
from lithify.store.port import OutputFile

__all__ = [
    "PAGE_ROWS_MAX",
    "ROW_GROUP_BYTES_MAX",
    "ROW_GROUP_ROWS_MAX",
    "SegmentWriter",
    "append_rows",
    "encode_append",
    "encode_rows",
]

ROW_GROUP_ROWS_MAX = 65_536
ROW_GROUP_BYTES_MAX = 4 << 20  # in memory: a merge holds one per source, three times over at its peak

_NUMBERS = ("offset", "offset_delta", "timestamp_ms")  # blocks of near values: as small as with zstd, and far cheaper
_OPTIONS = inspect.signature(pq.ParquetWriter.__init__).parameters  # not every version has all of those used here
_BLOOM_FALSE_POSITIVES = 0.05
_PAGE_BYTES = 1 << 20
PAGE_ROWS_MAX = 8192  # the pages of all columns end at the same rows, so that some rows can be read alone


class _Sink:
    """The file object that pyarrow writes to: counts and hashes the bytes. After `hold` it keeps them back, so that the
    footer's checksum can be inserted before they leave."""

    closed = False
    indexed = False  # whether the footer has a place for the checksums of page indexes

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._whole = xxhash.xxh3_64()
        self._row_group = xxhash.xxh3_64()
        self._held: bytearray | None = None
        self._bytes = 0

    def write(self, data: Any) -> int:
        if self._held is not None:
            self._held += data
        else:
            self._row_group.update(data)
            self._pass_on(data)
        return len(data)

    def _pass_on(self, data: Any) -> None:
        self._whole.update(data)
        self._output.write(data)
        self._bytes += len(data)

    def end_row_group(self) -> str:
        digest = self._row_group.hexdigest()
        self._row_group.reset()
        return digest

    def hold(self) -> None:
        self._held = bytearray()

    def seal(self) -> bytes:
        """Insert the footer's checksums into the held bytes; returns the footer, its length and the magic."""
        assert self._held is not None
        footer = len(self._held) - 8 - int.from_bytes(self._held[-8:-4], "little")
        content = bytes(self._held[footer:])
        if self.indexed:
            content = put(content, bytes(self._held[:footer]), self._bytes)
        self._held[footer:] = seal(content)
        return bytes(self._held[footer:])

    def release(self) -> str:
        """Pass on the held bytes; returns the whole object's checksum."""
        assert self._held is not None
        held, self._held = self._held, None
        self._pass_on(held)
        return self._whole.hexdigest()

    def tell(self) -> int:
        return self._bytes + len(self._held or b"")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class SegmentWriter:
    """Writes one segment into `output`. Memory: one row group, twice.

    Requires: the rows of all batches together are in `order` ("key": by (key, offset), null keys first) and have
    `schema`; offsets and timestamps are not null; there is at least one row.
    """

    def __init__(
        self,
        output: OutputFile,
        segment_id: str,
        order: Order,
        *,
        schema: pa.Schema = RUN,
        row_group_bytes: int = ROW_GROUP_BYTES_MAX,
        row_group_rows: int = ROW_GROUP_ROWS_MAX,
        page_rows: int = PAGE_ROWS_MAX,
    ) -> None:
        self._id = segment_id
        self._order: Order = order
        self._schema = schema
        self._output = output
        self._sink = _Sink(output)
        self._row_group_bytes = row_group_bytes
        self._row_group_rows = row_group_rows
        self._page_rows = page_rows
        self._file = pa.PythonFile(self._sink, mode="w")
        self._parquet: Any = None  # opened at the first row group, whose size is the best estimate for the others
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._digests: list[str] = []
        self._extent = Extent()

    @property
    def rows(self) -> int:
        return self._extent.rows

    @property
    def estimated_bytes(self) -> int:
        """About the size of the object if it were closed now; slightly too high."""
        return self._sink.tell() + self._pending_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        sizes = row_bytes(batch)
        ends = np.cumsum(sizes)
        self._extent.add(batch, self._order, sizes)
        start = 0
        while start < batch.num_rows:
            done = int(ends[start - 1]) if start else 0
            room = done + self._row_group_bytes - self._pending_bytes
            stop = min(int(np.searchsorted(ends, room, "right")), start + self._row_group_rows - self._pending_rows)
            if stop <= start and self._pending_rows:
                self._end_row_group()
                continue
            stop = max(stop, start + 1)  # a row larger than a row group gets one of its own
            self._pending.append(batch.slice(start, stop - start))
            self._pending_rows += stop - start
            self._pending_bytes += int(ends[stop - 1]) - done
            start = stop
            if self._pending_bytes >= self._row_group_bytes:
                self._end_row_group()

    def _end_row_group(self) -> None:
        if self._parquet is None:
            self._parquet = _parquet_writer(self._file, self._schema, self._order, self._pending_rows, self._page_rows)
            self._sink.end_row_group()  # the magic number at the object's start is in no row group
        table = pa.Table.from_batches(self._pending, schema=self._schema)
        self._parquet.write_table(table, row_group_size=self._pending_rows)
        self._sink.indexed |= self._pending_rows > self._page_rows
        self._digests.append(self._sink.end_row_group())
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def close(self) -> SegmentRef:
        """Finish the object and return its reference (`added_at` 0: the commit sets it)."""
        ref = self.finish()
        self.publish()
        return ref

    def publish(self) -> None:
        """Let the object appear. Requires: `finish` was called."""
        self._output.close()

    def finish(self) -> SegmentRef:
        """As `close`, but the object is not there yet."""
        if self._pending:
            self._end_row_group()
        self._sink.hold()
        indexes = {PAGE_INDEXES: placeholder(len(self._digests))} if self._sink.indexed else {}
        self._parquet.add_key_value_metadata({ROW_GROUP_CHECKSUMS: "".join(self._digests), **indexes, **PLACEHOLDERS})
        self._parquet.close()
        footer, size = self._sink.seal(), self._sink.tell()
        self._prove(footer, self._ref(size, ""))
        checksum = self._sink.release()
        self._file.close()
        return self._ref(size, checksum)

    def _prove(self, footer: bytes, ref: SegmentRef) -> None:
        """Refuse to write what no reader could open, or would read differently."""
        plain = verified(footer)
        what = "its checksum" if plain is None else problem(row_groups(decode(plain), 0), ref)
        if what is not None:
            raise Corrupt(f"segment {self._id} was not written: its footer disagrees on {what}. Please report this")

    def abort(self) -> None:
        """Discard the object: it never becomes visible."""
        self._sink.hold()  # what pyarrow still writes is dropped
        if self._parquet is not None:
            self._parquet.close()
        self._file.close()
        self._output.abort()

    def _ref(self, size: int, checksum: str) -> SegmentRef:
        extent = self._extent
        assert extent.offsets is not None, "a segment has at least one row"
        assert extent.timestamps is not None
        low, high = key_bounds(*extent.keys) if extent.keys else (None, None)
        horizons = extent.horizons or (None, None)
        return SegmentRef(
            id=self._id,
            bytes=size,
            raw_bytes=extent.raw_bytes,
            max_row_bytes=extent.max_row_bytes if extent.max_row_bytes > ROW_GROUP_BYTES_MAX else 0,
            rows=extent.rows,
            min_key=low,
            max_key=high,
            min_offset=extent.offsets[0],
            max_offset=extent.offsets[1],
            min_timestamp_ms=extent.timestamps[0],
            max_timestamp_ms=extent.timestamps[1],
            tombstones=extent.tombstones,
            min_horizon_ms=horizons[0],
            max_horizon_ms=horizons[1],
            order=self._order,
            checksum=checksum,
        )


def _parquet_writer(file: Any, schema: pa.Schema, order: Order, row_group_rows: int, page_rows: int) -> Any:
    offset = pq.SortingColumn(2)
    options: dict[str, Any] = {"write_statistics": [name for name in schema.names if name not in ("value", "headers")]}
    if "bloom_filter_options" in _OPTIONS:
        options["bloom_filter_options"] = {"key": {"ndv": row_group_rows, "fpp": _BLOOM_FALSE_POSITIVES}}
    if "max_rows_per_page" in _OPTIONS:
        options["max_rows_per_page"] = page_rows
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding={name: "DELTA_BINARY_PACKED" for name in schema.names if name in _NUMBERS},
        data_page_size=_PAGE_BYTES,
        write_batch_size=page_rows,
        write_page_index=True,
        write_page_checksum=True,
        store_schema=False,
        sorting_columns=[pq.SortingColumn(0, nulls_first=True), offset] if order == "key" else [offset],
        **options,
    )


class _MemoryOutput(OutputFile):
    """An OutputFile in memory, for objects small enough for one put."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def write(self, data: Any, /) -> int:
        return self.buffer.write(data)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


def encode_append(table: pa.Table, order: Order, segment_id: str = "") -> tuple[bytes, SegmentRef]:
    """One L0 object from a normalised table: `encode_rows` of its `append_rows`. Raises InvalidRequest for a table
    without rows."""
    return encode_rows(append_rows(table, order), order, segment_id)


def append_rows(table: pa.Table, order: Order) -> pa.RecordBatch:
    """Row i of a normalised table gets `offset_delta` i; order "key" sorts by (key, delta), which is a copy. Raises
    InvalidRequest for a table without rows."""
    if table.num_rows == 0:
        raise InvalidRequest("the table has no rows: an append needs at least one")
    batch = table.combine_chunks().to_batches()[0]
    deltas = from_longs(np.arange(batch.num_rows))
    key, value, timestamp, headers = batch.columns
    rows = pa.RecordBatch.from_arrays([key, value, deltas, timestamp, headers], schema=L0)
    if order == "key":
        # Stable: rows with the same key keep their offset order.
        rows = rows.take(pc.call_function("array_sort_indices", [key], pc.ArraySortOptions(null_placement="at_start")))
    return rows


def encode_rows(rows: pa.RecordBatch, order: Order, segment_id: str = "") -> tuple[bytes, SegmentRef]:
    """The reference is relative: base offset 0, offsets 0 to rows - 1, until the commit assigns the base."""
    output = _MemoryOutput()
    writer = SegmentWriter(output, segment_id, order, schema=L0)
    writer.write(rows)
    ref = writer.close()
    return output.buffer.getvalue(), msgspec.structs.replace(ref, base_offset=0)
