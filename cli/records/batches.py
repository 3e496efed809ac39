"""The batches of an import: records or tables, as they are cut from a source of any format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lithify.cli.records import bulk
from lithify.cli.records.bulk import Source, cut_tables, open_parquet, parquet_tables, text_lines
from lithify.cli.records.formats import Format
from lithify.cli.records.lines import parse_line
from lithify.cli.records.roles import Roles, keyed_record
from lithify.log.intake import timestamp_problem
from lithify.log.layout import is_bytes
from lithify.log.record import Record, record_bytes
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.cli.records.arrivals import Linger
    from lithify.log.topic import Topic

__all__ = ["Batch", "How", "Passing", "batches", "first_timestamp", "record_check"]

Check = Callable[[Record], str | None]  # of one record: its problem, or None
_OWN = Roles()


@dataclass(frozen=True)
class Batch:
    records: Any  # a list of records, or a table
    first: int  # its first record in the input, counted from 1
    count: int
    last: bool = False  # the input ends with it
    of: int = 0  # how many the input has; 0: that is not known


@dataclass
class Passing:
    """How many of the first `count` records were skipped; there may be fewer."""

    count: int
    done: int = 0


@dataclass(frozen=True)
class How:
    """How a source is read."""

    format: Format
    rows_max: int  # of a batch
    roles: Roles = _OWN
    delimiter: bytes | None = None  # of keys and values in lines, as kcat's -K
    linger: "Linger | None" = None  # the records arrive one after the other


def batches(source: Source, how: How, check: Check, passing: Passing, record_bytes_max: int) -> Iterator[Batch]:
    """Raises InvalidRequest, naming the line or the row, never its content."""
    match how.format:
        case "json":
            return _lines(source, how, check, passing, record_bytes_max)
        case "parquet":
            return _parquet(source, how, passing)
        case _:
            return _csv(source, how, passing, record_bytes_max)


def first_timestamp(batch: Batch) -> int | None:
    """Of its first record; None if it has none."""
    if isinstance(batch.records, list):
        return batch.records[0].timestamp_ms if batch.records else None
    table = batch.records
    if "timestamp_ms" not in table.column_names or not table.num_rows:
        return None
    value = table.column("timestamp_ms")[0].as_py()
    return value if isinstance(value, int) else None


def _parse(how: How) -> Callable[[bytes, int], Record]:
    delimiter = how.delimiter
    if delimiter is not None:
        return lambda line, _: keyed_record(line, delimiter)
    return how.roles.line if how.roles.given else parse_line


def _lines(source: Source, how: How, check: Check, passing: Passing, largest: int) -> Iterator[Batch]:
    parse, linger = _parse(how), how.linger
    records: list[Record] = []
    first, held_bytes, index = passing.count + 1, 0, 0
    for number, line in text_lines(source, largest, linger and linger.pieces):
        if not line:  # nothing has come for as long as a batch may wait
            if records:
                yield _sealed(records, first, linger)
                first, records, held_bytes = index + 1, [], 0
            continue
        index += 1
        if index <= passing.count:
            passing.done = index
            continue
        record = parse(line, number)
        problem = check(record)
        if problem:
            raise InvalidRequest(f"line {number} {problem}")
        more_bytes = record_bytes(record)
        if records and held_bytes + more_bytes > bulk.BATCH_BYTES_MAX:
            yield _sealed(records, first, linger)
            first, records, held_bytes = index, [], 0
        records.append(record if linger is None else _timed(record, linger))
        held_bytes += more_bytes
        if len(records) == how.rows_max or (linger is not None and linger.over):
            yield _sealed(records, first, linger)
            first, records, held_bytes = index + 1, [], 0
    if records:
        yield Batch(records, first, len(records), last=True)


def _sealed(records: list[Record], first: int, linger: "Linger | None") -> Batch:
    if linger is not None:
        linger.sealed()
    return Batch(records, first, len(records))


def _timed(record: Record, linger: "Linger") -> Record:
    """With the time when it came, if it has none of its own."""
    came_ms = linger.came()
    if record.timestamp_ms is not None:
        return record
    return Record(record.key, record.value, came_ms, record.headers)


def _parquet(source: Source, how: How, passing: Passing) -> Iterator[Batch]:
    file = open_parquet(source)
    if how.roles.given:
        how.roles.check(file.schema_arrow.names, source.name)
    else:
        _check_contents(file.schema_arrow, source.name)
    passing.done = min(passing.count, file.metadata.num_rows)
    shape = how.roles.batch if how.roles.given else None
    found = parquet_tables(file, source.name, how.rows_max, passing.count, shape)
    of = file.metadata.num_rows
    return (Batch(rows.table, rows.first, rows.table.num_rows, rows.last, of) for rows in found)


def _check_contents(schema: Any, name: str) -> None:
    """Raises InvalidRequest if key or value are columns of something else than text or bytes."""
    for column in ("key", "value"):
        kind = schema.field(column).type if column in schema.names else None
        if kind is not None and not is_bytes(kind):
            raise InvalidRequest(
                f"{name}: column {column!r} has type {kind}, not text or bytes: to store it as text (or JSON), say "
                "--key-column key --value-column value"
            )


def _csv(source: Source, how: How, passing: Passing, largest: int) -> Iterator[Batch]:
    from lithify.cli.records.csv_rows import DELIMITERS, check_own_columns, csv_batches, csv_columns

    names, rows = csv_batches(source, DELIMITERS[how.format], largest)
    if how.roles.given:
        how.roles.check(names, source.name)
        shape = how.roles.batch
    else:
        check_own_columns(names, source.name)
        shape = csv_columns
    at = passing.count
    for table in cut_tables(_counted(rows, passing), how.rows_max, passing.count, shape):
        yield Batch(table, at + 1, table.num_rows)
        at += table.num_rows


def _counted(rows: Iterator[Any], passing: Passing) -> Iterator[Any]:
    for batch in rows:
        passing.done = min(passing.count, passing.done + batch.num_rows)
        yield batch


def record_check(topic: "Topic", now_ms: Callable[[], int]) -> Check:
    """What in the topic's configuration forbids a record: also checked here, because only here lines have numbers."""

    def check(record: Record) -> str | None:
        config = topic.parsed_config
        if record.key is None and config.compacted:
            return "has no key, which a compacted topic cannot keep: give it a key"
        if record_bytes(record) > config.max_message_bytes:
            return f"is larger than max.message.bytes ({config.max_message_bytes})"
        return timestamp_problem(record.timestamp_ms, config, now_ms())

    return check
