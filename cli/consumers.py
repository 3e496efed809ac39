"""`lithify consumer`: the named positions of a topic's readers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import click

from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, time_text
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.admin.consumers import PartitionConsumer
    from lithify.admin.partitions import Answers
    from lithify.log.consumer_info import ConsumerInfo

__all__ = ["consumer", "show_consumers"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group(cls=Group)
def consumer() -> None:
    """List, reset and delete named consumers."""


@command(consumer, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> int:
    """List the consumers of TOPIC: position, lag, and what they have missed."""
    return _show(invocation.output, invocation.admin().consumers(topic, partition))


@command(consumer)
@click.argument("topic")
@click.argument("name")
@_partition
@click.option("--to-earliest", is_flag=True, help="To the start of the log.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To this offset.")
def reset(
    invocation: Invocation,
    topic: str,
    name: str,
    partition: int | None,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
) -> int:
    """Move the position of consumer NAME of TOPIC. A running instance is refused at its next commit."""
    if to_earliest + to_latest + (to_offset is not None) != 1:
        raise InvalidRequest("give one of --to-earliest, --to-latest and --to-offset N")
    admin = invocation.admin()
    if to_offset is not None and partition is None:
        count = sum(each.consumer.name == name for each in admin.consumers(topic).items)
        if count > 1:
            raise InvalidRequest(f"--to-offset applies to one partition: choose one of the {count} with --partition")
    place: int | Literal["earliest", "latest"] = "earliest" if to_earliest else "latest"
    to = place if to_offset is None else to_offset
    return _show(invocation.output, admin.reset_consumer(topic, name, to, partition))


@command(consumer)
@click.argument("topic")
@click.argument("name")
@_partition
def delete(invocation: Invocation, topic: str, name: str, partition: int | None) -> int:
    """Delete consumer NAME of TOPIC. A running instance is refused at its next commit."""
    deleted = invocation.admin().delete_consumer(topic, name, partition)
    output = invocation.output
    value = {"topic": topic, "consumer": name, "partitions": [each.partition for each in deleted.items]}
    where = counted(len(deleted.items), "partition")
    output.answer(value, lambda: output.line(f"consumer {name} deleted in {where} of {topic}"))
    return tell_faults(deleted.faults)


def _show(output: Output, found: "Answers[PartitionConsumer]") -> int:
    rows = [(each.partition, each.consumer) for each in found.items]
    output.answer(found.items, lambda: show_consumers(output, rows))
    return tell_faults(found.faults)


def show_consumers(output: Output, found: "Iterable[tuple[int, ConsumerInfo]]") -> None:
    rows = [
        (number, known.name, known.offset, known.lag, time_text(known.committed_at_ms), known.alarm)
        for number, known in found
    ]
    columns = ("#partition", "consumer", "#position", "#lag", "committed", "alarm")
    output.table(columns, rows, less=("committed",), lead="consumer", prose=True)
