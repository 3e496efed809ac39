"""Records as lines of JSON, in both directions.

    {"key": "k", "value": "v", "timestamp_ms": 1, "headers": {"name": "text"}, "partition": 0, "offset": 7}

Bytes that are not UTF-8 are in key_base64 and value_base64, and in headers as {"base64": "…"}. A null value is a
tombstone. Headers are an object, or a list of [name, value] if a name occurs twice. Partition and offset are written
but ignored when read: the log assigns them.
"""

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from lithify.cli.terminal import plain_json
from lithify.log.record import Headers, Record, record_problem
from lithify.store.errors import InvalidRequest

__all__ = [
    "not_json_hint",
    "other_file_hint",
    "parse_headers",
    "parse_line",
    "record_line",
    "record_lines",
    "shown_headers",
]

_Value = str | dict[str, str] | None
_UNSET = msgspec.UNSET
_encoder = msgspec.json.Encoder()


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    key: str | msgspec.UnsetType | None = _UNSET
    key_base64: str | msgspec.UnsetType = _UNSET
    value: str | msgspec.UnsetType | None = _UNSET
    value_base64: str | msgspec.UnsetType = _UNSET
    timestamp_ms: int | None = None
    headers: dict[str, _Value] | list[tuple[str, _Value]] | None = None
    partition: int | None = None
    offset: int | None = None


