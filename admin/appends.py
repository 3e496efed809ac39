"""`lithify append`: records from lines of JSON, or from Parquet, in atomic batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from lithify.admin.invocation import Invocation, command
from lithify.admin.output import Output, Ticker
from lithify.admin.settings import option
from lithify.store.errors import CommitUnknown, InvalidRequest, LithifyError

if TYPE_CHECKING:
    from lithify.log.partition import Partition
    from lithify.log.topic import Topic

__all__ = ["append"]

Check = Callable[[Any], str | None]  # of one record: what is wrong with it


@dataclass(frozen=True)
class _Batch:
    records: Any  # a list of records, or a table
    first: int  # record of the input it begins with, from 1
    count: int


@command()
@click.argument("topic")
@click.option("--partition", type=int, help="Append to this partition; else Kafka's partitioner chooses by the key.")
@click.option(
    "--from", "source", default="-", metavar="URL", help="A file or URL: JSON lines, or .parquet.  [default: -]"
)
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Pass over the first N records.")
@option("batch.size")
def append(invocation: Invocation, topic: str, partition: int | None, source: str, skip: int, batch_size: int) -> None:
    """Append records to TOPIC: one JSON object per line, or the rows of a Parquet file.

    \b
    {"key": "k", "value": "v", "timestamp_ms": 1, "headers": {"name": "text"}}

    A null value is a tombstone. Bytes that are no UTF-8 stand as key_base64 and value_base64. Each batch is appended by
    one atomic commit per partition; a bad line ends the command before anything of its batch is written. A TOPIC that
    is not there is created where the warehouse says so: see 'lithify warehouse alter'.
    """
    from lithify.admin.bulk import is_parquet, open_source, shown

    warehouse = invocation.warehouse()
    opened = warehouse.topic(topic, for_append=True)
    check = _check(opened, warehouse.driver.now_ms)
    place = opened if partition is None else opened.partition(partition)
    with open_source(source, invocation.options_for(source)) as file:
        batches = _tables(file, batch_size, skip) if is_parquet(source) else _lines(file, check, batch_size, skip)
        appending = _Appending(place, skip, invocation.output)
        with invocation.output.progress(f"appending to {topic}") as tick:
            appending.run(batches, tick, "standard input" if source == "-" else shown(source))
    appending.tell(opened)


def _lines(file: IO[bytes], check: Check, size: int, skip: int) -> Iterator[_Batch]:
    from lithify.admin.bulk import text_lines
    from lithify.admin.lines import parse_line

    records: list[Any] = []
    first = skip + 1
    for index, (number, line) in enumerate(text_lines(file), start=1):
        if index <= skip:
            continue
        record = parse_line(line, number)
        problem = check(record)
        if problem:
            raise InvalidRequest(f"line {number} {problem}")
        records.append(record)
        if len(records) == size:
            yield _Batch(records, first, len(records))
            first, records = index + 1, []
    if records:
        yield _Batch(records, first, len(records))


def _check(topic: "Topic", now_ms: Callable[[], int]) -> Check:
    """What the topic's configuration says against a record: told here, too, since only here lines have numbers."""
    from lithify.log.intake import timestamp_problem
    from lithify.log.record import record_bytes

    def check(record: Any) -> str | None:
        config = topic.parsed_config
        if record.key is None and config.compacted:
            return "has no key, which a compacted topic cannot keep: give it a key"
        if record_bytes(record) > config.max_message_bytes:
            return f"is larger than max.message.bytes ({config.max_message_bytes})"
        return timestamp_problem(record.timestamp_ms, config, now_ms())

    return check


def _tables(file: IO[bytes], size: int, skip: int) -> Iterator[_Batch]:
    from lithify.admin.bulk import parquet_tables

    return (_Batch(table, first, table.num_rows) for first, table in parquet_tables(file, size, skip))


class _Appending:
    def __init__(self, place: "Topic | Partition", skip: int, output: Output) -> None:
        self._place = place
        self._skip = skip
        self._output = output
        self._appended = 0
        self._offsets: dict[int, range] = {}  # from the first to the last that each partition was given

    def run(self, batches: Iterator[_Batch], tick: Ticker, source: str) -> None:
        batch: _Batch | None = None
        try:
            for batch in batches:
                self._append(batch.records)
                self._appended += batch.count
                tick(batch.count)
                batch = None
        except LithifyError as error:
            self._say_how_far(error, source, batch)
            raise

    def _append(self, records: Any) -> None:
        given = self._place.append(records)
        by_partition = given if isinstance(given, dict) else {self._number(): given}
        for number, offsets in by_partition.items():
            before = self._offsets.get(number)
            self._offsets[number] = range(before.start if before else offsets.start, offsets.stop)

    def _number(self) -> int:
        return getattr(self._place, "number", 0)

    def _say_how_far(self, error: LithifyError, source: str, batch: _Batch | None) -> None:
        """Add to the error how far the input was appended, and how to go on."""
        failed = "" if batch is None else f" (records {batch.first} to {batch.first + batch.count - 1})"
        go_on = f"{self._appended} records were appended; go on with --skip {self._skip + self._appended}"
        if isinstance(error, CommitUnknown):
            go_on += ", once it is known whether this batch was"
        error.args = (f"{source}{failed}: {str(error).rstrip('.')}. {go_on}",)

    def tell(self, topic: "Topic") -> None:
        offsets = sorted(self._offsets.items())
        partitions = {str(number): {"first": given.start, "last": given.stop - 1} for number, given in offsets}
        lines = [f"{self._appended} records appended to {topic.name}"]
        lines += [f"  partition {number}: offsets {given.start} to {given.stop - 1}" for number, given in offsets]
        expired = self._expired(topic)
        value = {"topic": topic.name, "appended": self._appended, "partitions": partitions, "expired": expired}
        self._output.answer(value, lambda: self._output.lines(lines))
        if expired:
            text = f"{expired} of these records are past the topic's retention already, and no reader sees them"
            click.echo(f"lithify: {topic.name}: {text}; see retention.* and cleanup.policy", err=True)

    def _expired(self, topic: "Topic") -> int:
        """How many of the records lie below the log start: old timestamps in a topic that deletes by age, mostly."""
        if not topic.parsed_config.deleting:
            return 0
        starts = {number: topic.partition(number).snapshot().log_start_offset for number in self._offsets}
        return sum(min(max(starts[number] - given.start, 0), len(given)) for number, given in self._offsets.items())
