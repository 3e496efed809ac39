"""`lithify read`, `scan`, `get`, `export`: records as lines of JSON, or as Parquet."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import click

from lithify.admin.interruption import told_to_end
from lithify.cli.invocation import Invocation, command, key_bytes, text_bytes
from lithify.cli.output import tell_cold, time_text
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.manifest.words import counted, numbers_text
from lithify.store.errors import InvalidRequest, NotFound, OffsetOutOfRange

if TYPE_CHECKING:
    import pyarrow as pa

    from lithify.log.follow import OffsetReset
    from lithify.log.partition import Partition
    from lithify.log.small_partitions import PartitionRead, Reads
    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic

__all__ = ["export", "get", "read", "scan"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all, one after the other.")


def _at_most(_: click.Context, __: click.Parameter, given: int | None) -> int | None:
    return None if given is None else min(given, sys.maxsize)  # there cannot be more records


_limit = click.option("--limit", type=click.IntRange(0), callback=_at_most, metavar="N", help="At most N records.")
_checkpoint = click.option(
    "--checkpoint", metavar="NAME", help="Read what this checkpoint pins, instead of the present state."
)

_Read = Callable[["Snapshot"], "Iterable[pa.RecordBatch]"]


@command()
@click.argument("topic")
@_partition
@click.option(
    *("--from-offset", "from_offset"), type=int,
    help="Begin at this offset, in each partition. -5: as --tail 5. Default: where --auto-offset-reset says.",
)  # fmt: skip
@click.option(
    *("--from-timestamp", "from_time"), metavar="TIME",
    help="Begin at the first record that is not older: milliseconds since 1970, or ISO 8601 (without a zone: UTC).",
)  # fmt: skip
@click.option("--tail", "last", type=click.IntRange(0), metavar="N", help="Begin at the last N records of a partition.")
@click.option("--to-offset", type=click.IntRange(0), help="End before this offset.")
@click.option(
    "--auto-offset-reset",
    "reset",
    type=click.Choice(["earliest", "latest", "error"]),
    default="earliest",
    show_default=True,
    help="Where to begin if the log no longer has that offset; one beyond its end is always an error.",
)
@click.option("--follow", is_flag=True, help="Keep reading new records, until Ctrl-C, SIGTERM or SIGHUP.")
@click.option("--consumer", metavar="NAME", help="Resume where this consumer stopped, and commit its position.")
@_checkpoint
@_limit
def read(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    from_offset: int | None,
    from_time: str | None,
    last: int | None,
    to_offset: int | None,
    reset: "OffsetReset",
    follow: bool,
    consumer: str | None,
    checkpoint: str | None,
    limit: int | None,
) -> None:
    """Print every stored record of TOPIC in offset order, including tombstones, as lines of JSON."""
    if to_offset is not None and (follow or consumer is not None):
        raise InvalidRequest("--to-offset cannot be used with --follow or --consumer; use --limit N")
    if to_offset is not None and from_offset is not None and to_offset < from_offset:
        raise InvalidRequest(f"--to-offset {to_offset} must not be less than --from-offset {from_offset}")
    if checkpoint is not None and (follow or consumer is not None):
        raise InvalidRequest("--checkpoint cannot be used with --follow or --consumer: a checkpoint does not change")
    start = _start(from_offset, from_time, last)
    if start is not None and consumer is not None:
        raise InvalidRequest(f"consumer {consumer} begins at its position; to move it: 'lithify consumer reset'")
    if not follow and consumer is None:
        from lithify.log.follow import bounded

        if from_offset is not None and partition is None and checkpoint is None:
            _require_in_each_partition(invocation.warehouse().topic(topic), from_offset)

        def within(found: "Snapshot") -> "pa.RecordBatchReader":
            begins = None if start is None else start(found)
            return found.read_batches(*bounded(found, begins, to_offset, reset))

        _write(invocation, topic, partition, checkpoint, "-", limit, within)
        return
    from lithify.cli.tails import consume, tail

    if consumer is None:
        tail(invocation, topic, partition, start, reset, limit)
    else:
        consume(invocation, topic, partition, consumer, reset, limit, follow=follow)


def _start(from_offset: int | None, from_time: str | None, last: int | None) -> "Callable[[Snapshot], int] | None":
    """Where to begin in each partition; None: nothing was asked for."""
    if sum(given is not None for given in (from_offset, from_time, last)) > 1:
        raise InvalidRequest("give one of --from-offset, --from-timestamp and --tail")
    if from_offset is not None and from_offset >= 0:
        return lambda _: from_offset
    if from_time is not None:
        at_ms = _milliseconds(from_time)
        return lambda found: _or_end(found, found.offset_for_timestamp(at_ms))
    if from_offset is not None:
        last = -from_offset
    return None if last is None else lambda found: found.offset_of_last(last)


def _require_in_each_partition(topic: "Topic", offset: int) -> None:
    """Raises OffsetOutOfRange, before anything is written, if a partition of several ends before it: in a topic that
    has grown, the added ones are short."""
    if topic.partitions == 1:
        return
    ends = [snapshot.next_offset for snapshot in topic.snapshot().partitions]
    short = [number for number, end in enumerate(ends) if offset > end]
    if short:
        raise OffsetOutOfRange(
            f"{topic.name}: offset {offset} is beyond the end of the log in {numbers_text('partition', short)}. Each "
            "partition counts its own offsets: choose one with --partition, or give --from-timestamp or --tail"
        )


def _or_end(found: "Snapshot", offset: int | None) -> int:
    return found.next_offset if offset is None else offset


def _milliseconds(time: str) -> int:
    from lithify.cli.records.roles import in_seconds, time_ms

    at_ms = time_ms(time)
    if at_ms is None:
        raise InvalidRequest("--from-timestamp is neither milliseconds since 1970 nor an ISO 8601 time")
    if time.strip().isdecimal() and in_seconds(at_ms):
        raise InvalidRequest(
            f"--from-timestamp {at_ms} is in {time_text(at_ms)[:4]}, and looks like seconds: give milliseconds, "
            f"{at_ms}000, or an ISO 8601 time"
        )
    return at_ms


def _key_bounds(prefix: str | None, low: str | None, high: str | None) -> tuple[bytes | None, bytes | None]:
    """The smallest key, and the one before which to end."""
    if prefix is None:
        first = None if low is None else text_bytes(low, "--key-from")
        end = None if high is None else text_bytes(high, "--key-to")
        if first is not None and end is not None and end < first:
            raise InvalidRequest("--key-from must not come after --key-to (keys are compared by their UTF-8 bytes)")
        return first, end
    if low is not None or high is not None:
        raise InvalidRequest("give either --prefix, or --key-from and --key-to")
    first = text_bytes(prefix, "--prefix")
    return (first, first[:-1] + bytes([first[-1] + 1])) if first else (None, None)  # UTF-8 has no byte 0xff


@command()
@click.argument("topic")
@_partition
@click.option("--prefix", metavar="KEY", help="Only keys that begin with this.")
@click.option("--key-from", "low", metavar="KEY", help="Begin at this key.")
@click.option("--key-to", "high", metavar="KEY", help="End before this key.")
@click.option("--tombstones", is_flag=True, help="Also show deleted keys.")
@_checkpoint
@_limit
def scan(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    prefix: str | None,
    low: str | None,
    high: str | None,
    tombstones: bool,
    checkpoint: str | None,
    limit: int | None,
) -> None:
    """Print the latest record of each key of TOPIC, in key order, as lines of JSON."""
    first, end = _key_bounds(prefix, low, high)
    _write(
        *(invocation, topic, partition, checkpoint, "-", limit),
        lambda found: found.scan(tombstones, low=first, high=end),
        latest=True,
    )


@command()
@click.argument("topic")
@click.argument("key")
@click.option("--base64", "is_base64", is_flag=True, help="KEY is base64.")
@_checkpoint
def get(invocation: Invocation, topic: str, key: str, is_base64: bool, checkpoint: str | None) -> None:
    """Print the latest record of KEY in TOPIC, as a line of JSON."""
    from lithify.cli.records.lines import record_line
    from lithify.log.placed import here, partition_now

    wanted = key_bytes(key, is_base64=is_base64)
    opened = invocation.warehouse().topic(topic)
    places = opened.key_places()
    number = partition_now(places, wanted)
    if checkpoint is not None and places.growths:  # the checkpoint may be older: its partitions decide
        then = opened.pinned(checkpoint)
        places, number = then.places, partition_now(then.places, wanted)
        snapshot = then.partitions[number]
    else:
        snapshot = _snapshot_of(opened.partition(number), checkpoint)
    record = here(places, snapshot.get(wanted), number)
    tell_cold(topic, snapshot.cold_segments_read)
    if record is None:
        raise NotFound(f"{topic} has no record of this key, or it was deleted")
    sys.stdout.buffer.write(record_line(record, number))


@command()
@click.argument("topic")
@click.option(
    *("--to", "target"), required=True, metavar="URL",
    help="A file or URL: JSON lines, .csv, .tsv or .parquet. With a / at its end: a folder of Parquet files.",
)  # fmt: skip
@click.option(
    *("--format", "given_format"), type=click.Choice(["json", "csv", "tsv", "parquet"]),
    help="The format to write. Default: by the name of the target; standard output gets lines of JSON.",
)  # fmt: skip
@_partition
@click.option(
    "--log", "as_log", is_flag=True, help="Every stored record. The default for topics that are not compacted."
)
@click.option(
    "--latest", "as_latest", is_flag=True, help="The latest record of each key. The default for compacted topics."
)
@_checkpoint
@option("engine", default=None, show_default="by size, for folders")
@option("master")
@option("compactor.spark_conf")
def export(
    invocation: Invocation,
    topic: str,
    target: str,
    given_format: str | None,
    partition: int | None,
    as_log: bool,
    as_latest: bool,
    checkpoint: str | None,
    engine: Literal["spark", "local"] | None,
    master: str | None,
    spark_conf: tuple[str, ...],
) -> None:
    """Write the records of TOPIC to a file or URL, which appears only when it is complete. If the export fails, the old
    file stays.

    A folder gets many Parquet files and, last of all, _SUCCESS. Spark writes them if there is 1 GiB or more to read;
    --engine chooses.
    """
    if as_log and as_latest:
        raise InvalidRequest("give either --log or --latest")
    opened = invocation.warehouse().topic(topic)
    latest = as_latest or (opened.parsed_config.compacted and not as_log)
    if target.endswith("/"):
        if given_format not in (None, "parquet"):
            raise InvalidRequest("a folder gets Parquet files; leave out --format, or name a file")
        from lithify.cli.records.folder_exports import export_folder
        from lithify.cli.records.parts import Where

        with told_to_end(), invocation.output.progress(f"reading {topic}") as tick:
            rows = export_folder(
                *(opened, invocation.warehouse().driver.homes, target, invocation.options_for(target)),
                Where(engine, master, spark_conf),
                latest=latest,
                partition=partition,
                checkpoint=checkpoint,
            )
            tick(rows)
        _say_exported(invocation, topic, rows)
        return
    with told_to_end():
        rows = _write(
            *(invocation, topic, partition, checkpoint, target, None),
            lambda found: found.scan() if latest else found.read_batches(),
            latest=latest,
            given_format=given_format,
        )
    if target != "-":
        _say_exported(invocation, topic, rows)


def _say_exported(invocation: Invocation, topic: str, rows: int) -> None:
    output = invocation.output
    value = {"topic": topic, "exported": rows}
    output.answer(value, lambda: output.line(f"{counted(rows, 'record')} exported from {topic}"))


def _snapshot_of(part: "Partition", checkpoint: str | None) -> "Snapshot":
    return part.snapshot() if checkpoint is None else part.pinned(checkpoint)


def _write(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    checkpoint: str | None,
    target: str,
    limit: int | None,
    read: _Read,
    *,
    latest: bool = False,
    given_format: str | None = None,
) -> int:
    """With `latest` and no `partition`, leaves out what keys left behind when the topic grew, and warns about it."""
    from lithify.cli.records.sinks import open_sink
    from lithify.cli.turns import Turns
    from lithify.log.small_partitions import PartitionRead, in_order
    from lithify.segment.stayed import stayed_batches

    opened = invocation.warehouse().topic(topic)
    places = opened.key_places() if latest and partition is None else None

    def batches(number: int, found: "Snapshot") -> "Iterator[tuple[int, pa.RecordBatch]]":
        all_stay = places is None or not places.growths
        return ((number, batch) for batch in _limited(read(found), limit if all_stay else None))

    def fixed(number: int, found: "Snapshot") -> "PartitionRead[tuple[int, pa.RecordBatch]]":
        return PartitionRead.of(found.segments, partial(batches, number, found))

    reads: Reads[tuple[int, pa.RecordBatch]]
    if partition is not None:
        reads = [fixed(partition, _snapshot_of(opened.partition(partition), checkpoint))]
    elif checkpoint is not None:
        then = opened.pinned(checkpoint)
        places = then.places if latest else None
        reads = [fixed(number, found) for number, found in enumerate(then.partitions)]
    else:
        reads = Turns(opened, invocation.warehouse(), batches)

    def tell(number: int, records: int) -> None:
        moved = f"{counted(records, 'record')} left out, whose keys changed their partition when the topic grew"
        warn(f"warning: {topic}/{number}: {moved}; --partition {number} shows them")

    with (
        open_sink(target, invocation.options_for(target), given_format) as sink,
        invocation.output.progress(f"reading {topic}", seen=target != "-") as tick,
    ):
        for number, mine in groupby(in_order(reads, invocation.warehouse().store), itemgetter(0)):
            rows = (batch for _, batch in mine)
            here = rows if places is None else stayed_batches(rows, places, number, tell)
            with closing(here):
                for batch in _limited(here, None if limit is None else limit - sink.rows):
                    sink.write(batch, number)
                    tick(batch.num_rows)
            if sink.rows == limit:
                break
    tell_cold(topic, opened.cold_segments_read)
    return sink.rows


def _limited(batches: "Iterable[pa.RecordBatch]", limit: int | None) -> "Iterator[pa.RecordBatch]":
    """Asks for no batch that is not needed: the next one may be another partition's."""
    if limit is None:
        yield from batches
    elif limit > 0:
        left = limit
        for batch in batches:
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return
