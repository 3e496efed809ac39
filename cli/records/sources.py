"""Which sources are meant: URLs, and patterns of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lithify.cli.records.bulk import file_system
from lithify.cli.records.explained import explained
from lithify.store.errors import NotFound
from lithify.store.urls import shown

__all__ = ["expanded"]


def expanded(sources: Sequence[str], options_for: Callable[[str], Mapping[str, Any]]) -> list[str]:
    """Each source once, those of a pattern in the order of their names. Raises NotFound if a pattern has none."""
    found: dict[str, None] = {}
    for source in sources:
        if "*" not in source and "[" not in source:
            found[source] = None
            continue
        with explained(shown(source)):
            system, path = file_system(source, options_for(source))
            if system.exists(path):  # a name that has such characters
                found[source] = None
                continue
            matching = sorted(each for each in system.glob(path) if not system.isdir(each))
        if not matching:
            raise NotFound(f"no file matches {shown(source)}")
        remote = "://" in source
        found |= dict.fromkeys(system.unstrip_protocol(each) if remote else each for each in matching)
    return list(found)
