"""What a segment's bytes decode to is worked out once a history: that took most of its time, and the same bytes are the
same rows whoever reads them. Each request that a reader makes is still made."""

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from lithify.segment import read
from lithify.segment.footer import RowGroup
from lithify.segment.read import SegmentReader

__all__ = ["decoded_once"]


class _Decoded:
    def __init__(self) -> None:
        self._decode, self._row_groups = read.decode, read.row_groups
        self._footers: dict[bytes, pq.FileMetaData] = {}
        self._groups: dict[tuple[int, int], tuple[RowGroup, ...]] = {}

    def decode(self, footer: bytes) -> pq.FileMetaData:
        found = self._footers.get(footer)
        if found is None:
            found = self._footers[footer] = self._decode(footer)
        return found

    def row_groups(self, footer: pq.FileMetaData, base_offset: int) -> tuple[RowGroup, ...]:
        place = id(footer), base_offset  # it is kept above, so its identity stays its own
        found = self._groups.get(place)
        if found is None:
            found = self._groups[place] = self._row_groups(footer, base_offset)
        return found


@contextmanager
def decoded_once() -> Generator[None]:
    known = _Decoded()
    batches: dict[Hashable, pa.RecordBatch] = {}
    decodes: Callable[..., pa.RecordBatch] = vars(SegmentReader)["_batch"]

    def batch(
        reader: SegmentReader,
        group: RowGroup,
        names: frozenset[str],
        pieces: list[tuple[int, memoryview]],
        *,
        check_pages: bool,
    ) -> pa.RecordBatch:
        content = tuple((start, bytes(piece)) for start, piece in pieces)
        place = reader.key, reader.ref.base_offset, group, names, content, check_pages
        found = batches.get(place)
        if found is None:
            found = batches[place] = decodes(reader, group, names, pieces, check_pages=check_pages)
        return found

    with (
        patch("lithify.segment.read.decode", known.decode),
        patch("lithify.segment.read.row_groups", known.row_groups),
        patch.object(SegmentReader, "_batch", batch),
    ):
        yield
