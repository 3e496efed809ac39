"""Columns of a segment, with Parquet field ids that never change, and the door through which users' tables enter."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lithify.store.errors import InvalidRequest

__all__ = ["APPEND_BYTES_MAX", "FIELD_IDS", "L0", "RECORDS", "RUN", "normalise"]

# By these numbers engines follow a column through renames: a number is never reused and never moves.
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

APPEND_BYTES_MAX = 1 << 30  # of one table in memory: binary columns count their bytes in 31 bits


def _field(path: str, kind: pa.DataType) -> pa.Field:
    return pa.field(path.rpartition(".")[2], kind, metadata={b"PARQUET:field_id": str(FIELD_IDS[path]).encode()})


_HEADER = pa.struct([_field("headers.element.key", pa.string()), _field("headers.element.value", pa.binary())])
_KEY = _field("key", pa.binary())
_VALUE = _field("value", pa.binary())
_OFFSET = _field("offset", pa.int64())
_TIMESTAMP = _field("timestamp_ms", pa.int64())
_HEADERS = _field("headers", pa.list_(_field("headers.element", _HEADER)))

RECORDS: Final = pa.schema([_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS])
"""What users see."""

L0: Final = pa.schema([_KEY, _VALUE, _field("offset_delta", pa.int64()), _TIMESTAMP, _HEADERS])
"""One append: the commit assigns the base offset, so rows carry their distance from it."""

RUN: Final = pa.schema([_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS, _field("horizon_ms", pa.int64())])
"""A compacted segment, and every batch inside the merge. `horizon_ms`: a stamped tombstone may go from then on (R4)."""

_APPEND: Final = pa.schema([_KEY, _VALUE, _TIMESTAMP, _HEADERS])


def normalise(table: pa.Table | pa.RecordBatch, now_ms: int) -> pa.Table:
    """A user's table as columns key, value, timestamp_ms, headers, one chunk each, rows in the order given.

    Text, large, view, fixed-size and dictionary types are cast; a missing key or headers column is null throughout; a
    missing or null timestamp becomes `now_ms`. Raises InvalidRequest naming the column and what to do.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    _check_columns(table)
    columns = [_column(table, field, now_ms) for field in _APPEND]
    return pa.Table.from_arrays(columns, schema=_APPEND)


def _check_columns(table: pa.Table) -> None:
    if len(set(table.column_names)) != table.num_columns:
        raise InvalidRequest("the table has two columns of one name: rename or drop one")
    for name in table.column_names:
        if name in ("offset", "horizon_ms"):
            raise InvalidRequest(f"column {name!r} is assigned by the log: drop it before appending")
        if name not in _APPEND.names:
            raise InvalidRequest(f"column {name!r} is none of {', '.join(_APPEND.names)}: drop or rename it")
    if "value" not in table.column_names:
        raise InvalidRequest("column 'value' is missing: name the value column so (nulls in it are tombstones)")
    if table.nbytes > APPEND_BYTES_MAX:
        raise InvalidRequest(f"the table holds {table.nbytes} bytes, at most {APPEND_BYTES_MAX}: append it in parts")


def _column(table: pa.Table, field: pa.Field, now_ms: int) -> pa.Array:
    if field.name not in table.column_names:
        if field.name == "timestamp_ms":
            return pa.repeat(pa.scalar(now_ms, pa.int64()), table.num_rows)
        return pa.nulls(table.num_rows, field.type)
    given = table.column(field.name)
    try:
        array = _cast(_plain(given), field)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        # Not chained: Arrow's own message may quote the value that failed.
        raise InvalidRequest(
            f"column {field.name!r} has type {given.type}, which does not become {field.type}: cast it before appending"
        ) from None
    return pc.fill_null(array, now_ms) if field.name == "timestamp_ms" else array


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    kind: Any = array.type
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        lists = pa.ListArray.from_arrays(array.offsets, pairs)
        array = pc.call_function("if_else", [array.is_valid(), lists, pa.scalar(None, lists.type)])
    elif pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ms", kind.tz), safe=False)
    elif field.name == "headers" and not (pa.types.is_null(kind) or _is_pairs(kind)):
        raise pa.ArrowTypeError("not key-value pairs")
    elif pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        raise pa.ArrowTypeError("not a whole number")
    elif field.name in ("key", "value") and not _is_bytes(kind):
        raise pa.ArrowTypeError("not bytes")
    return array.cast(field.type)


def _is_pairs(kind: Any) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return (
        any(test(kind) for test in lists)
        and pa.types.is_struct(kind.value_type)
        and [child.name for child in kind.value_type] == ["key", "value"]
    )


def _is_bytes(kind: Any) -> bool:
    tests = (
        pa.types.is_binary,
        pa.types.is_string,
        pa.types.is_large_binary,
        pa.types.is_large_string,
        pa.types.is_binary_view,
        pa.types.is_string_view,
        pa.types.is_fixed_size_binary,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)
