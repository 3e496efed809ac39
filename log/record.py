"""One record, as users hold it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any

import msgspec
import pyarrow as pa

from lithify.log.whole import Batches, Whole
from lithify.segment.point_parts import Row

__all__ = [
    "HEADERS_MAX",
    "Headers",
    "Record",
    "as_bytes",
    "record_bytes",
    "record_of",
    "record_problem",
    "to_record",
    "to_records",
    "whole_records",
]

Headers = tuple[tuple[str, bytes | None], ...]

HEADERS_MAX = 10_000  # of one record: as a Record, each takes some 150 bytes of memory

_BYTES = (bytes, NoneType)
_PAIRS = (tuple, list)
_AS_BYTES = " (b'…', or text.encode())"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = 1024  # converted to Python objects at a time


class Record(msgspec.Struct, frozen=True, gc=False):
    """A keyed record. A null value is a tombstone: it deletes its key. Empty bytes are a value, and an empty key is a
    key.

    >>> lithify.Record(b"ada", b"pro", timestamp_ms=1767225600000).key
    b'ada'
    >>> tombstone = lithify.Record(key=b"ada", value=None)

    `timestamp_ms` is in milliseconds since 1970; None: the time of the append. The log assigns `offset`: before the
    append it is None, and an append ignores it.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()
    offset: int | None = None


def record_of(row: Mapping[str, Any], sources: Mapping[str, str]) -> Record:
    """A dict as a record: `sources` says which of its fields are key, value, timestamp_ms and headers. Text becomes
    UTF-8, an aware datetime milliseconds, a dict of headers pairs. What does not fit stays as it is, for
    `record_problem`."""
    given = {name: row[source] for name, source in sources.items() if source in row}
    headers = given.get("headers") or ()
    if isinstance(headers, Mapping):
        headers = tuple((name, as_bytes(value)) for name, value in headers.items())
    time_ms = _as_ms(given.get("timestamp_ms"))
    return Record(as_bytes(given.get("key")), as_bytes(given.get("value")), time_ms, headers)


def _as_ms(given: Any) -> Any:
    if isinstance(given, datetime) and given.tzinfo is not None:
        return (given - _EPOCH) // timedelta(milliseconds=1)
    return given


def as_bytes(given: Any) -> Any:
    """Text as UTF-8; anything else, and text that has none, as it is."""
    return given.encode() if isinstance(given, str) and _has_utf8(given) else given


def record_problem(record: object, named: Mapping[str, str] | None = None) -> str | None:
    """Why `record` cannot be appended to any topic; None: it can. Names types, never contents.
    `named`: it was a dict, whose fields were named so."""
    if not isinstance(record, Record):
        return f"is a {type(record).__name__}, not a lithify.Record or a dict"
    for name, given in (("key", record.key), ("value", record.value)):
        if type(given) not in _BYTES:
            how = "text, bytes" if named is not None else f"bytes{_AS_BYTES}" if isinstance(given, str) else "bytes"
            if isinstance(given, int | float):  # a number has many spellings: the caller chooses
                how = f"text (str({name})), bytes" if named is not None else f"bytes (str({name}).encode())"
            shown = name if named is None or name not in named else f"{name} {named[name]}"
            return f"has a {shown} of type {type(given).__name__}: give {how} or None"
    time = record.timestamp_ms
    if type(time) not in (int, NoneType) or not 0 <= (time or 0) < 1 << 63:
        return "has a timestamp_ms that is not a whole number of milliseconds since 1970"
    if type(record.headers) not in _PAIRS or not all(_is_header(pair) for pair in record.headers):
        return "has headers that are not a sequence of (str, bytes or None) pairs"
    if len(record.headers) > HEADERS_MAX:
        return f"has {len(record.headers)} headers; at most {HEADERS_MAX} are allowed"
    return None


def _is_header(pair: object) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2 or type(pair[1]) not in _BYTES:
        return False
    return type(pair[0]) is str and _has_utf8(pair[0])


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return False
    return True


def record_bytes(record: Record) -> int:
    """The size that max.message.bytes bounds: key, value and headers together. A header counts with its two lengths, as
    Kafka writes them: at least two bytes, so that none is free."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _counted(len(name) if name.isascii() else len(name.encode())) + _counted(len(value or b""))
    return size


def _counted(length: int) -> int:
    """So many bytes, and the varint of their number before them: 7 bits per byte, after its sign."""
    return length + (length.bit_length() + 7) // 7


def to_record(row: Row) -> Record:
    pairs = tuple((pair["key"], pair["value"]) for pair in row.headers) if row.headers else ()
    return Record(row.key, row.value, row.timestamp_ms, pairs, row.offset)


def whole_records(log: Batches, where: str) -> Iterator[Record]:
    """The rows of `log`, which has schema RECORDS. An error is raised again at each further call."""
    return Whole(to_records(log.rows), where)


def to_records(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
    """The rows of batches with schema RECORDS."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            columns = [column.to_pylist() for column in batch.slice(start, _ROWS).columns]
            for key, value, offset, timestamp_ms, headers in zip(*columns, strict=True):
                pairs = tuple((pair["key"], pair["value"]) for pair in headers or ())
                yield Record(key, value, timestamp_ms, pairs, offset)
