"""CSV: a line of names, then rows. Cells stay text; an empty cell without quotes is null."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from fsspec.spec import AbstractBufferedFile
from pyarrow.csv import ConvertOptions, CSVWriter, ParseOptions, ReadOptions, WriteOptions
from pyarrow.csv import open_csv as open_reader

from lithify.cli.records.bulk import BYTE_ORDER_MARK, FROM_THE_LOG, Source
from lithify.cli.records.explained import explained
from lithify.cli.records.formats import Format
from lithify.cli.records.lines import other_file_hint, parse_headers, shown_headers
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest

__all__ = ["DELIMITERS", "check_own_columns", "csv_batches", "csv_columns", "open_csv", "written_columns"]

_HEADER_BYTES_MAX = 1 << 20
_BLOCK_BYTES_MIN = 4 << 20
_LIKE_A_NUMBER = re.compile(r"\s*[+-]?[0-9]+([.,:-][0-9]+)*\s*")
_DELIMITED = {"\t": "tabs", ";": "semicolons", "|": "'|'", ",": "commas"}
DELIMITERS: dict[str, str] = {"csv": ",", "tsv": "\t"}
_WRITTEN = pa.schema(
    [
        *(("key", pa.string()), ("value", pa.string()), ("timestamp_ms", pa.int64()), ("headers", pa.string())),
        *(("partition", pa.int32()), ("offset", pa.int64())),
    ]
)
_OWN = ("key", "value", "timestamp_ms", "headers")


def csv_batches(source: Source, delimiter: str, record_bytes_max: int) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The names of the columns, and the rows. Raises InvalidRequest, naming the row, never its content."""
    with explained(source.name):
        # `readline` of fsspec's remote files takes no limit.
        file: Any = source.file
        file = io.BufferedReader(file) if isinstance(file, AbstractBufferedFile) else file
        first = file.readline(_HEADER_BYTES_MAX)
    names = _names(first, delimiter, source.name)
    _check_delimiter(names, delimiter, source.name)
    return names, _rows(Source(file, source.name), names, delimiter, record_bytes_max)


def _names(line: bytes, delimiter: str, source: str) -> list[str]:
    try:
        text = line.removeprefix(BYTE_ORDER_MARK).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        hint = other_file_hint(line) or "; convert the file first, for example with iconv"
        raise InvalidRequest(f"{source}: its first line is not UTF-8{hint}") from None
    try:
        names = next(iter(csv.reader([text], delimiter=delimiter, strict=True)), [])
    except csv.Error:
        raise InvalidRequest(f"{source}: its first line has no names of columns; CSV needs them") from None
    if not names or not all(names) or len(set(names)) < len(names):
        raise InvalidRequest(f"{source}: its first line must name the columns, each once; CSV needs that")
    return names


def _check_delimiter(names: list[str], delimiter: str, source: str) -> None:
    """Raises InvalidRequest if the whole first line is one name, and looks like several with another delimiter."""
    other = next((each for each in _DELIMITED if each != delimiter and each in names[0]), None)
    if len(names) > 1 or other is None:
        return
    remedies = {"\t": "give --format tsv", ",": "give --format csv"}
    here, there = _DELIMITED[delimiter], _DELIMITED[other]
    remedy = remedies.get(other, "convert it first, for example with DuckDB's COPY")
    raise InvalidRequest(f"{source}: its columns seem to be separated by {there}, not by {here}: {remedy}")


def _rows(source: Source, names: list[str], delimiter: str, record_bytes_max: int) -> Iterator[pa.RecordBatch]:
    block = max(_BLOCK_BYTES_MIN, 2 * record_bytes_max)  # no row may be longer
    uneven: list[str] = []

    def refuse(row: Any) -> str:
        uneven.append(f"row {row.number} has {counted(row.actual_columns, 'cell')}")
        return "error"

    done = 0
    try:
        reader: Any = open_reader(
            source.file,
            ReadOptions(use_threads=False, block_size=block, column_names=names),
            ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse),
            ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        for batch in reader:
            yield batch
            done += batch.num_rows
    except pa.ArrowInvalid as error:
        # Not chained: it may quote a row.
        if "Empty CSV file" in str(error):
            return
        if uneven:
            told = f"{source.name}: {uneven[0]}, but the first line names {len(names)}"
            raise InvalidRequest(told) from None
        after = f"{source.name}: after row {done}"
        if "UTF8" in str(error).upper().replace("-", ""):
            raise InvalidRequest(f"{after}, a row has bytes that are not UTF-8") from None
        raise InvalidRequest(f"{after}, it is not CSV, or a row is longer than {block} bytes") from None


def check_own_columns(names: list[str], source: str) -> None:
    """Raises InvalidRequest if these are not the columns of records, which CSV without roles must have."""
    other = [name for name in names if name not in (*_OWN, *FROM_THE_LOG)]
    if other or "value" not in names:
        if any(_LIKE_A_NUMBER.fullmatch(name) for name in names):
            raise InvalidRequest(
                f"{source}: its first line must name the columns, but looks like a row; add their names"
            )
        what = f"the column {other[0]!r}" if other else "no column 'value'"
        raise InvalidRequest(
            f"{source} has {what}: say which column is the key with --key-column, and if only some are the value, "
            "--value-column (several make a JSON object)"
        )


def csv_columns(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """A record's own columns as they are appended: headers are JSON, as in lines."""
    made: dict[str, Any] = {}
    for name in batch.schema.names:
        if name in FROM_THE_LOG:
            continue
        column = batch.column(name)
        made[name] = column
        if name == "headers":
            rows = enumerate(column.to_pylist(), start=first)
            kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            made[name] = pa.array([None if text is None else _headers(text, row) for row, text in rows], kind)
    return pa.RecordBatch.from_pydict(made)


def _headers(text: str, row: int) -> list[dict[str, Any]]:
    try:
        return [{"key": name, "value": value} for name, value in parse_headers(text)]
    except InvalidRequest:
        raise InvalidRequest(f"row {row} has headers that are not as in lines of JSON") from None


def open_csv(file: Any, kind: Format) -> CSVWriter:
    """Writes batches of `written_columns`, and first their names."""
    return CSVWriter(file, _WRITTEN, write_options=WriteOptions(delimiter=DELIMITERS[kind]))


def written_columns(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """Rows of the log as CSV has them. Raises InvalidRequest for bytes that are not UTF-8."""
    texts: list[Any] = []
    for name in ("key", "value"):
        try:
            texts.append(batch.column(name).cast(pa.string()))
        except pa.ArrowInvalid:
            raise InvalidRequest(
                f"a {name} has bytes that are not UTF-8, which CSV cannot hold: export lines of JSON or Parquet"
            ) from None
    headers = [_shown(each) for each in batch.column("headers").to_pylist()]
    columns = {
        "key": texts[0],
        "value": texts[1],
        "timestamp_ms": batch.column("timestamp_ms"),
        "headers": pa.array(headers, pa.string()),
        "partition": pa.array([partition] * batch.num_rows, pa.int32()),
        "offset": batch.column("offset"),
    }
    return pa.RecordBatch.from_pydict(columns, schema=_WRITTEN)


def _shown(headers: Any) -> str | None:
    pairs = tuple((header["key"], header["value"]) for header in headers or ())
    return msgspec.json.encode(shown_headers(pairs)).decode() if pairs else None
