"""`lithify topic`: create, list, describe, alter, delete, delete-records."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from lithify.cli.confirming import confirm
from lithify.cli.consumers import show_consumers
from lithify.cli.failures import code_of, tell_faults
from lithify.cli.invocation import Group, Invocation, command, parse_changes, parse_pairs
from lithify.cli.output import Output, count_text, size_text, time_text
from lithify.cli.partitions import alarms, describe_partition, due_text, home_lines
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.manifest.config import config_table, parse
from lithify.manifest.words import counted
from lithify.store.errors import AlreadyExists, InvalidRequest

if TYPE_CHECKING:
    from lithify.admin.topics import TopicSummary
    from lithify.log.info import PartitionInfo, TopicInfo

__all__ = ["topic"]

_config = click.option(
    "--config",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A topic configuration, such as cleanup.policy=compact; may be repeated.",
)


@click.group(cls=Group)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@command(topic)
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@_config
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is, and succeed.")
@option("compactor.probe")
def create(
    invocation: Invocation, name: str, partitions: int, pairs: tuple[str, ...], if_not_exists: bool, probe: bool
) -> None:
    """Create topic NAME. Before the warehouse's first topic is created, the store is probed."""
    admin = invocation.admin()
    config = parse_pairs(pairs, "--config")
    try:
        with invocation.output.progress("asking the store"):
            made = admin.create_topic(name, partitions, config, probe=probe)
    except AlreadyExists:
        if not if_not_exists:
            raise
        _tell(invocation.output, admin.topic(name), f"topic {name} already exists, and stays as it is")
        return
    _tell(invocation.output, made, f"topic {name} created with {counted(partitions, 'partition')}")


def _tell(output: Output, made: "TopicSummary", text: str) -> None:
    value = {"topic": made.topic, "partitions": made.partitions, "config": made.config}
    output.answer(value, lambda: output.line(text))


@command(topic, "list")
def list_(invocation: Invocation) -> int:
    """List the topics of the warehouse. Topics that cannot be read are listed too, and named on standard error."""
    found = invocation.admin().topics()
    names = sorted(each.topic for each in (*found.items, *found.failed))
    if not names:
        invocation.require_begun()
    output = invocation.output
    output.answer(names, lambda: output.lines(names))
    return tell_faults(found.faults)


@command(topic)
@click.argument("name")
@click.option("--defaults", is_flag=True, help="Show the whole configuration, including defaults.")
@click.option("--partition", type=int, help="Show this partition, with its shape drawn: loose segments, runs, pins.")
def describe(invocation: Invocation, name: str, defaults: bool, partition: int | None) -> int:
    """Show the configuration and partitions of topic NAME, and the compaction work that is due."""
    if partition is not None:
        if defaults:
            raise InvalidRequest("--defaults is about the topic: leave out --partition")
        return describe_partition(invocation, name, partition)
    info = invocation.admin().describe_topic(name)
    unset = {each: value for each, value, _ in config_table() if each not in info.config}
    cold = {"cold.location", "cold.storage.class"} & info.config.keys()
    shown = {each: value for each, value in unset.items() if defaults or (cold and each == "hot.retain.segments")}
    output = invocation.output
    whole = msgspec.structs.replace(info, config={**info.config, **(unset if defaults else {})})
    output.answer(whole, lambda: _describe(output, info, shown))
    return code_of(info)


def _describe(output: Output, info: "TopicInfo", unset: dict[str, str]) -> None:
    output.line(f"topic {info.topic} (id {info.topic_id}), created {time_text(info.created_at_ms)}")
    output.lines(f"  {name}={value}" for name, value in sorted(info.config.items()))
    output.lines(f"  {name}={value} (default)" for name, value in sorted(unset.items()))
    columns = [
        *("#partition", "#log start", "#next offset"),
        *("#records readable", "#records stored", "#bytes readable", "#bytes stored"),
        *("#L0", "#runs", "#dirty ratio", "compacted", "due"),
    ]
    less = ("bytes readable", "records stored", "compacted", "dirty ratio", "log start")
    output.table(columns, [_row(part) for part in info.partitions], less=less, prose=True)
    output.lines(home_lines(info))
    output.lines(_kept_whole(info))
    for part in info.partitions:
        output.lines(f"! {info.topic}/{part.partition}: {alarm}" for alarm in alarms(part))
    for failed in info.failures:
        output.line(f"! {info.topic}/{failed.partition}: {failed.fault.text}")
    found = [(part.partition, known) for part in info.partitions for known in part.consumers]
    if found:
        show_consumers(output, found)


