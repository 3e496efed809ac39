"""The door through which records enter: everything is checked before anything is written."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lithify.log.record import Record, record_bytes, record_problem
from lithify.manifest.config import TopicConfig
from lithify.segment.schema import normalise
from lithify.store.errors import InvalidRequest

__all__ = ["APPEND_BYTES_MAX", "Records", "prepare"]

Records = Iterable[Record] | pa.Table | pa.RecordBatch

APPEND_BYTES_MAX = 512 << 20  # of keys, values and headers: an append is one object, made in memory

_ROWS_NAMED = 5  # in a refusal
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def prepare(records: Records, config: TopicConfig, now_ms: int, where: str) -> pa.Table:
    """Records as a table of columns key, value, timestamp_ms, headers, ready to be encoded; `where` names the place
    in refusals. Raises InvalidRequest naming rows by their index, never their contents."""
    given = records if isinstance(records, pa.Table | pa.RecordBatch) else _table(records, where)
    table = normalise(given, now_ms)
    if table.num_rows:
        _check_keys(table, config, where)
        _check_headers(table, where)
        _check_sizes(table, config, where)
        _check_timestamps(table, where)
    if config.message_timestamp_type == "LogAppendTime":
        index = table.schema.get_field_index("timestamp_ms")
        stamped = pa.repeat(pa.scalar(now_ms, pa.int64()), table.num_rows)
        table = table.set_column(index, table.schema.field(index), stamped)
    return table


def _table(records: object, where: str) -> pa.Table:
    if isinstance(records, Record) or not isinstance(records, Iterable):
        raise InvalidRequest(f"{where}: give a list of records, or a pyarrow table, not a {type(records).__name__}")
    rows: list[Record] = []
    total_bytes = 0
    for index, record in enumerate(records):
        problem = record_problem(record)
        if problem is not None:
            raise InvalidRequest(f"{where}: record {index} {problem}. Nothing was appended")
        total_bytes += record_bytes(record)
        if total_bytes > APPEND_BYTES_MAX:
            raise _too_large(where)
        rows.append(record)
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp_ms": pa.array([row.timestamp_ms for row in rows], pa.int64()),
        "headers": pa.array([_header_entries(row) for row in rows], _HEADERS),
    }
    return pa.table(columns)


def _header_entries(record: Record) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": name, "value": value} for name, value in record.headers] or None


def _too_large(where: str) -> InvalidRequest:
    return InvalidRequest(
        f"{where}: the append holds more than {APPEND_BYTES_MAX} bytes: append it in parts. Nothing was appended"
    )


def _refuse(bad: npt.NDArray[np.bool_], where: str, what: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        named = ", ".join(str(row) for row in rows[:_ROWS_NAMED]) + (", …" if len(rows) > _ROWS_NAMED else "")
        raise InvalidRequest(f"{where}: {len(rows)} of {len(bad)} records (rows {named}) {what}. Nothing was appended")


def _check_keys(table: pa.Table, config: TopicConfig, where: str) -> None:
    keys: Any = table.column("key").chunk(0)
    if config.compacted and keys.null_count:
        nulls = keys.is_null().to_numpy(zero_copy_only=False)
        _refuse(nulls, where, "have no key, which a compacted topic cannot keep: give each a key")


def _check_headers(table: pa.Table, where: str) -> None:
    entries: Any = table.column("headers").chunk(0).flatten()
    if entries.null_count or entries.field("key").null_count:
        raise InvalidRequest(f"{where}: headers hold a null entry or a null name: leave it out. Nothing was appended")


def _check_sizes(table: pa.Table, config: TopicConfig, where: str) -> None:
    sizes = _sizes(table)
    if int(sizes.sum()) > APPEND_BYTES_MAX:
        raise _too_large(where)
    most = config.max_message_bytes
    what = f"are larger than max.message.bytes ({most}); the largest has {int(sizes.max())} bytes"
    _refuse(sizes > most, where, what)


def _sizes(table: pa.Table) -> npt.NDArray[np.int64]:
    """`record_bytes` of each row."""
    sizes = _lengths(table.column("key").chunk(0)) + _lengths(table.column("value").chunk(0))
    headers: Any = table.column("headers").chunk(0)
    if headers.null_count < len(headers):
        entries = headers.flatten()
        inside = _lengths(entries.field("key")) + _lengths(entries.field("value"))
        upto = np.concatenate([[0], np.cumsum(inside)])
        counts: Any = pc.call_function("list_value_length", [headers])
        stops = np.cumsum(counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
        sizes += upto[stops] - upto[np.concatenate([[0], stops[:-1]])]
    return sizes


def _lengths(column: Any) -> npt.NDArray[np.int64]:
    lengths: Any = pc.call_function("binary_length", [column])
    return lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _check_timestamps(table: pa.Table, where: str) -> None:
    _refuse(table.column("timestamp_ms").to_numpy() < 0, where, "have a timestamp_ms before 1970")