_decoder = msgspec.json.Decoder(_Line)
_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`(?: - at `\$\.(?P<field>[a-z0-9_]+)`)?")
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*-?(NaN|Infinity)\s*[,\]}]")
_SEPARATED = re.compile(rb"[,;|\t:]")
_OTHER_FILES = {  # by their first bytes
    b"\x1f\x8b": ": it is compressed with gzip; give the file a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": ": it is compressed with zstd; give the file a name that ends in .zst",
    b"\xff\xfe": ": it is UTF-16; convert the file first, for example with iconv",
    b"\xfe\xff": ": it is UTF-16; convert the file first, for example with iconv",
    b"PAR1": ": it is Parquet; give --format parquet",
    b"PK\x03\x04": ": it is a zip file; unpack it first",
}
_AS_JSON = ". To store it as JSON, give --key-column and --value-column"
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
_headers_decoder = msgspec.json.Decoder(dict[str, _Value] | list[tuple[str, _Value]])


class _Bad(Exception):
    """What is wrong with a line, without its contents."""


def parse_line(line: bytes, number: int) -> Record:
    """Parse line `number` of a file. Raises InvalidRequest, naming the line, never its content."""
    try:
        given = _decoder.decode(line)
        if line.count(b":") != _names(given):
            _check_names(line.decode())
        key = _bytes(given.key, given.key_base64, "key")
        value = _bytes(given.value, given.value_base64, "value")
        if value is _UNSET:
            raise _Bad("has no value: give a string, value_base64, or null for a tombstone")
        record = Record(None if key is _UNSET else key, value, given.timestamp_ms, _headers(given.headers))
        problem = record_problem(record)
    except (_Bad, msgspec.DecodeError) as error:
        problem = str(error) if isinstance(error, _Bad) else _reason(error, line, number)
    except UnicodeEncodeError:
        problem = "has text that is not Unicode: give base64"
    except UnicodeDecodeError:  # in one of the line's texts, or outside them
        problem = "has bytes that are not UTF-8: give base64"
    except RecursionError:
        problem = "is not a record: it is nested too deeply"
    else:
        if problem is None:
            return record
    raise InvalidRequest(f"line {number} {problem}")


def other_file_hint(begins: bytes) -> str:
    """What a file that begins so is, if it is no text that lithify reads; "" if that is not known."""
    return next((hint for known, hint in _OTHER_FILES.items() if begins.startswith(known)), "")


def not_json_hint(line: bytes, number: int) -> str:
    """What a line that is not JSON probably is, without its contents."""
    if _NOT_A_NUMBER.search(line):
        return ": JSON has no NaN or Infinity; write null"
    if line.rstrip().endswith(b"},"):
        return ": leave out the comma at its end"
    if line.lstrip().startswith(b"{'"):
        return ": JSON has double quotes, not single ones"
    if number == 1 and line.strip() == b"{":
        return ', but may begin one of several lines: give one object per line, as "jq -c ." does'
    if number == 1 and (hint := other_file_hint(line)):
        return hint
    if number == 1 and line.lstrip().startswith(b"["):
        return ", but may begin a JSON array: give one object per line, as \"jq -c '.[]'\" does"
    if number == 1 and not line.lstrip().startswith(b"{") and _SEPARATED.search(line):
        return ": for CSV give --format csv (tsv if there are tabs), for keys and values by line -K"
    return ""


def _reason(error: msgspec.DecodeError, line: bytes, number: int) -> str:
    text = str(error)
    if "unknown field" in text:
        names = ", ".join(_Line.__struct_fields__)
        return (
            f"has an unknown field; known are {names}. If it is an ordinary object, say which field is the key with "
            "--key-column"
        )
    if isinstance(error, msgspec.ValidationError):
        return f"is not a record: {_mismatch(text)}"
    return f"is not a JSON object{not_json_hint(line, number)}"


def _mismatch(text: str) -> str:
    """What msgspec says of a wrong type, in words: types and names of fields, never contents."""
    found = _MISMATCH.fullmatch(text)
    if found is None:
        return text
    expected = " or ".join(_KINDS.get(kind, kind) for kind in found["expected"].split(" | "))
    what = f"its {found['field']}" if found["field"] else "it"
    if found["field"] is None and found["got"] == "array":
        return "it must be one object, not a list: give one per line, as \"jq -c '.[]'\" does"
    as_json = _AS_JSON if found["field"] in ("key", "value") else ""
    return f"{what} must be {expected}, not {_KINDS.get(found['got'], found['got'])}{as_json}"


def _names(given: _Line) -> int:
    """The least number of names in the line. A colon follows each: if there are no more colons, no name is twice."""
    pairs = zip(msgspec.structs.astuple(given), msgspec.structs.astuple(_Line()), strict=True)
    count = sum(value is not default for value, default in pairs)
    if isinstance(given.headers, dict):
        count += len(given.headers)
        count += sum(len(value) for value in given.headers.values() if isinstance(value, dict))
    return count


def _check_names(line: str) -> None:
    """The decoder keeps the last value of a repeated name: "value": "v", "value": null would become a tombstone."""
    # For each object one of its repeated names; the whole line comes last.
    twice: list[str | None] = []

    def look(members: list[tuple[str, Any]]) -> None:
        names = Counter(name for name, _ in members)
        twice.append(next((name for name, count in names.items() if count > 1), None))

    json.loads(line, object_pairs_hook=look, strict=False)
    if twice[-1] is not None:
        raise _Bad(f"has the name {twice[-1]} twice: leave one out")
    if any(name is not None for name in twice):
        raise _Bad("has headers with one name twice: give a list of [name, value]")


def _bytes(text: Any, encoded: Any, name: str) -> Any:
    if text is not _UNSET and encoded is not _UNSET:
        raise _Bad(f"has both {name} and {name}_base64")
    if encoded is not _UNSET:
        return _decoded(encoded, f"{name}_base64")
    return text.encode() if isinstance(text, str) else text


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Bad(f"has a {name} that is not valid base64") from None


def _headers(given: dict[str, _Value] | list[tuple[str, _Value]] | None) -> Headers:
    pairs = given.items() if isinstance(given, dict) else given or ()
    return tuple((name, _header_value(value)) for name, value in pairs)


def parse_headers(text: str) -> Headers:
    """Headers alone, as a line has them. Raises InvalidRequest."""
    try:
        return _headers(_headers_decoder.decode(text))
    except (_Bad, msgspec.DecodeError, UnicodeEncodeError):
        raise InvalidRequest("headers must be an object of texts, or a list of [name, value]") from None


def _header_value(value: _Value) -> bytes | None:
    if isinstance(value, dict):
        if list(value) != ["base64"]:
            raise _Bad('has a header whose value is not a string, null or {"base64": …}')
        return _decoded(value["base64"], "header")
    return None if value is None else value.encode()


def record_lines(batch: pa.RecordBatch, partition: int) -> Iterator[bytes]:
    """Each row of a batch with schema RECORDS as one line, its end included."""
    columns = [column.to_pylist() for column in batch.columns]
    for key, value, offset, timestamp_ms, headers in zip(*columns, strict=True):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield record_line(Record(key, value, timestamp_ms, pairs, offset), partition)


def record_line(record: Record, partition: int) -> bytes:
    """A record of the log as one line, its end included."""
    line: dict[str, Any] = {}
    _put(line, "key", record.key)
    _put(line, "value", record.value)
    line["timestamp_ms"] = record.timestamp_ms
    if record.headers:
        line["headers"] = shown_headers(record.headers)
    line["partition"], line["offset"] = partition, record.offset
    return plain_json(_encoder.encode(line)) + b"\n"


def _put(line: dict[str, Any], name: str, content: bytes | None) -> None:
    if content is None:
        line[name] = None
        return
    try:
        line[name] = content.decode()
    except UnicodeDecodeError:
        line[name + "_base64"] = base64.b64encode(content).decode()


def shown_headers(headers: Headers) -> dict[str, Any] | list[tuple[str, Any]]:
    pairs = [(name, _shown_value(value)) for name, value in headers]
    return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else pairs


def _shown_value(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
