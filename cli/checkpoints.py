"""`lithify checkpoint`: pin what a topic holds now, so that it stays readable."""

from typing import TYPE_CHECKING

import click

from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, time_text
from lithify.cli.terminal import warn
from lithify.manifest.words import counted

if TYPE_CHECKING:
    from lithify.admin.checkpoints import PartitionCheckpoint
    from lithify.admin.partitions import Answers

__all__ = ["checkpoint", "expiry_text"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group(cls=Group)
def checkpoint() -> None:
    """Pin the state of a topic under a name, so that garbage collection keeps it readable."""


@command(checkpoint)
@click.argument("topic")
@click.argument("name")
@_partition
@click.option(
    "--ttl-ms", type=click.IntRange(1), help="Let it expire after this time. Default: it stays until deleted."
)
def create(invocation: Invocation, topic: str, name: str, partition: int | None, ttl_ms: int | None) -> int:
    """Pin the present state of TOPIC as NAME. Partitions that already have a checkpoint NAME keep it; if
    all have it, the command fails."""
    try:
        made = invocation.admin().create_checkpoint(topic, name, partition, ttl_ms)
    except KeyboardInterrupt:
        shows, deletes = f"'lithify checkpoint list {topic}'", f"'lithify checkpoint delete {topic} {name}'"
        warn(f"some partitions may have it ({shows}). Run again for the others, or {deletes}, to pin all at one time")
        raise
    return _show(invocation.output, made)


@command(checkpoint, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> int:
    """List the checkpoints of TOPIC."""
    return _show(invocation.output, invocation.admin().checkpoints(topic, partition))


@command(checkpoint)
@click.argument("topic")
@click.argument("name")
@_partition
def delete(invocation: Invocation, topic: str, name: str, partition: int | None) -> int:
    """Delete checkpoint NAME of TOPIC. Garbage collection then deletes what only it kept."""
    deleted = invocation.admin().delete_checkpoint(topic, name, partition)
    output = invocation.output
    value = {"topic": topic, "checkpoint": name, "partitions": [each.partition for each in deleted.items]}
    where = counted(len(deleted.items), "partition")
    output.answer(value, lambda: output.line(f"checkpoint {name} deleted in {where} of {topic}"))
    return tell_faults(deleted.faults)


def _show(output: Output, found: "Answers[PartitionCheckpoint]") -> int:
    columns = ("topic", "#partition", "name", "#manifest", "created", "expires")
    rows = [
        (each.topic, each.partition, pin.name, pin.manifest, time_text(pin.created_at_ms), expiry_text(each))
        for each in found.items
        for pin in [each.checkpoint]
    ]
    output.answer(found.items, lambda: output.table(columns, rows, less=("created", "manifest"), lead="name"))
    return tell_faults(found.faults)


def expiry_text(each: "PartitionCheckpoint") -> str:
    """An expired one still pins until a collection removes it."""
    at = time_text(each.checkpoint.expires_at_ms) or "never"
    return f"{at}, expired" if each.expired else at
