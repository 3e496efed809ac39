"""`lithify append`: records from lines of JSON, or from Parquet, in atomic batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from lithify.admin.interruption import told_to_end
from lithify.cli.invocation import HowFar, Invocation, command
from lithify.cli.output import Output
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.cli.records.bulk import Source
    from lithify.cli.records.imports import Import
    from lithify.cli.records.parts import Where
    from lithify.log.topic import Topic

__all__ = ["append"]

Check = Callable[[Any], str | None]  # of one record: its problem, or None


@dataclass(frozen=True)
class _Batch:
    records: Any  # a list of records, or a table
    first: int  # its first record in the input, counted from 1
    count: int
    last: bool = False  # the input ends with it


@dataclass
class _Passing:
    """How many of the first `count` records were skipped; there may be fewer."""

    count: int
    done: int = 0


@command()
@click.argument("topic")
@click.option("--partition", type=int, help="Append to this partition. Default: chosen by the key, as in Kafka.")
@click.option(
    *("--from", "source"), default="-", metavar="URL",
    help="A file or URL: JSON lines, or .parquet. With a / at its end: a folder of Parquet files.  [default: -]",
)  # fmt: skip
@click.option("--source-id", metavar="ID", help="A name for the source, to resume its import from another URL.")
@click.option(
    "--new-source", is_flag=True, help="This URL now holds another source: do not resume an earlier import from it."
)
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Skip the first N records.")
@option("batch.size")
@option("engine", default=None, show_default="by size, for folders")
@option("master")
@option("compactor.spark_conf")
def append(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    source: str,
    source_id: str | None,
    new_source: bool,
    skip: int,
    batch_size: int,
    engine: Literal["spark", "local"] | None,
    master: str | None,
    spark_conf: tuple[str, ...],
) -> None:
    """Append records to TOPIC: one JSON object per line, or the rows of a Parquet file.

    \b
    {"key": "k", "value": "v", "timestamp_ms": 1, "headers": {"name": "text"}}

    A null value is a tombstone. Put bytes that are not UTF-8 in key_base64 and value_base64. Each batch is appended by
    one atomic commit per partition; a bad line ends the command before anything of its batch is written. If it is
    interrupted, run it again: nothing is appended twice. If TOPIC does not exist, the warehouse's settings decide
    whether it is created: see 'lithify warehouse alter'.

    A folder of Parquet files is appended by one commit per partition. Spark reads it if it has 1 GiB or more; --engine
    chooses.
    """
    if source.endswith("/"):
        if partition is not None or skip or new_source:
            raise InvalidRequest("--partition, --skip and --new-source are for one file; a folder goes in whole")
        from lithify.cli.records.parts import Where

        _append_folder(invocation, topic, source, source_id, Where(engine, master, spark_conf))
        return
    from lithify.cli.records import bulk
    from lithify.cli.records.formats import check_format, is_parquet
    from lithify.cli.records.identity import Identity, identify
    from lithify.cli.records.imports import Import, check_source_id

    if new_source and source_id is not None:
        raise InvalidRequest(
            "give either --source-id or --new-source, not both: a new --source-id already makes it a new source"
        )
    check_format(source)
    warehouse = invocation.warehouse()
    opened = warehouse.topic(topic, for_append=True)
    check = _check(opened, warehouse.driver.now_ms)
    options = invocation.options_for(source)
    given = None if source_id is None else Identity(check_source_id(source_id))
    identity = given or identify(source, options)
    with told_to_end() as end_if_told, bulk.open_source(source, options) as found:
        passing = _Passing(skip)
        largest = opened.parsed_config.max_message_bytes
        batches = (
            _tables(found, batch_size, passing)
            if is_parquet(source)
            else _lines(found, check, batch_size, passing, largest)
        )
        how = {"new": identity.new, "given": given is not None, "new_source": new_source}
        started = Import(opened, identity.name, partition, skip, **how, now_ms=warehouse.driver.now_ms)
        if started.began_over is not None:
            _say_that_it_grew(opened, started.began_over)
        appending = _Appending(started, found.name, invocation)
        with invocation.output.progress(f"appending to {topic}") as tick:
            for batch in batches:
                end_if_told()
                appending.append(batch)
                tick(batch.count)
        started.end()
    appending.tell(opened, passing.done)
    if identity.compared and started.already_there:
        warn(
            f"{found.name}: its server reports neither a version nor a modification time, so only {identity.compared} "
            "were compared; if the content has changed, give another --source-id"
        )


def _append_folder(invocation: Invocation, name: str, source: str, source_id: str | None, where: "Where") -> None:
    from pyspark_lithify.options import Common

    from lithify.cli.records.folder_imports import import_folder
    from lithify.cli.records.imports import check_source_id

    warehouse, output = invocation.warehouse(), invocation.output
    topic = warehouse.topic(name, for_append=True)
    given = None if source_id is None else check_source_id(source_id)
    common = Common(warehouse.store.url, name, invocation.storage_options)
    with told_to_end(), output.progress(f"appending to {name}") as tick:
        done = import_folder(
            *(topic, source, invocation.options_for(source), where),
            *(common, warehouse.store.spec(), given),
        )
        rows = sum(done.appended.values())
        tick(rows)
    value = {"topic": name, "appended": rows, "files": done.files, "partitions": done.appended}
    value["source_id"] = done.source_id
    if not rows:
        output.answer(value, lambda: output.line(f"all of {counted(done.files, 'file')} was in {name} before"))
        return
    told = f"{counted(rows, 'record')} of {counted(done.files, 'file')} appended to {name}"
    output.answer(value, lambda: output.line(told))


def _say_that_it_grew(topic: "Topic", began_over: int) -> None:
    warn(
        f"{topic.name}: this import began when the topic had {counted(began_over, 'partition')}, and keeps using only "
        f"those; the topic now has {topic.partitions}. scan and get leave out records whose keys belong to another "
        "partition now"
    )


def _lines(source: "Source", check: Check, size: int, passing: "_Passing", largest: int) -> Iterator[_Batch]:
    from lithify.cli.records.bulk import BATCH_BYTES_MAX, text_lines
    from lithify.cli.records.lines import parse_line
    from lithify.log.record import record_bytes

    records: list[Any] = []
    first, held_bytes = passing.count + 1, 0
    for index, (number, line) in enumerate(text_lines(source, largest), start=1):
        if index <= passing.count:
            passing.done = index
            continue
        record = parse_line(line, number)
        problem = check(record)
        if problem:
            raise InvalidRequest(f"line {number} {problem}")
        more_bytes = record_bytes(record)
        if records and held_bytes + more_bytes > BATCH_BYTES_MAX:
            yield _Batch(records, first, len(records))
            first, records, held_bytes = index, [], 0
        records.append(record)
        held_bytes += more_bytes
        if len(records) == size:
            yield _Batch(records, first, size)
            first, records, held_bytes = index + 1, [], 0
    if records:
        yield _Batch(records, first, len(records), last=True)


def _check(topic: "Topic", now_ms: Callable[[], int]) -> Check:
    """What in the topic's configuration forbids a record: also checked here, because only here lines have numbers."""
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


