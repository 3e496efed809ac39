"""`lithify checkpoint`: pin what a topic holds now, so that it stays readable."""

from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, time_text
from lithify.manifest.words import counted
from lithify.store.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from lithify.log.partition import Partition
    from lithify.manifest.model import Checkpoint

__all__ = ["checkpoint"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group()
def checkpoint() -> None:
    """Pin the state of a topic under a name, so that garbage collection keeps it readable."""


def _chosen(invocation: Invocation, topic: str, partition: int | None) -> "list[Partition]":
    opened = invocation.warehouse().topic(topic)
    numbers = range(opened.partitions) if partition is None else [partition]
    return [opened.partition(number) for number in numbers]


def _named(part: "Partition", name: str, at_ms: int = 0) -> "Checkpoint | None":
    """The checkpoint of that name, if it has not expired at `at_ms`."""
    from lithify.manifest.pins import expired

    found = (pinned for pinned in part.checkpoints() if not expired(pinned, at_ms))
    return next((pinned for pinned in found if pinned.name == name), None)


@command(checkpoint)
@click.argument("topic")
@click.argument("name")
@_partition
@click.option(
    "--ttl-ms", type=click.IntRange(1), help="Let it expire after this time. Default: it stays until deleted."
)
def create(invocation: Invocation, topic: str, name: str, partition: int | None, ttl_ms: int | None) -> None:
    """Pin the present state of TOPIC as NAME. Partitions that already have a checkpoint NAME keep it; if
    all have it, the command fails."""
    parts = _chosen(invocation, topic, partition)
    now_ms = invocation.warehouse().driver.now_ms()
    missing = [part for part in parts if _named(part, name, now_ms) is None]
    if not missing:
        raise AlreadyExists(f"{topic} has a checkpoint {name!r} already; pick another name, or delete it first")
    for part in missing:
        part.snapshot(pin=name, ttl=ttl_ms)
    _show(invocation.output, [(part, found) for part in parts if (found := _named(part, name)) is not None])


@command(checkpoint, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> None:
    """List the checkpoints of TOPIC."""
    parts = _chosen(invocation, topic, partition)
    _show(invocation.output, [(part, found) for part in parts for found in part.checkpoints()])


@command(checkpoint)
@click.argument("topic")
@click.argument("name")
@_partition
def delete(invocation: Invocation, topic: str, name: str, partition: int | None) -> None:
    """Delete checkpoint NAME of TOPIC. Garbage collection then deletes what only it kept."""
    parts = [part for part in _chosen(invocation, topic, partition) if _named(part, name) is not None]
    if not parts:
        raise NotFound(f"{topic} has no checkpoint {name!r}; 'lithify checkpoint list {topic}' shows what there is")
    for part in parts:
        part.delete_checkpoint(name)
    output = invocation.output
    value = {"topic": topic, "checkpoint": name, "partitions": [part.number for part in parts]}
    output.answer(
        value, lambda: output.line(f"checkpoint {name} deleted in {counted(len(parts), 'partition')} of {topic}")
    )


def _show(output: Output, found: "list[tuple[Partition, Checkpoint]]") -> None:
    value = [{"topic": part.topic, "partition": part.number, "checkpoint": pinned} for part, pinned in found]
    columns = ("topic", "#partition", "name", "#manifest", "created", "expires")
    rows = [
        (part.topic, part.number, pinned.name, pinned.manifest, time_text(pinned.created_at_ms), _expiry(pinned))
        for part, pinned in found
    ]
    output.answer(value, lambda: output.table(columns, rows))


def _expiry(pinned: "Checkpoint") -> str:
    return time_text(pinned.expires_at_ms) or "never"
