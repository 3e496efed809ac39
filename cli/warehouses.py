"""`lithify warehouse`: describe and alter the settings of the whole warehouse."""

from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Invocation, command, parse_changes
from lithify.cli.output import Output
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.log.warehouse import WarehouseInfo

__all__ = ["warehouse"]


@click.group()
def warehouse() -> None:
    """Describe and alter the warehouse's settings."""


@command(warehouse)
def describe(invocation: Invocation) -> None:
    """Where the warehouse lies, its settings and its topics."""
    info = invocation.warehouse().describe()
    output = invocation.output
    output.answer(info, lambda: _describe(output, info))


def _describe(output: Output, info: "WarehouseInfo") -> None:
    output.line(f"warehouse {info.url}")
    output.lines(_lines(info.settings))
    output.line(f"{len(info.topics)} topics")
    output.lines(f"  {name}" for name in info.topics)


def _lines(settings: dict[str, str]) -> list[str]:
    return [f"  {name}={value}" for name, value in sorted(settings.items())]


@command(warehouse)
@click.option("--config", "pairs", multiple=True, metavar="NAME=VALUE", help="As in auto.create.topics.enable=true.")
@click.option("--unset", multiple=True, metavar="NAME", help="Put a setting back to its default.")
def alter(invocation: Invocation, pairs: tuple[str, ...], unset: tuple[str, ...]) -> None:
    """Change settings: auto.create.topics.enable, num.partitions, and topics' configuration under default., as in
    default.cleanup.policy=compact. They hold for topics that their first append creates; others keep what they have."""
    changes = parse_changes(pairs, unset)
    if not changes:
        raise InvalidRequest("nothing to change; give --config or --unset")
    settings = invocation.warehouse().alter(dict(changes))
    output = invocation.output
    output.answer({"settings": settings}, lambda: output.lines(["warehouse altered", *_lines(settings)]))