def _tables(source: "Source", size: int, passing: "_Passing") -> Iterator[_Batch]:
    from lithify.cli.records.bulk import open_parquet, parquet_tables

    file = open_parquet(source)
    passing.done = min(passing.count, file.metadata.num_rows)
    found = parquet_tables(file, source.name, size, passing.count)
    return (_Batch(rows.table, rows.first, rows.table.num_rows, rows.last) for rows in found)


class _Appending:
    """Appends batches. Whatever ends the command, the invocation reports how far the import came."""

    def __init__(self, started: "Import", source: str, invocation: Invocation) -> None:
        self._import = started
        self._source = source
        self._batch: _Batch | None = None
        self._output: Output = invocation.output
        invocation.how_far = self._how_far

    def append(self, batch: _Batch) -> None:
        self._batch = batch
        self._import.append(batch.records, batch.first, last=batch.last)
        self._batch = None

    def _how_far(self) -> HowFar:
        batch, came = self._batch, self._import.how_far()
        where = "" if batch is None else f" (records {batch.first} to {batch.first + batch.count - 1})"
        return HowFar(f"{self._source}{where}", str(came), came.fields())

    def tell(self, topic: "Topic", passed_over: int) -> None:
        it = self._import
        offsets = sorted(it.offsets.items())
        partitions = {str(number): {"first": given.start, "last": given.stop - 1} for number, given in offsets}
        lines = [f"{counted(it.appended, 'record')} appended to {topic.name}"]
        if it.already_there:
            lines[0] += f"; {it.already_there} of this source already in the log"
        if passed_over:
            counts = f"the first {passed_over} were" if passed_over > 1 else "the first one was"
            lines.append(f"  {counts} skipped" + (" (the source has no more)" if passed_over < it.passed_over else ""))
        if again := [flag for flag, given in (("--source-id", it.found_by_name), ("--skip", it.passed_over)) if given]:
            lines.append(f"  if you run it again, give the same {' and '.join(again)}")
        if it.already_there and not it.appended:
            lines.append("  to append them once more, give another --source-id")
        lines += [f"  partition {number}: offsets {given.start} to {given.stop - 1}" for number, given in offsets]
        expired = self._expired(topic)
        value = {"topic": topic.name, "appended": it.appended, "already_there": it.already_there}
        value["passed_over"] = passed_over
        value |= {"source_id": it.source_id, "partitions": partitions, "expired": expired}
        self._output.answer(value, lambda: self._output.lines(lines))
        if expired:
            are, them = ("is", "it") if expired == 1 else ("are", "them")
            text = f"{counted(expired, 'appended record')} {are} already past the topic's retention"
            warn(f"{topic.name}: {text}, so readers do not see {them}; see retention.* and cleanup.policy")

    def _expired(self, topic: "Topic") -> int:
        """How many of the records are below the log start: mostly old timestamps in a topic that deletes by age."""
        if not topic.parsed_config.deleting:
            return 0
        given_by = self._import.offsets
        starts = {number: topic.partition(number).snapshot().log_start_offset for number in given_by}
        return sum(min(max(starts[number] - given.start, 0), len(given)) for number, given in given_by.items())
