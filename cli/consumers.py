"""`lithify consumer`: the named positions of a topic's readers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, time_text
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from lithify.log.consumer_info import ConsumerInfo
    from lithify.log.partition import Partition

__all__ = ["consumer", "show_consumers"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group()
def consumer() -> None:
    """List, reset and delete named consumers."""


def _chosen(invocation: Invocation, topic: str, partition: int | None) -> "list[Partition]":
    opened = invocation.warehouse().topic(topic)
    numbers = range(opened.partitions) if partition is None else [partition]
    return [opened.partition(number) for number in numbers]


def _known(invocation: Invocation, topic: str, partition: int | None, name: str) -> "list[Partition]":
    """The partitions that have a consumer of this name. Raises NotFound if none has."""
    found = [
        part for part in _chosen(invocation, topic, partition) if any(known.name == name for known in part.consumers())
    ]
    if not found:
        raise NotFound(f"{topic} has no consumer {name!r}; 'lithify consumer list {topic}' shows what there is")
    return found


@command(consumer, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> None:
    """List the consumers of TOPIC: position, lag, and what they have missed."""
    _show(invocation.output, _chosen(invocation, topic, partition))


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
) -> None:
    """Move the position of consumer NAME of TOPIC. A running instance is refused at its next commit."""
    if to_earliest + to_latest + (to_offset is not None) != 1:
        raise InvalidRequest("give one of --to-earliest, --to-latest and --to-offset N")
    parts = _known(invocation, topic, partition, name)
    if to_offset is not None and len(parts) > 1:
        raise InvalidRequest(f"--to-offset applies to one partition: choose one of the {len(parts)} with --partition")
    place: int | Literal["earliest", "latest"] = "earliest" if to_earliest else "latest"
    for part in parts:
        part.reset_consumer(name, place if to_offset is None else to_offset)
    _show(invocation.output, parts, name)


@command(consumer)
@click.argument("topic")
@click.argument("name")
@_partition
def delete(invocation: Invocation, topic: str, name: str, partition: int | None) -> None:
    """Delete consumer NAME of TOPIC. A running instance is refused at its next commit."""
    parts = _known(invocation, topic, partition, name)
    for part in parts:
        part.delete_consumer(name)
    output = invocation.output
    value = {"topic": topic, "consumer": name, "partitions": [part.number for part in parts]}
    output.answer(
        value, lambda: output.line(f"consumer {name} deleted in {counted(len(parts), 'partition')} of {topic}")
    )


def _show(output: Output, parts: "list[Partition]", name: str | None = None) -> None:
    found = [(part.number, known) for part in parts for known in part.consumers() if name in (None, known.name)]
    value = [{"partition": number, "consumer": known} for number, known in found]
    output.answer(value, lambda: show_consumers(output, found))


def show_consumers(output: Output, found: "Iterable[tuple[int, ConsumerInfo]]") -> None:
    rows = [
        (number, known.name, known.offset, known.lag, time_text(known.committed_at_ms), known.alarm)
        for number, known in found
    ]
    output.table(("#partition", "consumer", "#position", "#lag", "committed", "alarm"), rows)
