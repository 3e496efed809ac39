"""`lithify transaction`: the applications that number their appends, as partitions remember them."""

from typing import TYPE_CHECKING

import click

from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import time_text
from lithify.manifest.words import counted

if TYPE_CHECKING:
    from lithify.log.transactions import TransactionInfo

__all__ = ["transaction"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group(cls=Group)
def transaction() -> None:
    """List and forget applications that number their appends, such as imports."""


@command(transaction, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> int:
    """List the applications that TOPIC remembers, with their latest versions."""
    found = invocation.admin().transactions(topic, partition)
    rows = [
        (each.partition, known.application, known.version, time_text(known.committed_at_ms), _state(known))
        for each in found.items
        for known in [each.transaction]
    ]
    output = invocation.output
    columns = ("#partition", "application", "#version", "committed", "state")
    output.answer(found.items, lambda: output.table(columns, rows, less=("committed",), lead="application"))
    return tell_faults(found.faults)


def _state(known: "TransactionInfo") -> str:
    stretches = ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in known.passed_over)
    return ", ".join([*(["ended"] if known.ended else []), *([f"{stretches} skipped"] if stretches else [])])


@command(transaction)
@click.argument("topic")
@click.argument("application")
@_partition
def forget(invocation: Invocation, topic: str, application: str, partition: int | None) -> int:
    """Forget APPLICATION of TOPIC. Anything it sends again afterwards is appended again."""
    forgotten = invocation.admin().forget_transaction(topic, application, partition)
    output = invocation.output
    value = {"topic": topic, "application": application, "partitions": [each.partition for each in forgotten.items]}
    where = counted(len(forgotten.items), "partition")
    output.answer(value, lambda: output.line(f"application {application} forgotten in {where} of {topic}"))
    return tell_faults(forgotten.faults)
