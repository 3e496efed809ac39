"""Records of ordinary tables: which column is the key, the value, the time, and which says that a row is a deletion.

    one value column        its content as it is; null is a tombstone
    several value columns   a JSON object of them
    none                    the whole row as a JSON object

Contents other than text and bytes are written as in JSON. Errors name rows and columns, never contents.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from lithify.cli.records.lines import not_json_hint
from lithify.log.record import Record, record_problem
from lithify.store.errors import InvalidRequest

__all__ = ["Roles", "delimiter_bytes", "in_seconds", "keyed_record", "time_ms"]

_YES = {"true", "t", "yes", "y", "1", "d", "delete", "deleted"}
_NO = {"", "false", "f", "no", "n", "0", "c", "create", "r", "read", "u", "update", "i", "insert", "upsert"}
_ESCAPE = re.compile(rb"\\(t|\\|x[0-9A-Fa-f]{2})")
_ESCAPES = {b"t": b"\t", b"\\": b"\\"}
_NO_TIME = {"nan", "nat", "none", "null", "n/a", "na", "-", "inf", "infinity"}
_MILLISECONDS = re.compile(r"[+-]?[0-9]+")


class _Bad(Exception):
    """What is wrong with a row, without its contents."""


def _shown(value: Any) -> str:
    """Times of pandas, decimals and what else JSON does not have."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_encoder = msgspec.json.Encoder(enc_hook=_shown)
_objects = msgspec.json.Decoder(dict[str, Any])


