"""A warehouse's settings for topics that nobody created explicitly: a numbered chain of its own, beside the topics.

Kafka's names. Values under `default.` are copied into a topic when its first append creates it, and change no topic
later: a topic's own file always has its whole configuration.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lithify.manifest.commit import Lineage
from lithify.manifest.config import Setting, config_table, spell, spell_changes, truth, validate, whole_number
from lithify.manifest.config_kafka import INSTEAD, instead
from lithify.manifest.edits import Next
from lithify.manifest.invariants import check_warehouse
from lithify.manifest.keys import WAREHOUSE_CONFIG
from lithify.manifest.model import FORMAT, PARTITIONS_MAX, WarehouseFile
from lithify.manifest.quantities import unit_hint
from lithify.store.errors import InvalidRequest

__all__ = [
    "AlterWarehouse",
    "WarehouseSettings",
    "parse_settings",
    "spell_settings",
    "warehouse_lineage",
    "warehouse_table",
]

_AUTO_CREATE = "auto.create.topics.enable"
_PARTITIONS = "num.partitions"
_DEFAULT = "default."  # before the name of a topic's configuration

_TABLE: dict[str, tuple[str, Callable[[str], Any], str]] = {
    _AUTO_CREATE: ("false", truth, "true: the first append to a topic that does not exist creates it"),
    _PARTITIONS: ("1", whole_number(1, PARTITIONS_MAX), "partitions of a topic created by its first append"),
}


class WarehouseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed settings of a warehouse. The last two apply to topics created by their first append."""

    auto_create_topics: bool
    partitions: int
    topic_config: dict[str, str]


def warehouse_lineage() -> Lineage[WarehouseFile]:
    return Lineage(WAREHOUSE_CONFIG, WarehouseFile, check_warehouse)


def warehouse_table() -> list[tuple[str, str, str]]:
    """(name, default, meaning) of every setting except those under `default.`, in documentation order."""
    return [(name, default, meaning) for name, (default, _, meaning) in _TABLE.items()]


def parse_settings(stored: Mapping[str, str]) -> WarehouseSettings:
    """Stored settings with their defaults filled in. Raises InvalidRequest for a value that this lithify does not know:
    a later one must have stored it."""
    value = {name: _parsed(name, stored.get(name, default)) for name, (default, _, _) in _TABLE.items()}
    return WarehouseSettings(
        auto_create_topics=value[_AUTO_CREATE], partitions=value[_PARTITIONS], topic_config=_of_topics(stored)
    )


def _parsed(name: str, text: str) -> Any:
    try:
        return _TABLE[name][1](text)
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is stored as {text[:80]!r}, but must be {error}: upgrade lithify, or alter it with "
            "'lithify warehouse alter'"
        ) from None


def _of_topics(stored: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_DEFAULT): text for name, text in stored.items() if name.startswith(_DEFAULT)}


def spell_settings(changes: Mapping[str, Setting | None]) -> dict[str, str | None]:
    """Changes of the settings, each value as a string; None: back to the default. Raises InvalidRequest for an unknown
    name. Values are checked later, together with those that stay."""
    for name in changes:
        if name in _TABLE:
            continue
        if not str(name).startswith(_DEFAULT):
            raise InvalidRequest(_unknown(str(name)))
        spell_changes({name.removeprefix(_DEFAULT): None})
    return {name: None if value is None else spell(name, value) for name, value in changes.items()}


def _unknown(name: str) -> str:
    of_topics = [topic_name for topic_name, _, _ in config_table()]
    meant = INSTEAD.get(name, name)
    if meant.split(" (")[0] in of_topics:
        return (
            f"{name} belongs to a topic, not a warehouse; for topics that a first append creates set {_DEFAULT}{meant}"
        )
    if name in INSTEAD:
        return f"{name} is not a warehouse setting{instead(name)}"
    near = difflib.get_close_matches(name, [*_TABLE, *(_DEFAULT + topic_name for topic_name in of_topics)], n=1)
    told = f"did you mean {near[0]}?" if near else "see docs/configuration.md"
    return f"unknown warehouse setting {name[:80]!r}; {told}"


def _checked(stored: Mapping[str, str]) -> dict[str, str]:
    for name, (_, check, _) in _TABLE.items():
        try:
            if name in stored:
                check(stored[name])
        except ValueError as error:
            hint = unit_hint(name, stored[name])
            raise InvalidRequest(f"{name} is {stored[name][:80]!r}; it must be {error}{hint}") from None
    try:
        validate(_of_topics(stored))
    except InvalidRequest as error:
        raise InvalidRequest(f"{_DEFAULT}*: {error}") from None
    return dict(stored)


@dataclass(frozen=True, slots=True)
class AlterWarehouse:
    """Change settings (None: back to the default); answers with all settings that are now set."""

    changes: dict[str, str | None]

    repeatable = True  # it sets values
    frees = False

    def apply(self, head: WarehouseFile | None, number: int, now_ms: int) -> Next[WarehouseFile, dict[str, str]]:
        merged = {**(head.config if head else {}), **self.changes}
        config = _checked({name: value for name, value in merged.items() if value is not None})
        return Next(WarehouseFile(format=FORMAT, config=config), config)
