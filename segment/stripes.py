"""Decode some rows of a row group, from the pages that hold them (docs/rfcs/0025).

pyarrow reads whole column chunks. So the pages are put together as a small Parquet file with one row group, and pyarrow
reads that. The CRC-32 of each page is checked here; it does not cover the page's header, so each field of the header
must be what the page index and the footer, both verified, say.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lithify.segment import thrift
from lithify.segment.page_index import Page, Stripe

__all__ = ["Chunk", "chunks_of", "decoded", "schema_of_footer"]

_TYPES = {"INT64": 2, "BYTE_ARRAY": 6}
_CODECS = {"UNCOMPRESSED": 0, "ZSTD": 6}
_ENCODINGS = {"PLAIN": 0, "DELTA_BINARY_PACKED": 5}
_RLE = 3  # of levels
_DATA_PAGE = 0
_MAGIC = b"PAR1"


class Chunk(NamedTuple):
    """A column of a row group."""

    path: str
    type: int
    codec: int
    encoding: int  # of its values
    start: int
    end: int
    raw_bytes: int


def schema_of_footer(footer: bytes) -> bytes:
    """The schema as it is stored."""
    start, end = thrift.span_of(footer, 2)
    return footer[start:end]


def chunks_of(group: Any) -> tuple[Chunk, ...]:
    """The columns of a row group, from pyarrow's metadata; none if its stripes cannot be read alone: one record has
    several headers, or another program wrote it in its own way."""
    found: list[Chunk] = []
    for number in range(group.num_columns):
        column = group.column(number)
        kinds = [_ENCODINGS[name] for name in column.encodings if name in _ENCODINGS]
        known = column.physical_type in _TYPES and column.compression in _CODECS and len(kinds) == 1
        if not known or column.num_values != group.num_rows or column.has_dictionary_page:
            return ()
        start = column.data_page_offset
        found.append(
            Chunk(
                column.path_in_schema,
                _TYPES[column.physical_type],
                _CODECS[column.compression],
                kinds[0],
                start,
                start + column.total_compressed_size,
                column.total_uncompressed_size,
            )
        )
    return tuple(found)


def decoded(schema: bytes, chunks: Sequence[Chunk], stripe: Stripe, contents: Sequence[bytes]) -> pa.RecordBatch:
    """The rows of `stripe`. `contents`: its pages in each column. Raises ValueError, or what pyarrow raises, if they
    are not what was written."""
    for chunk, pages, content in zip(chunks, stripe.columns, contents, strict=True):
        _check(chunk, pages, content)
    file = pq.ParquetFile(pa.BufferReader(_file(schema, chunks, stripe.rows, contents)), pre_buffer=False)
    table = file.read_row_group(0, use_threads=False).combine_chunks()
    if table.num_rows != stripe.rows:
        raise ValueError("another number of rows than its page index says")
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches[0]


def _check(chunk: Chunk, pages: Sequence[Page], content: bytes) -> None:
    at, raw = 0, 0
    for page in pages:
        header, start = thrift.read(content, at)
        end = at + page.bytes
        values = header.get(5)
        if (
            header.keys() != {1, 2, 3, 4, 5}
            or not isinstance(values, dict)
            or (header[1], header[3]) != (_DATA_PAGE, end - start)
            or tuple(values.get(field) for field in (1, 2, 3, 4)) != (page.rows, chunk.encoding, _RLE, _RLE)
            or zlib.crc32(content[start:end]) != header[4] & 0xFFFFFFFF
        ):
            raise ValueError("a page fails its checksum")
        raw += header[2] + start - at
        at = end
    if at != len(content) or raw > chunk.raw_bytes:
        raise ValueError("pages of another size")


def _file(schema: bytes, chunks: Sequence[Chunk], rows: int, contents: Sequence[bytes]) -> bytes:
    at, columns = len(_MAGIC), list[bytes]()
    for chunk, content in zip(chunks, contents, strict=True):
        columns.append(_column(chunk, rows, at, len(content)))
        at += len(content)
    group = (
        thrift.field(1, "list", thrift.listing("struct", columns))
        + thrift.field(1, "i64", thrift.whole(at))
        + thrift.field(1, "i64", thrift.whole(rows))
        + b"\0"
    )
    footer = (
        thrift.field(1, "i32", thrift.whole(2))
        + thrift.field(1, "list", schema)
        + thrift.field(1, "i64", thrift.whole(rows))
        + thrift.field(1, "list", thrift.listing("struct", [group]))
        + b"\0"
    )
    return b"".join((_MAGIC, *contents, footer, len(footer).to_bytes(4, "little"), _MAGIC))


def _column(chunk: Chunk, rows: int, at: int, size: int) -> bytes:
    encodings = [thrift.whole(_RLE), thrift.whole(chunk.encoding)]
    path = [thrift.text(name.encode()) for name in chunk.path.split(".")]
    contents = (
        thrift.field(1, "i32", thrift.whole(chunk.type))
        + thrift.field(1, "list", thrift.listing("i32", encodings))
        + thrift.field(1, "list", thrift.listing("text", path))
        + thrift.field(1, "i32", thrift.whole(chunk.codec))
        + thrift.field(1, "i64", thrift.whole(rows))
        + thrift.field(1, "i64", thrift.whole(chunk.raw_bytes))
        + thrift.field(1, "i64", thrift.whole(size))
        + thrift.field(2, "i64", thrift.whole(at))
        + b"\0"
    )
    return thrift.field(2, "i64", thrift.whole(at)) + thrift.field(1, "struct", contents) + b"\0"
