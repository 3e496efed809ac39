"""`lithify transaction`: the applications that number their appends, as partitions remember them."""

from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.output import time_text
from lithify.manifest.words import counted
from lithify.store.errors import NotFound

if TYPE_CHECKING:
    from lithify.log.partition import Partition
    from lithify.log.transactions import TransactionInfo

__all__ = ["transaction"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")


@click.group()
def transaction() -> None:
    """List and forget applications that number their appends, such as imports."""


def _chosen(invocation: Invocation, topic: str, partition: int | None) -> "list[Partition]":
    opened = invocation.warehouse().topic(topic)
    numbers = range(opened.partitions) if partition is None else [partition]
    return [opened.partition(number) for number in numbers]


@command(transaction, "list")
@click.argument("topic")
@_partition
def list_(invocation: Invocation, topic: str, partition: int | None) -> None:
    """List the applications that TOPIC remembers, with their latest versions."""
    found = [(part.number, known) for part in _chosen(invocation, topic, partition) for known in part.transactions()]
    rows = [
        (number, known.application, known.version, time_text(known.committed_at_ms), _state(known))
        for number, known in found
    ]
    output = invocation.output
    value = [{"partition": number, "transaction": known} for number, known in found]
    columns = ("#partition", "application", "#version", "committed", "")
    output.answer(value, lambda: output.table(columns, rows))


def _state(known: "TransactionInfo") -> str:
    stretches = ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in known.passed_over)
    return ", ".join([*(["ended"] if known.ended else []), *([f"{stretches} skipped"] if stretches else [])])


@command(transaction)
@click.argument("topic")
@click.argument("application")
@_partition
def forget(invocation: Invocation, topic: str, application: str, partition: int | None) -> None:
    """Forget APPLICATION of TOPIC. Anything it sends again afterwards is appended again."""
    parts = [
        part
        for part in _chosen(invocation, topic, partition)
        if any(known.application == application for known in part.transactions())
    ]
    if not parts:
        raise NotFound(
            f"{topic} remembers no application {application!r}; 'lithify transaction list {topic}' shows what there is"
        )
    for part in parts:
        part.forget_transaction(application)
    output = invocation.output
    value = {"topic": topic, "application": application, "partitions": [part.number for part in parts]}
    where = counted(len(parts), "partition")
    output.answer(value, lambda: output.line(f"application {application} forgotten in {where} of {topic}"))
