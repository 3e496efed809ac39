"""`lithify append`: records from lines of JSON, CSV or Parquet, in atomic batches."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from lithify.admin.interruption import Told, told_to_end
from lithify.cli.invocation import HowFar, Invocation, command, text_bytes
from lithify.cli.output import Output, time_text
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.cli.output import Ticker
    from lithify.cli.records.arrivals import Linger
    from lithify.cli.records.batches import Batch
    from lithify.cli.records.bulk import Source
    from lithify.cli.records.imports import Import
    from lithify.cli.records.parts import Where
    from lithify.cli.records.roles import Roles
    from lithify.log.topic import Topic

__all__ = ["append"]


@command()
@click.argument("topic")
@click.option("--partition", type=int, help="Append to this partition. Default: chosen by the key, as in Kafka.")
@click.option(
    *("--from", "sources"), multiple=True, default=("-",), metavar="URL",
    help="A file or URL: JSON lines, .csv, .tsv or .parquet; may be repeated, or be a pattern ('in/*.csv'). With a / "
    "at its end: a folder of Parquet files.  [default: -]",
)  # fmt: skip
@click.option(
    *("--format", "given_format"), type=click.Choice(["json", "csv", "tsv", "parquet"]),
    help="The format of the source. Default: by its name; standard input has lines of JSON.",
)  # fmt: skip
@click.option("--key-column", metavar="NAME", help="Of an ordinary table: this column is the key.")
@click.option(
    *("--value-column", "value_columns"), multiple=True, metavar="NAME",
    help="This column is the value; several: a JSON object of them. Default with --key-column: the whole row.",
)  # fmt: skip
@click.option("--timestamp-column", metavar="NAME", help="Milliseconds since 1970, a timestamp, or ISO 8601.")
@click.option("--delete-column", metavar="NAME", help="Rows in which it is true, yes, 1 or d are tombstones.")
@click.option(
    *("-K", "delimiter"), metavar="TEXT",
    help="Lines are a key, this delimiter and a value, as for kcat: -K: or -K '\\t' for a tab.",
)  # fmt: skip
@click.option(
    *("--source-id",), metavar="ID",
    help="A name for the source. Its import is resumed by this name, whatever the URL or the content: of a file that "
    "has grown, only what was added is appended. Without it, changed content is a new source.",
)  # fmt: skip
@click.option(
    *("--new-source",), is_flag=True,
    help="The URL now holds other content, or is read with other columns: append all of it, and leave earlier imports "
    "as they are.",
)  # fmt: skip
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Skip the first N records.")
@option("batch.size")
@option("linger.ms")
@option("engine", default=None, show_default="by size, for folders")
@option("master")
@option("compactor.spark_conf")
def append(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    sources: Sequence[str],
    given_format: "Literal['json', 'csv', 'tsv', 'parquet'] | None",
    key_column: str | None,
    value_columns: tuple[str, ...],
    timestamp_column: str | None,
    delete_column: str | None,
    delimiter: str | None,
    source_id: str | None,
    new_source: bool,
    skip: int,
    batch_size: int,
    linger_ms: int,
    engine: Literal["spark", "local"] | None,
    master: str | None,
    spark_conf: tuple[str, ...],
) -> None:
    """Append records to TOPIC: one JSON object per line, or the rows of a CSV or Parquet file.

    \b
    {"key": "k", "value": "v", "timestamp_ms": 1, "headers": {"name": "text"}}

    A null value is a tombstone. Put bytes that are not UTF-8 in key_base64 and value_base64. Each batch is appended by
    one atomic commit per partition; a bad line ends the command before anything of its batch is written. If it is
    interrupted, run it again: nothing is appended twice. If TOPIC does not exist, the warehouse's settings decide
    whether it is created: see 'lithify warehouse alter'.

    Records that arrive through a pipe are appended as they come, within --linger-ms of the first record of a batch.

    A folder of Parquet files is appended by one commit per partition. Spark reads it if it has 1 GiB or more; --engine
    chooses.
    """
    from lithify.cli.records.roles import Roles
    from lithify.cli.records.sources import expanded

    roles = Roles(key_column, value_columns, timestamp_column, delete_column)
    if any(source.endswith("/") for source in sources):
        if len(sources) > 1 or roles.given or delimiter or given_format:
            raise InvalidRequest(
                "a folder is imported alone, without columns, -K or --format; to choose these, name its files: "
                "'folder/*.parquet'"
            )
        if partition is not None or skip or new_source:
            raise InvalidRequest(
                "--partition, --skip and --new-source are for one file: a folder goes in whole, into all partitions"
            )
        from lithify.cli.records.parts import Where

        _append_folder(invocation, topic, sources[0], source_id, Where(engine, master, spark_conf))
        return
    if new_source and source_id is not None:
        raise InvalidRequest(
            "give either --source-id or --new-source, not both: a new --source-id already makes it a new source"
        )
    files = expanded(sources, invocation.options_for)
    if len(files) > 1 and (source_id is not None or skip or new_source):
        raise InvalidRequest("--source-id, --skip and --new-source are for one source: name it alone")
    request = _Request(invocation, topic, partition, roles, delimiter, given_format, batch_size, linger_ms)
    request.check(files)
    done = [request.append(each, source_id=source_id, new_source=new_source, skip=skip) for each in files]
    _tell(invocation.output, topic, done)


class _Request:
    """What is asked of each source."""

    def __init__(
        self,
        invocation: Invocation,
        topic: str,
        partition: int | None,
        roles: "Roles",
        delimiter: str | None,
        given_format: str | None,
        batch_size: int,
        linger_ms: int,
    ) -> None:
        from lithify.cli.records.roles import delimiter_bytes

        self._invocation = invocation
        self._topic = topic
        self._partition = partition
        self._roles = roles
        self._delimiter = None if delimiter is None else delimiter_bytes(text_bytes(delimiter, "-K"))
        self._format = given_format
        self._rows_max = batch_size
        self._linger_ms = linger_ms

    def check(self, files: Sequence[str]) -> None:
        """Raises InvalidRequest before anything is appended."""
        from lithify.cli.records.formats import check_format, format_of

        if self._delimiter is not None:
            if not self._delimiter or self._roles.given or self._format not in (None, "json"):
                raise InvalidRequest("-K names what is between key and value of a line: leave out columns and --format")
            self._format = "json"
        for each in files:
            check_format(each, self._format)
            if self._delimiter is not None and format_of(each) != "json":
                raise InvalidRequest("-K names what is between key and value of a line: leave it out for tables")

    def append(self, source: str, *, source_id: str | None, new_source: bool, skip: int) -> "_Done":
        from lithify.cli.records import bulk
        from lithify.cli.records.batches import How, Passing, batches, record_check
        from lithify.cli.records.formats import format_of
        from lithify.cli.records.identity import Identity, identify
        from lithify.cli.records.imports import Import, check_source_id
        from lithify.cli.records.readings import reading_of

        invocation = self._invocation
        warehouse = invocation.warehouse()
        opened = warehouse.topic(self._topic, for_append=True)
        options = invocation.options_for(source)
        given = None if source_id is None else Identity(check_source_id(source_id))
        identity = given or identify(source, options)
        with told_to_end() as told, bulk.open_source(source, options, self._format) as found:
            passing = Passing(skip)
            kind = format_of(source, self._format)
            linger = self._linger(source, found, kind, told)
            how = How(kind, self._rows_max, self._roles, self._delimiter, linger)
            check = record_check(opened, warehouse.driver.now_ms)
            cut = batches(found, how, check, passing, opened.parsed_config.max_message_bytes)
            reading = reading_of(source, self._format, self._roles, self._delimiter)
            started = Import(
                *(opened, identity.name, self._partition, skip),
                new=identity.new,
                given=given is not None,
                new_source=new_source,
                reading=reading,
                now_ms=warehouse.driver.now_ms,
            )
            if started.began_over is not None:
                _say_that_it_grew(opened, started.began_over)
            appending = _Appending(started, found.name, invocation)
            typed = source == "-" and sys.stdin.isatty()  # a bar would be drawn over what is typed
            of_bytes = found.stored is not None and kind != "parquet"
            what = f"appending to {self._topic}"
            with invocation.output.progress(what, of_bytes=of_bytes, seen=not typed) as tick:
                for batch in cut:
                    if linger is None:
                        told()
                    appending.append(batch)
                    _reached(tick, found, batch)
            started.end()
            told()
        if identity.compared and started.already_there:
            warn(
                f"warning: {found.name}: its server reports neither a version nor a modification time, so only "
                f"{identity.compared} were compared; if the content has changed, give another --source-id"
            )
        return _Done(opened, started, found.name, passing.done, new_source=new_source)

    def _linger(self, url: str, source: "Source", kind: str, told: Told) -> "Linger | None":
        """If records arrive line by line; tables are read in blocks. On a terminal, say what it waits for."""
        from lithify.cli.records.arrivals import Linger, arrives, ready

        if not arrives(source.file):
            return None
        if url == "-" and sys.stdin.isatty():
            warn(f"waiting for records of {self._topic}, {self._awaited()}; Ctrl-D ends the input")
        if kind != "json":
            return None
        driver = self._invocation.warehouse().driver
        told.at_waits = True

        def wait(file: Any, timeout_ms: int | None) -> bool:
            with told.waiting():
                return ready(file, timeout_ms)

        return Linger(self._linger_ms, driver.monotonic_ms, driver.now_ms, wait)

    def _awaited(self) -> str:
        if self._delimiter is not None:
            return "a key, the delimiter and a value per line"
        return {"csv": "as CSV", "tsv": "as TSV"}.get(self._format or "", "one JSON object per line")


def _reached(tick: "Ticker", source: "Source", batch: "Batch") -> None:
    if batch.of:
        tick.reached(batch.first + batch.count - 1, batch.of)
    elif source.stored is not None:
        tick.reached(source.read_bytes, source.stored_bytes)
    else:
        tick(batch.count)


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
        f"warning: {topic.name}: this import began when the topic had {counted(began_over, 'partition')}, and keeps "
        f"using only those; the topic now has {topic.partitions}. scan and get leave out records whose keys belong to "
        "another partition now"
    )


class _Appending:
    """Appends batches. Whatever ends the command, the invocation reports how far the import came."""

    def __init__(self, started: "Import", source: str, invocation: Invocation) -> None:
        self._import = started
        self._source = source
        self._batch: Batch | None = None
        self._doubted = False  # whether its timestamps are in milliseconds
        invocation.how_far = self._how_far

    def append(self, batch: "Batch") -> None:
        self._batch = batch
        self._doubt_times(batch)
        self._import.append(batch.records, batch.first, last=batch.last)
        self._batch = None

    def _doubt_times(self, batch: "Batch") -> None:
        """Once for each source, and from one record of each batch: a source has one unit."""
        from lithify.cli.records.batches import first_timestamp
        from lithify.cli.records.roles import in_seconds

        at_ms = first_timestamp(batch)
        if not self._doubted and at_ms is not None and in_seconds(at_ms):
            self._doubted = True
            warn(
                f"warning: {self._source}: timestamp {at_ms} is in {time_text(at_ms)[:4]}, and looks like seconds; "
                "lithify takes milliseconds, and retention by age counts these records as that old"
            )

    def _how_far(self, error: BaseException) -> HowFar:
        # A source that was refused is repaired, so that it becomes another one; anything else leaves it as it is.
        batch, came = self._batch, self._import.how_far(repeatable=not isinstance(error, InvalidRequest))
        where = ""
        if batch is not None:
            last = batch.first + batch.count - 1
            where = f" (record {last})" if batch.count == 1 else f" (records {batch.first} to {last})"
        return HowFar(f"{self._source}{where}", str(came), came.fields())


class _Done:
    """One source that was appended whole."""

    def __init__(self, topic: "Topic", started: "Import", source: str, passed_over: int, *, new_source: bool) -> None:
        self.it = started
        self._new_source = new_source
        self.source = source
        self._topic = topic
        self._passed_over = passed_over
        self.expired = self._expired()

    def lines(self, *, several: bool) -> Iterable[str]:
        it, passed_over = self.it, self._passed_over
        line = f"{counted(it.appended, 'record')} appended to {self._topic.name}"
        if it.already_there:
            line += f"; {it.already_there} of this source already in the log"
        yield f"{self.source}: {line}" if several else line
        if passed_over:
            counts = f"the first {passed_over} were" if passed_over > 1 else "the first one was"
            yield f"  {counts} skipped" + (" (the source has no more)" if passed_over < it.passed_over else "")
        if again := [flag for flag, given in (("--source-id", it.found_by_name), ("--skip", it.passed_over)) if given]:
            yield f"  if you run it again, give the same {' and '.join(again)}"
        if it.already_there and not it.appended:
            for_others = "--new-source is for other content or other columns; " if self._new_source else ""
            again = "the same records" if self._new_source else "them"
            yield f"  {for_others}to append {again} once more, give another --source-id"
        if it.appended and not it.already_there and it.path_had_other_content:
            yield (
                "  this path had other content before, which is in the log, too. If the file grows, give it a "
                "--source-id from its first import on: then only what was added is appended"
            )
        for number, given in sorted(it.offsets.items()):
            yield f"  partition {number}: {_offsets_text(given)}"

    def value(self) -> dict[str, Any]:
        it = self.it
        offsets = sorted(it.offsets.items())
        partitions = {str(number): {"first": given.start, "last": given.stop - 1} for number, given in offsets}
        value: dict[str, Any] = {"topic": self._topic.name, "appended": it.appended, "already_there": it.already_there}
        value["passed_over"] = self._passed_over
        return value | {"source_id": it.source_id, "partitions": partitions, "expired": self.expired}

    def _expired(self) -> int:
        """How many of the records are below the log start: mostly old timestamps in a topic that deletes by age."""
        if not self._topic.parsed_config.deleting:
            return 0
        appended = self.it.offsets
        starts = {number: self._topic.partition(number).snapshot().log_start_offset for number in appended}
        return sum(min(max(starts[number] - given.start, 0), len(given)) for number, given in appended.items())


def _offsets_text(given: range) -> str:
    return f"offset {given.start}" if len(given) == 1 else f"offsets {given.start} to {given.stop - 1}"


def _tell(output: Output, topic: str, done: Sequence[_Done]) -> None:
    several = len(done) > 1
    lines = [line for each in done for line in each.lines(several=several)]
    value = done[0].value()
    if several:
        counts = {"appended": sum(d.it.appended for d in done), "already_there": sum(d.it.already_there for d in done)}
        value = {"topic": topic, **counts, "sources": [{"source": each.source, **each.value()} for each in done]}
        lines.append(f"{counted(counts['appended'], 'record')} of {len(done)} sources appended to {topic}")
    output.answer(value, lambda: output.lines(lines))
    expired = sum(each.expired for each in done)
    if expired:
        are, them = ("is", "it") if expired == 1 else ("are", "them")
        text = f"{counted(expired, 'appended record')} {are} already past the topic's retention"
        warn(f"warning: {topic}: {text}, so readers do not see {them}; see retention.* and cleanup.policy")
