"""The columns of a user's table, cast to the types of an append."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lithify.log.layout import as_bytes, as_lists, content_bytes, is_bytes, is_pairs
from lithify.segment.schema import APPEND
from lithify.store.errors import InvalidRequest

__all__ = ["NAME_THEM", "TABLE_BYTES_MAX", "normalise"]

NAME_THEM = "say which are the key and the value (key= and value=; on the command line --key-column and --value-column)"

# Of keys, values and headers, before they are converted: a plain binary column counts its bytes in 31 bits. What one
# append may hold is less, and is counted by record (`intake.APPEND_BYTES_MAX`).
TABLE_BYTES_MAX = 1 << 30


def normalise(
    table: pa.Table | pa.RecordBatch, now_ms: int, named: Mapping[str, str] = MappingProxyType({})
) -> pa.Table:
    """A user's table as columns key, value, timestamp_ms, headers, one chunk each, rows in the order given.

    Text, large, view, fixed-size and dictionary types are cast. A missing key or headers column is all null; a missing
    or null timestamp becomes `now_ms`. `named`: how to show the user's columns that became these, such as
    "'id' (key=)" for key. Raises InvalidRequest, naming the column and what to do.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    _check_columns(table)
    _check_types(table, named)
    _check_content(table)
    columns = {
        field.name: _column(table.column(field.name), field, named)
        for field in APPEND
        if field.name in table.schema.names
    }
    times = columns.get("timestamp_ms", pa.nulls(table.num_rows, pa.int64()))
    columns["timestamp_ms"] = pc.fill_null(times, now_ms)
    return pa.Table.from_arrays(
        [columns.get(field.name, pa.nulls(table.num_rows, field.type)) for field in APPEND], schema=APPEND
    )


def _check_columns(table: pa.Table) -> None:
    if len(set(table.column_names)) != table.num_columns:
        raise InvalidRequest("the table has two columns with the same name: rename or drop one")
    for name in table.column_names:
        if name in ("offset", "horizon_ms"):
            raise InvalidRequest(f"column {name!r} is assigned by the log: drop it before appending")
        if name not in APPEND.names:
            raise InvalidRequest(
                f"column {name!r} is not one of {', '.join(APPEND.names)}: drop or rename it, or {NAME_THEM}"
            )
    if "value" not in table.column_names:
        raise InvalidRequest(f"column 'value' is missing: {NAME_THEM} (nulls are tombstones)")


def _column(given: pa.ChunkedArray, field: pa.Field, named: Mapping[str, str]) -> pa.Array:
    """Requires: `_check_content` passed."""
    try:
        chunks = [_plain(chunk, field) for chunk in given.chunks]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, pa.array([], field.type)])
    except pa.ArrowException:
        # Not chained: Arrow's message may quote the value that failed.
        raise _refused(given, field, named) from None


def _refused(given: pa.ChunkedArray, field: pa.Field, named: Mapping[str, str]) -> InvalidRequest:
    shown = named.get(field.name, repr(field.name))
    return InvalidRequest(f"column {shown} has type {given.type}: cast it before appending, to {_TAKEN[field.name]}")


def _check_types(table: pa.Table, named: Mapping[str, str]) -> None:
    for field in (field for field in APPEND if field.name in table.column_names):
        given = table.column(field.name)
        if not _FITS[field.name](given.type):
            raise _refused(given, field, named)


def _check_content(table: pa.Table) -> None:
    """Refuse, before the conversion, what Arrow would wrap around, or take gigabytes for."""
    named = [name for name in ("key", "value", "headers") if name in table.column_names]
    held = sum(content_bytes(chunk) for name in named for chunk in table.column(name).chunks)
    if held > TABLE_BYTES_MAX:
        raise InvalidRequest(
            f"the table holds {held} bytes, but at most {TABLE_BYTES_MAX} are allowed: append it in parts"
        )


def _plain(chunk: Any, field: pa.Field) -> pa.Array:
    kind: Any = chunk.type
    if pa.types.is_null(kind):
        return pa.nulls(len(chunk), field.type)
    if field.name == "headers":
        return as_lists(chunk).cast(field.type)
    if field.name != "timestamp_ms":
        return as_bytes(chunk)
    if pa.types.is_dictionary(kind):
        chunk, kind = chunk.dictionary_decode(), kind.value_type
    if pa.types.is_timestamp(kind):  # finer units are cut to milliseconds; seconds that overflow are refused
        chunk = chunk.cast(pa.timestamp("ms", kind.tz), safe=kind.unit == "s")
    return chunk.cast(field.type)


def _is_time(kind: Any) -> bool:
    """Milliseconds since 1970 as a number or text, or a timestamp. Durations and dates are refused: Arrow would take
    their bare number, whatever its unit."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_null, *_IS_TEXT)
    return any(test(kind) for test in tests)


_TAKEN: Final = {
    "key": "text or bytes",
    "value": "text or bytes",
    "timestamp_ms": "a timestamp, or whole milliseconds since 1970",
    "headers": "a list of structs with key and value, or a map",
}
_IS_TEXT: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_FITS: Final = {
    "key": is_bytes,
    "value": is_bytes,
    "timestamp_ms": _is_time,
    "headers": lambda kind: pa.types.is_null(kind) or is_pairs(kind),
}