def _kept_whole(info: "TopicInfo") -> Iterator[str]:
    """Why more is readable than retention.records says."""
    config = parse(info.config)
    if config.deleting and config.retention_records >= 0:
        for part in info.partitions:
            if part.logical_rows > config.retention_records and not part.retention_pinned:
                yield (
                    f"{info.topic}/{part.partition}: retention.records={config.retention_records}, and "
                    f"{counted(part.logical_rows, 'record')} can be read: those of one append go together"
                )


def _row(part: "PartitionInfo") -> tuple[object, ...]:
    return (
        *(part.partition, part.log_start_offset, part.next_offset),
        *(count_text(part.logical_rows), count_text(part.rows), size_text(part.logical_bytes), size_text(part.bytes)),
        *(len(part.l0), len(part.runs), f"{part.dirty_ratio:.2f}"),
        *(time_text(part.last_compacted_at) or "never", due_text(part)),
    )


@command(topic)
@click.argument("name")
@_config
@click.option("--unset", multiple=True, metavar="NAME", help="Restore the default of this setting; may be repeated.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="Grow to N partitions. Most keys then belong to another partition; existing records do not move.",
)
def alter(
    invocation: Invocation, name: str, pairs: tuple[str, ...], unset: tuple[str, ...], partitions: int | None
) -> None:
    """Change the configuration of topic NAME, or grow its number of partitions."""
    changes = parse_changes(pairs, unset)
    if not changes and partitions is None:
        raise InvalidRequest(f"topic {name}: nothing to change; give --config, --unset or --partitions")
    admin = invocation.admin()
    before = admin.topic(name)
    altered = admin.alter_topic(name, changes, partitions)
    if altered.partitions > before.partitions:
        warn(
            f"warning: {name}: most keys now belong to another partition; for those keys, scan and get show only "
            "records written from now on. scan --partition N shows the older records (docs/operations.md)"
        )
    same = (altered.partitions, altered.config) == (before.partitions, before.config)
    _tell(
        invocation.output,
        altered,
        f"topic {name} is as it was: it had this already" if same else f"topic {name} altered",
    )


@command(topic, "delete-records")
@click.argument("name")
@click.option("--partition", type=click.IntRange(0), help="Required if the topic has several partitions.")
@click.option(
    "--before", type=click.IntRange(-1), required=True, help="Delete all records before this offset; -1: all records."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_records(invocation: Invocation, name: str, partition: int | None, before: int, yes: bool) -> None:
    """Delete the records of topic NAME before an offset. Readers stop seeing them at once. This cannot be undone. The
    next compaction and garbage collection free the space."""
    admin = invocation.admin()
    count = admin.topic(name).partitions
    if partition is None and count > 1:
        raise InvalidRequest(f"--before applies to one partition: choose one of the {count} with --partition")
    number = admin.describe(name, partition or 0).partition
    where = f"{name}/{number}"
    what = "all records" if before == -1 else f"the records before offset {before}"
    confirm(yes, f"Delete {what} of {where}?", f"{where}: this deletes {what}")
    start = admin.delete_records(name, number, before)
    text = f"{where} now starts at offset {start.log_start_offset}"
    invocation.output.answer(start, lambda: invocation.output.line(text))


@command(topic)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(invocation: Invocation, name: str, yes: bool) -> None:
    """Delete topic NAME and, once garbage is collected, all its data."""
    admin = invocation.admin()
    known = admin.topic(name)
    question = f"Delete topic {name} ({counted(known.partitions, 'partition')}) and its data?"
    confirm(yes, question, f"topic {name}: this deletes all its data")
    admin.delete_topic(name)
    output = invocation.output
    text = f"topic {name} deleted; the next collections delete its data"
    output.answer({"topic": name, "deleted": True}, lambda: output.line(text))
