"""The one door for records: all that is appended is checked here, before anything is written.

Tables are converted first (`frames`: whose they are and which columns; `tables`: types and layouts), Record objects and
dicts are looked at one by one (`record`: types), and then both meet the same checks: keys, headers, sizes, times. A
producer has had its records checked one at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from lithify.log.frames import AS_NAMED, ArrowArray, ArrowStream, Columns, Frame, frame_of
from lithify.log.record import HEADERS_MAX, Record, record_bytes, record_of, record_problem
from lithify.log.tables import normalise
from lithify.manifest.config import LONG_MAX, TopicConfig
from lithify.manifest.words import counted
from lithify.segment.arrays import Flags, Longs, from_longs, longs, nulls, starts
from lithify.segment.schema import APPEND, L0
from lithify.store.errors import InvalidRequest

__all__ = ["APPEND_BYTES_MAX", "Records", "prepare", "timestamp_problem"]

Records = Iterable[Record | Mapping[str, Any]] | Frame
"""What can be appended: records, dicts with their fields, or a table of any library that speaks Arrow."""

APPEND_BYTES_MAX = 512 << 20  # of keys, values and headers: an append is one object, built in memory

_ROWS_NAMED = 5  # in a refusal
_NOTHING = "None of this batch was appended"
_HEADERS = L0.field("headers").type
_LONGER = np.array([1 << 6, 1 << 13, 1 << 20, 1 << 27], np.int64)  # from each of these on, a number takes one byte more


def prepare(
    records: Records,
    config: TopicConfig,
    now_ms: int,
    where: str,
    *,
    columns: Columns = AS_NAMED,
    admitted: bool = False,
    first: int = 0,
) -> pa.Table:
    """Records as a table with columns key, value, timestamp_ms, headers, ready to be encoded. `where` names the place
    in refusals. Raises InvalidRequest, naming rows by index, never by content; `first` is the index of the first row.

    `admitted`: each record was checked against the configuration when it was handed over. It is not checked again: time
    has passed, and the configuration may have changed.
    """
    if isinstance(records, ArrowStream | ArrowArray):
        table = normalise(frame_of(records, columns, where), now_ms, columns.shown)
    elif admitted and isinstance(records, list):
        table = _columns(cast("list[Record]", records), now_ms)
    else:
        table = _table(records, columns, now_ms, where)
    if table.num_rows and not admitted:
        place = _Place(where, first)
        _check_keys(table, config, place)
        _check_headers(table, place)
        _check_sizes(table, config, place)
        _check_timestamps(table, config, now_ms, place)
    if config.message_timestamp_type == "LogAppendTime":
        index = table.schema.get_field_index("timestamp_ms")
        stamped = pa.repeat(pa.scalar(now_ms, pa.int64()), table.num_rows)
        table = table.set_column(index, table.schema.field(index), stamped)
    return table


def _table(records: object, columns: Columns, now_ms: int, where: str) -> pa.Table:
    if isinstance(records, Record | Mapping) or not isinstance(records, Iterable):
        raise InvalidRequest(f"{where}: give a list of records, or a table, not a {type(records).__name__}")
    rows: list[Record] = []
    total_bytes = 0
    for index, given in enumerate(records):
        record = _record(given, columns, f"{where}: record {index}") if isinstance(given, Mapping) else given
        problem = record_problem(record, columns.shown if isinstance(given, Mapping) else None)
        if problem is not None:
            raise InvalidRequest(f"{where}: record {index} {problem}. {_NOTHING}")
        total_bytes += record_bytes(record)
        if total_bytes > APPEND_BYTES_MAX:
            raise _too_large(where)
        rows.append(record)
    return _columns(rows, now_ms)


def _record(row: Mapping[str, Any], columns: Columns, where: str) -> Record:
    """A dict as a record. A field that is missing would make a tombstone of it, or take its key away: it is refused."""
    known = [name for name in row if type(name) is str]
    sources = columns.find(known, where)
    extra = [name for name in row if name not in APPEND.names]
    if extra and not columns.chosen:
        raise InvalidRequest(
            f"{where} has a field {extra[0]!r}, which is not one of {', '.join(APPEND.names)}: leave it out, or say "
            f"which are the key and the value (key= and value=). {_NOTHING}"
        )
    if "value" not in sources:
        raise InvalidRequest(
            f"{where} has no value: give each record one (None is a tombstone), or name its field (value=). {_NOTHING}"
        )
    return record_of(row, sources)


def _columns(rows: list[Record], now_ms: int) -> pa.Table:
    times = (now_ms if row.timestamp_ms is None else row.timestamp_ms for row in rows)
    headers = pa.nulls(len(rows), _HEADERS)
    if any(row.headers for row in rows):
        headers = pa.array([_header_entries(row) for row in rows], _HEADERS)
    columns = {
        "key": _binary([row.key for row in rows]),
        "value": _binary([row.value for row in rows]),
        "timestamp_ms": from_longs(np.fromiter(times, np.int64, len(rows))),
        "headers": headers,
    }
    return pa.table(columns)


def _binary(values: list[bytes | None]) -> pa.Array:
    """As `pa.array`, which would import pandas for this."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value or b"") for value in values], out=ends[1:])
    content = pa.py_buffer(b"".join(value or b"" for value in values))
    known = np.fromiter((value is not None for value in values), np.bool_, len(values))
    valid = np.packbits(known, bitorder="little")
    return pa.Array.from_buffers(pa.binary(), len(values), [pa.py_buffer(valid), pa.py_buffer(ends), content])


