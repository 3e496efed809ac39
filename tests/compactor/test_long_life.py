"""A process that lives long sees many topics come and go: nothing is kept of those that are gone."""

import gc
import types
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from lithify.store.driver import Driver
from lithify.store.metered import Metered
from tests.manifest.test_ended import Town

BESIDE = (types.ModuleType, type, types.FunctionType, Metered, Driver)


def reached(root: object) -> Iterator[Any]:
    """All that `root` leads to, but for code and the store."""
    seen, todo = set[int](), [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, BESIDE):
            continue
        seen.add(id(each))
        yield each
        todo += gc.get_referents(each)
        if isinstance(each, dict):  # of a dictionary by names `get_referents` tells the values alone
            todo += each.keys()


def test_of_deleted_topics_their_names_alone_are_remembered() -> None:
    """That a name is at rest is known by it; all else of it goes, also what was wrong there."""
    town = Town()
    compactor, collector = town.compactor(), town.collector()
    town.collect(collector)
    for number in range(4):
        town.make(f"gone{number}")
        with patch("lithify.compactor.coordinator.Coordinator.step", side_effect=ValueError("a fault")):
            compactor.run_once()
        collector.run_once()
        town.warehouse.delete_topic(f"gone{number}")
        town.collect(collector)
    for work in (compactor, collector):
        work.run_once()
        strings = [each for each in reached(work) if isinstance(each, str) and "gone" in each]
        assert sorted(strings) == [f"gone{number}" for number in range(4)]