class Roles(NamedTuple):
    """Columns by their role; none of them: the columns are a record's own."""

    key: str | None = None
    value: tuple[str, ...] = ()
    timestamp: str | None = None
    delete: str | None = None

    @property
    def given(self) -> bool:
        return self != Roles()

    @property
    def named(self) -> list[str]:
        return [name for name in (self.key, *self.value, self.timestamp, self.delete) if name is not None]

    def flag_of(self, name: str) -> str:
        """The flag that asks for this column. Requires: one does."""
        flags = (("--key-column", self.key), ("--timestamp-column", self.timestamp), ("--delete-column", self.delete))
        return next((flag for flag, asked in flags if asked == name), "--value-column")

    def check(self, names: list[str], source: str) -> None:
        """Raises InvalidRequest if the table has not all of the columns."""
        missing = [name for name in self.named if name not in names]
        if missing:
            known = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise InvalidRequest(
                f"{source} has no column {missing[0]!r} ({self.flag_of(missing[0])}); it has {known} (in CSV the first "
                "line names them)"
            )

    def batch(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Records of the rows, whose first one is row `first` of the source."""
        columns: dict[str, Any] = {name: rows.column(name) for name in self.named}
        count = rows.num_rows
        key = pa.nulls(count, pa.binary()) if self.key is None else _content(columns[self.key])
        value = _content(columns[self.value[0]]) if len(self.value) == 1 else self._objects_of(rows)
        if self.delete is not None:
            gone = [_is_deletion(given, first + at, "row") for at, given in enumerate(columns[self.delete].to_pylist())]
            value = pa.array(
                [None if away else each for away, each in zip(gone, value.to_pylist(), strict=True)], pa.binary()
            )
        made: dict[str, Any] = {"key": key, "value": value}
        if self.timestamp is not None:
            made["timestamp_ms"] = _times(columns[self.timestamp], first)
        return pa.RecordBatch.from_pydict(made)

    def _objects_of(self, rows: pa.RecordBatch) -> pa.Array:
        names = [name for name in self.value or rows.schema.names if name != self.delete or name in self.value]
        lines = [_encoder.encode(row) for row in rows.select(names).to_pylist()]
        return pa.array(lines, pa.binary())

    def line(self, line: bytes, number: int) -> Record:
        """The record of a line that holds any JSON object. Raises InvalidRequest, naming the line."""
        try:
            record = self._record(line, number)
            problem = record_problem(record)
        except _Bad as bad:
            problem = str(bad)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            problem = f"is not a JSON object{not_json_hint(line, number)}"
        else:
            if problem is None:
                return record
        raise InvalidRequest(f"line {number} {problem}")

    def _record(self, line: bytes, number: int) -> Record:
        row = _objects.decode(line)
        key = None if self.key is None else _bytes(self._field(row, self.key))
        time = None if self.timestamp is None else _time(self._field(row, self.timestamp))
        if self.delete is not None and _is_deletion(row.get(self.delete), number, "line"):
            return Record(key, None, time)
        if len(self.value) == 1:
            return Record(key, _bytes(self._field(row, self.value[0])), time)
        if self.value:
            return Record(key, _encoder.encode({name: self._field(row, name) for name in self.value}), time)
        if self.delete is None:
            return Record(key, line.strip(), time)
        return Record(key, _encoder.encode({name: each for name, each in row.items() if name != self.delete}), time)

    def _field(self, row: Mapping[str, Any], name: str) -> Any:
        if name not in row:
            raise _Bad(f"has no field {name!r} ({self.flag_of(name)})")
        return row[name]


def delimiter_bytes(given: bytes) -> bytes:
    """As kcat's -K, where shells pass on a backslash: \\t is a tab, \\x01 the byte 1, and \\\\ a backslash."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1]) or bytes([int(found[1][1:], 16)]), given)


def keyed_record(line: bytes, delimiter: bytes) -> Record:
    """As kcat's -K: key, delimiter, value. A line without the delimiter is a value without a key."""
    key, found, value = line.removesuffix(b"\r").partition(delimiter)
    return Record(key, value) if found else Record(None, key)


def _bytes(content: Any) -> bytes | None:
    if content is None:
        return None
    return content.encode() if isinstance(content, str) else _encoder.encode(content)


def _content(column: Any) -> Any:
    """A column as bytes."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return column.cast(pa.binary())
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary() if not pa.types.is_fixed_size_binary(kind) else pa.binary())
    values = column.to_pylist()
    return pa.array([None if each is None else _text(each) for each in values], pa.binary())


def _text(value: Any) -> bytes:
    encoded = _encoder.encode(value)
    return encoded[1:-1] if encoded[:1] == b'"' else encoded  # times and decimals, which need no escapes


def _is_deletion(value: Any, number: int, what: str) -> bool:
    text = "" if value is None else str(value).strip().lower()
    if text in _YES:
        return True
    if text in _NO:
        return False
    raise InvalidRequest(
        f"{what} {number} has a deletion mark that is neither yes (true, yes, 1, d, delete) nor no (false, no, 0, c, "
        "r, u, insert, update, empty)"
    )


def _times(column: Any, first: int) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column  # numbers of milliseconds, or timestamps of any unit: checked when they are appended
    made: list[int | None] = []
    for at, text in enumerate(column.to_pylist()):
        try:
            made.append(_time(text))
        except _Bad as bad:
            raise InvalidRequest(f"row {first + at} {bad}") from None
    return pa.array(made, pa.int64())


def _time(value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    at_ms = time_ms(value) if isinstance(value, str) else None
    if at_ms is None:
        unknown = str(value).strip().lower() in _NO_TIME
        hint = "; leave it empty if it has none" if unknown else ""
        raise _Bad(f"has a time that is neither milliseconds since 1970 nor ISO 8601{hint}")
    return at_ms


def in_seconds(timestamp_ms: int) -> bool:
    """Whether it is more plausible as seconds since 1970: then it is from 1973 to 5138; else from 1970 to 1973."""
    return 10**8 <= timestamp_ms < 10**11


def time_ms(text: str) -> int | None:
    """Milliseconds since 1970 of a number of them, or of an ISO 8601 time; without a zone it is UTC. None: it is
    neither."""
    if _MILLISECONDS.fullmatch(text.strip()):
        return int(text)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
