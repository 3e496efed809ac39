"""`lithify warehouse`: describe and alter the settings of the whole warehouse."""

from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Group, Invocation, command, parse_changes
from lithify.cli.output import Output
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.log.warehouse import WarehouseInfo

__all__ = ["warehouse"]


@click.group(cls=Group)
def warehouse() -> None:
    """Describe and alter the warehouse's settings."""


@command(warehouse)
def describe(invocation: Invocation) -> None:
    """Show the warehouse's location, settings and topics."""
    info = invocation.warehouse().describe()
    if not info.topics:
        invocation.require_begun()
    output = invocation.output
    output.answer(info, lambda: _describe(output, info))


def _describe(output: Output, info: "WarehouseInfo") -> None:
    output.line(f"warehouse {info.url}")
    output.lines(_lines(info.settings))
    output.line(counted(len(info.topics), "topic"))
    output.lines(f"  {name}" for name in info.topics)


def _lines(settings: dict[str, str]) -> list[str]:
    return [f"  {name}={value}" for name, value in sorted(settings.items())]


@command(warehouse)
@click.option(
    "--config",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, such as auto.create.topics.enable=true; may be repeated.",
)
@click.option("--unset", multiple=True, metavar="NAME", help="Restore the default of a setting; may be repeated.")
@click.option("--create", is_flag=True, help="Begin a warehouse here if there is none.")
def alter(invocation: Invocation, pairs: tuple[str, ...], unset: tuple[str, ...], create: bool) -> None:
    """Change settings: auto.create.topics.enable, num.partitions, and default.NAME for topic configurations, such as
    default.cleanup.policy=compact. They apply only to topics that are created by their first append."""
    changes = parse_changes(pairs, unset)
    if not changes:
        raise InvalidRequest("nothing to change; give --config or --unset")
    if not create:
        invocation.require_begun("'lithify warehouse alter --create'")
    settings = invocation.warehouse().alter(changes)
    output = invocation.output
    output.answer({"settings": settings}, lambda: output.lines(["warehouse altered", *_lines(settings)]))
