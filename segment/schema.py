"""Columns of a segment, with Parquet field ids that never change."""

from typing import Final

import pyarrow as pa

__all__ = ["APPEND", "FIELD_IDS", "L0", "RECORDS", "RUN"]

# Engines follow a column through renames by these numbers: never reuse or change one.
FIELD_IDS: Final = {
    "key": 1,
    "value": 2,
    "offset": 3,
    "offset_delta": 4,
    "timestamp_ms": 5,
    "headers": 6,
    "headers.element": 7,
    "headers.element.key": 8,
    "headers.element.value": 9,
    "horizon_ms": 10,
}


def _field(path: str, kind: pa.DataType) -> pa.Field:
    return pa.field(path.rpartition(".")[2], kind, metadata={b"PARQUET:field_id": str(FIELD_IDS[path]).encode()})


_HEADER = pa.struct([_field("headers.element.key", pa.string()), _field("headers.element.value", pa.binary())])
_KEY = _field("key", pa.binary())
_VALUE = _field("value", pa.binary())
_OFFSET = _field("offset", pa.int64())
_TIMESTAMP = _field("timestamp_ms", pa.int64())
_HEADERS = _field("headers", pa.list_(_field("headers.element", _HEADER)))

RECORDS: Final = pa.schema([_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS])
"""The columns that users see."""

L0: Final = pa.schema([_KEY, _VALUE, _field("offset_delta", pa.int64()), _TIMESTAMP, _HEADERS])
"""One append: the commit assigns the base offset, so rows have their distance from it."""

RUN: Final = pa.schema([_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS, _field("horizon_ms", pa.int64())])
"""A compacted segment, and every batch in a merge. `horizon_ms`: from then on a tombstone may be dropped (R4)."""

APPEND: Final = pa.schema([_KEY, _VALUE, _TIMESTAMP, _HEADERS])
"""What users give: the log adds the rest."""
