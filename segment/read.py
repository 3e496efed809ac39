"""Read one segment by row groups, pruned by bounds of keys and offsets; every byte used is checked first.

A reader costs one GET for the footer and one for each run of needed row groups. Bytes are used only after their
checksum (lithify.segment.footer, lithify.segment.write) matched, so damage raises Corrupt and never gives wrong rows.
"""

import bisect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.arrays import ByteStrings, from_flags, from_longs, longs
from lithify.segment.footer import RowGroup, decode, row_groups, verified
from lithify.segment.schema import RUN
from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import Store

__all__ = ["FETCH_BYTES_MAX", "OpenSegment", "SegmentReader"]

FETCH_BYTES_MAX = 8 << 20  # of neighbouring row groups, in one fetch; a single row group may be larger
_TAIL_BYTES = 64 << 10
_MAGIC = b"PAR1"


class SegmentReader:
    """Opens the segment `ref` that is stored under `key`. Memory: one fetch and one decoded row group at a time.

    Raises NotFound if the object is gone, Corrupt if it is not what was written.
    """

    def __init__(self, store: Store, key: str, ref: SegmentRef, *, fetch_bytes: int = FETCH_BYTES_MAX) -> None:
        self.ref = ref
        self.key = key
        self.bytes_read = 0
        self._store = store
        self._fetch_bytes = fetch_bytes
        self._base = ref.base_offset or 0
        self._footer = self._open_footer()
        self.row_groups: tuple[RowGroup, ...] = self._guard(lambda: row_groups(self._footer, self._base))
        if sum(group.rows for group in self.row_groups) != ref.rows:
            raise self._corrupt("its row count differs from that in the manifest")

    def batches(self, wanted: Bounds = EVERYTHING) -> Iterator[pa.RecordBatch]:
        """The rows within `wanted`, in the segment's order, one row group at a time, with schema RUN: offsets absolute,
        L0 rows without a horizon."""
        for run in self._fetches([group for group in self.row_groups if group.meets(wanted)]):
            content = self._fetch(run[0].start, run[-1].start + run[-1].stored_bytes - run[0].start)
            start = run[0].start
            for group in run:
                batch = self._decode(group, content[group.start - start :][: group.stored_bytes])
                if group is run[-1]:
                    content = memoryview(b"")  # free it while the last batch is in use
                batch = self._within(batch, wanted.low, wanted.high)
                if wanted.from_offset is not None and group.min_offset < wanted.from_offset:
                    batch = batch.filter(from_flags(longs(batch.column("offset")) >= wanted.from_offset))
                if wanted.to_offset is not None and group.max_offset >= wanted.to_offset:
                    batch = batch.filter(from_flags(longs(batch.column("offset")) < wanted.to_offset))
                if batch.num_rows:
                    yield batch

    def _fetches(self, groups: list[RowGroup]) -> Iterator[list[RowGroup]]:
        run: list[RowGroup] = []
        for group in groups:
            if run and (
                group.index != run[-1].index + 1 or group.start + group.stored_bytes - run[0].start > self._fetch_bytes
            ):
                yield run
                run = []
            run.append(group)
        if run:
            yield run

    def _fetch(self, start: int, length: int) -> memoryview:
        self.bytes_read += length
        try:
            return memoryview(self._store.read(self.key, start, length))
        except (NotFound, Corrupt) as error:
            error.segment = self.ref.id  # a store knows only keys
            raise

    def _decode(self, group: RowGroup, content: memoryview) -> pa.RecordBatch:
        if xxhash.xxh3_64_hexdigest(content) != group.checksum:
            raise self._corrupt(f"row group {group.index} fails its checksum")
        return self._guard(lambda: self._batch(group, content))

    def _batch(self, group: RowGroup, content: memoryview) -> pa.RecordBatch:
        file = pq.ParquetFile(
            pa.PythonFile(_Window(content, group.start, self.ref.bytes), mode="r"),
            metadata=self._footer,
            pre_buffer=False,
        )
        batches = file.read_row_group(group.index, use_threads=False).combine_chunks().to_batches()
        key, value, offset, timestamp, headers = batches[0].columns[:5]
        if self.ref.base_offset is None:
            horizon = batches[0].column(5)
        else:
            offset = from_longs(longs(offset) + self._base)
            horizon = pa.nulls(group.rows, pa.int64())
        return pa.RecordBatch.from_arrays([key, value, offset, timestamp, headers, horizon], schema=RUN)

    def _within(self, batch: pa.RecordBatch, low: bytes | None, high: bytes | None) -> pa.RecordBatch:
        if low is None and high is None:
            return batch
        keys: Any = batch.column("key")
        if self.ref.order == "key":
            start = _first_at(keys, low) if low is not None else 0
            stop = _first_at(keys, high) if high is not None else len(keys)
            return batch.slice(start, max(stop - start, 0))
        inside = pc.call_function("is_null" if low is None else "is_valid", [keys])
        if low is not None:
            inside = pc.call_function(
                "and", [inside, pc.call_function("greater_equal", [keys, pa.scalar(low, keys.type)])]
            )
        if high is not None:
            below = pc.call_function("less", [keys, pa.scalar(high, keys.type)])
            inside = pc.call_function("or_kleene" if low is None else "and", [inside, below])
        return batch.filter(inside)

    def _open_footer(self) -> pq.FileMetaData:
        size = self.ref.bytes
        tail = self._fetch(max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
        if size < 12 or bytes(tail[-4:]) != _MAGIC:
            raise self._corrupt("it does not end as a Parquet file")
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if length > size - 4:
            raise self._corrupt("its footer is longer than the object")
        if length > len(tail):
            tail = self._fetch(size - length, length)
        footer = verified(bytes(tail[-length:]))
        if footer is None:
            raise self._corrupt("its footer fails its checksum")
        return self._guard(lambda: decode(footer))

    def _guard(self, decode: Callable[[], Any]) -> Any:
        """Decode a checked part of the file. If that fails, the file was wrong when it was written: raises Corrupt."""
        try:
            return decode()
        except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._corrupt(f"it cannot be decoded ({type(error).__name__})") from None

    def _corrupt(self, what: str) -> Corrupt:
        return Corrupt(
            f"segment {self.key}: {what}. Restore the object from a copy, or run `lithify verify` to find all that is "
            "damaged",
            self.key,
            self.ref.id,
        )


OpenSegment = Callable[[SegmentRef, int], SegmentReader]
"""Opens a segment; a fetch has at most so many bytes."""


def _first_at(keys: Any, bound: bytes) -> int:
    """Index of the first row with a key ≥ `bound`. Requires: keys in order, null keys first."""
    return bisect.bisect_left(ByteStrings(keys), bound, lo=keys.null_count)


class _Window:
    """The bytes of one row group as a file of the object's size, since pyarrow asks for absolute positions."""

    closed = False

    def __init__(self, content: memoryview, start: int, size: int) -> None:
        self._content = content
        self._start = start
        self._size = size
        self._at = 0

    def seek(self, position: int, whence: int = 0) -> int:
        self._at = position + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int) -> memoryview:
        begin = self._at - self._start
        if begin < 0 or begin + length > len(self._content):
            raise ValueError("a read outside the row group")
        self._at += length
        return self._content[begin : begin + length]

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True
