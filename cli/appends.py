"""`lithify append`: records from lines of JSON, CSV or Parquet, in atomic batches."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from lithify.admin.interruption import Told, told_to_end
from lithify.cli.appended import Appended, tell_appended
from lithify.cli.invocation import HowFar, Invocation, command, text_bytes
from lithify.cli.output import time_text
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest
from lithify.store.port import Pause

if TYPE_CHECKING:
    from lithify.cli.output import Ticker
    from lithify.cli.records.arrivals import Linger
    from lithify.cli.records.batches import Batch
    from lithify.cli.records.bulk import Source
    from lithify.cli.records.imports import Import
    from lithify.cli.records.parts import Where
    from lithify.cli.records.roles import Roles

__all__ = ["append"]

_RETRY_MS = 1_000  # between two attempts while the store does not answer


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
@click.option("--key-column", metavar="NAME", help="The column that holds the key, for ordinary tables.")
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
    invocation.how_far = lambda _: HowFar("", "Nothing was appended", {"appended": 0})
    done = [request.append(each, source_id=source_id, new_source=new_source, skip=skip) for each in files]
    tell_appended(invocation.output, topic, done)


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
            if not self._delimiter:
                raise InvalidRequest("-K needs what is between key and value of a line, such as -K:")
            if self._roles.given or self._format not in (None, "json"):
                raise InvalidRequest("-K names what is between key and value of a line: leave out columns and --format")
            self._format = "json"
        for each in files:
            check_format(each, self._format)
            if self._delimiter is not None and format_of(each) != "json":
                raise InvalidRequest("-K names what is between key and value of a line: leave it out for tables")

    def append(self, source: str, *, source_id: str | None, new_source: bool, skip: int) -> Appended:
        from lithify.cli.outages import OutlastingClock
        from lithify.cli.records import bulk
        from lithify.cli.records.arrivals import arrives
        from lithify.cli.records.batches import How, Passing, batches, record_check
        from lithify.cli.records.formats import format_of
        from lithify.cli.records.identity import Identity, identify
        from lithify.cli.records.imports import Import
        from lithify.cli.records.readings import reading_of
        from lithify.cli.records.source_ids import check_source_id

        invocation = self._invocation
        warehouse = invocation.warehouse()
        opened = warehouse.topic(self._topic, for_append=True)
        options = invocation.options_for(source)
        given = None if source_id is None else Identity(check_source_id(source_id))
        identity = given or identify(source, options)
        with told_to_end() as told, bulk.open_source(source, options, self._format) as found:
            passing = Passing(skip)
            kind = format_of(source, self._format)
            piped = arrives(found.file)
            driver = warehouse.driver
            now_ms = OutlastingClock(driver.now_ms, driver.monotonic_ms) if piped else driver.now_ms
            linger = self._linger(source, found, kind, told, now_ms) if piped else None
            how = How(kind, self._rows_max, self._roles, self._delimiter, linger)
            check = record_check(opened, now_ms)
            cut = batches(found, how, check, passing, opened.parsed_config.max_message_bytes)
            reading = reading_of(source, self._format, self._roles, self._delimiter)
            started = Import(
                *(opened, identity.name, self._partition, skip),
                new=identity.new,
                given=given is not None,
                new_source=new_source,
                reading=reading,
                now_ms=warehouse.driver.now_ms,
                driver=warehouse.driver,
            )
            for each in started.warnings():
                warn(f"warning: {self._topic}: {each}")
            waits = _Waits(self._topic, told, lambda: driver.answer(Pause(_RETRY_MS))) if piped else None
            appending = _Appending(started, found.name, invocation, waits)
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
        return Appended(opened, started, found.name, passing.done, new_source=new_source)

    def _linger(self, url: str, source: "Source", kind: str, told: Told, now_ms: Callable[[], int]) -> "Linger | None":
        """If records arrive line by line; tables are read in blocks. On a terminal, say what it waits for."""
        from lithify.cli.records.arrivals import Linger, ready

        if url == "-" and sys.stdin.isatty():
            warn(f"waiting for records of {self._topic}, {self._awaited()}; Ctrl-D ends the input")
        if kind != "json":
            return None
        monotonic_ms = self._invocation.warehouse().driver.monotonic_ms
        told.at_waits = True

        def wait(file: Any, timeout_ms: int | None) -> bool:
            with told.waiting():
                return ready(file, timeout_ms)

        return Linger(self._linger_ms, monotonic_ms, now_ms, wait)

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
    from lithify.cli.records.source_ids import check_source_id

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


class _Waits:
    """Of records that came through a pipe: nobody could send them again, so an outage is outlasted."""

    def __init__(self, topic: str, told: Told, pause: Callable[[], object]) -> None:
        from lithify.cli.outages import Outage

        self._outage = Outage("appending to", topic)
        self._told = told
        self._pause = pause

    def until_done(self, work: Callable[[], None]) -> None:
        """Whatever is left when a signal ends the waiting is told."""
        done = False
        while not done:
            with self._outage.outlasted():
                work()
                done = True
            if not done:
                with self._told.waiting():
                    self._pause()


class _Appending:
    """Appends batches. Whatever ends the command, the invocation reports how far the import came."""

    def __init__(self, started: "Import", source: str, invocation: Invocation, waits: "_Waits | None") -> None:
        self._import = started
        self._waits = waits
        self._source = source
        self._batch: Batch | None = None
        self._doubted = False  # whether its timestamps are in milliseconds
        invocation.how_far = self._how_far

    def append(self, batch: "Batch") -> None:
        self._batch = batch
        self._doubt_times(batch)
        if self._waits is None:
            self._append(batch)
        else:
            self._waits.until_done(lambda: self._append(batch))
        self._batch = None

    def _append(self, batch: "Batch") -> None:
        self._import.append(batch.records, batch.first, last=batch.last)

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