def _header_entries(record: Record) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": name, "value": value} for name, value in record.headers] or None


def _too_large(where: str) -> InvalidRequest:
    return InvalidRequest(
        f"{where}: the append holds more than {APPEND_BYTES_MAX} bytes: append it in parts. {_NOTHING}"
    )


class _Place(NamedTuple):
    name: str
    first: int  # the index of the first record


_OF_ONE: Final = {"have": "has", "are": "is"}


def _refuse(bad: Flags, where: _Place, what: str) -> None:
    """`what`: "have …", or "are …"."""
    rows = np.flatnonzero(bad)
    if len(rows):
        verb, _, rest = what.partition(" ")
        what = what if len(rows) > 1 else f"{_OF_ONE[verb]} {rest}"
        named = "row " if len(rows) == 1 else "rows "
        named += ", ".join(str(where.first + row) for row in rows[:_ROWS_NAMED])
        named += ", …" if len(rows) > _ROWS_NAMED else ""
        raise InvalidRequest(f"{where.name}: {len(rows)} of {counted(len(bad), 'record')} ({named}) {what}. {_NOTHING}")


def _check_keys(table: pa.Table, config: TopicConfig, where: _Place) -> None:
    keys: Any = table.column("key").chunk(0)
    if config.compacted and keys.null_count:
        _refuse(
            nulls(keys),
            where,
            "have no key, which a compacted topic cannot keep: give each a key (of a table, key= names its column)",
        )


def _check_headers(table: pa.Table, where: _Place) -> None:
    entries: Any = table.column("headers").chunk(0).flatten()
    if entries.null_count or entries.field("key").null_count:
        raise InvalidRequest(f"{where.name}: headers hold a null entry or a null name: leave it out. {_NOTHING}")
    counts = _lengths(table.column("headers").chunk(0))
    what = f"have more than {HEADERS_MAX} headers; the largest number is {int(counts.max())}"
    _refuse(counts > HEADERS_MAX, where, what)


def _check_sizes(table: pa.Table, config: TopicConfig, where: _Place) -> None:
    sizes = _sizes(table)
    if int(sizes.sum()) > APPEND_BYTES_MAX:
        raise _too_large(where.name)
    most = config.max_message_bytes
    what = f"are larger than max.message.bytes ({most}); the largest has {int(sizes.max())} bytes"
    _refuse(sizes > most, where, what)


def _sizes(table: pa.Table) -> Longs:
    """`record_bytes` of each row."""
    sizes = _lengths(table.column("key").chunk(0)) + _lengths(table.column("value").chunk(0))
    headers: Any = table.column("headers").chunk(0)
    if headers.null_count < len(headers):
        entries = headers.flatten()
        inside = _counted(_lengths(entries.field("key"))) + _counted(_lengths(entries.field("value")))
        upto = np.concatenate([[0], np.cumsum(inside)])
        stops = np.cumsum(_lengths(headers))
        sizes += upto[stops] - upto[np.concatenate([[0], stops[:-1]])]
    return sizes


def _counted(lengths: Longs) -> Longs:
    """As `record_bytes` counts a header: with the bytes of its length."""
    return lengths + 1 + np.searchsorted(_LONGER, lengths, side="right")


def _lengths(column: Any) -> Longs:
    """The length of each row: its bytes, or header entries; 0 for null."""
    lengths = np.diff(starts(column))
    lengths[nulls(column)] = 0
    return lengths


def _check_timestamps(table: pa.Table, config: TopicConfig, now_ms: int, where: _Place) -> None:
    times = longs(table.column("timestamp_ms").chunk(0))
    oldest_ms, latest_ms = _admitted(config, now_ms)
    _refuse(times < 0, where, "have a timestamp_ms before 1970")
    _refuse(times < oldest_ms, where, _too_old(config))
    _refuse(times > latest_ms, where, _too_new(config))


def timestamp_problem(timestamp_ms: int | None, config: TopicConfig, now_ms: int) -> str | None:
    """Why a record with this time is not accepted by the topic at `now_ms`; None: it is."""
    oldest_ms, latest_ms = _admitted(config, now_ms)
    if timestamp_ms is None or oldest_ms <= timestamp_ms <= latest_ms:
        return None
    return (_too_old(config) if timestamp_ms < oldest_ms else _too_new(config)).replace("have", "has", 1)


def _admitted(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and latest acceptable time; with LogAppendTime any, since a record's own is ignored (KIP-937)."""
    if config.message_timestamp_type == "LogAppendTime":
        return 0, LONG_MAX
    latest_ms = min(now_ms + config.message_timestamp_after_max_ms, LONG_MAX)
    return max(now_ms - config.message_timestamp_before_max_ms, 0), latest_ms


def _too_old(config: TopicConfig) -> str:
    limit_ms = config.message_timestamp_before_max_ms
    return f"have a timestamp_ms that is older than message.timestamp.before.max.ms ({limit_ms}) allows"


def _too_new(config: TopicConfig) -> str:
    limit_ms = config.message_timestamp_after_max_ms
    return f"have a timestamp_ms further in the future than message.timestamp.after.max.ms ({limit_ms}) allows"
