"""Which seed of a simulation catches each sabotage, and the record of it: each is tried in a process of its own, whose
imports find the source sabotaged.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import contextlib
import importlib
import io
import json
import multiprocessing
import multiprocessing.pool
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.sim.sabotage_line import Sabotage
from tests.sim.sabotaged import Finder

__all__ = ["Outcome", "Rate", "Record", "rated", "searched", "tested"]

Work = tuple[str, Sabotage, Sequence[int]]


class Outcome(NamedTuple):
    """What became of one sabotage."""

    sabotage: Sabotage
    seed: int | None  # that caught it; None: it escaped
    played: int
    found: str  # the violation, or the test that failed; nothing: it escaped


def _first(work: Work) -> Outcome:
    """In a fresh process: the first of the seeds that catches the sabotage."""
    module, sabotage, seeds = work
    assert not any(module.startswith("lithify") for module in sys.modules), "the product must be imported sabotaged"
    sys.meta_path.insert(0, Finder(sabotage))
    play = importlib.import_module(module).play
    for played, seed in enumerate(seeds, 1):
        found = play(seed)
        if found.violation is not None:
            return Outcome(sabotage, seed, played, found.violation)
    return Outcome(sabotage, None, len(seeds), "")


def _by_test(sabotage: Sabotage) -> Outcome:
    """In a fresh process: whether its test fails."""
    assert not any(module.startswith("lithify") for module in sys.modules), "the product must be imported sabotaged"
    sys.meta_path.insert(0, Finder(sabotage))
    with contextlib.redirect_stdout(io.StringIO()):
        ended = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", sabotage.test])
    return Outcome(sabotage, None, 0, f"{sabotage.test} fails" if ended == pytest.ExitCode.TESTS_FAILED else "")


class Rate(NamedTuple):
    """How many of the seeds catch one sabotage."""

    sabotage: Sabotage
    played: int
    caught: int
    found: str  # by the first of them


def _all(work: Work) -> Rate:
    """In a fresh process."""
    module, sabotage, seeds = work
    sys.meta_path.insert(0, Finder(sabotage))
    play = importlib.import_module(module).play
    found = [violation for seed in seeds if (violation := play(seed).violation) is not None]
    return Rate(sabotage, len(seeds), len(found), found[0] if found else "")


def rated(module: str, work: Iterable[tuple[Sabotage, Sequence[int]]]) -> Iterator[Rate]:
    """As `searched`, but every seed is played."""
    with _pool() as pool:
        yield from pool.imap_unordered(_all, [(module, *each) for each in work])


def searched(module: str, work: Iterable[tuple[Sabotage, Sequence[int]]]) -> Iterator[Outcome]:
    """`module`: the one whose `play` plays a seed."""
    with _pool() as pool:
        yield from pool.imap_unordered(_first, [(module, *each) for each in work])


def tested(sabotages: Iterable[Sabotage]) -> Iterator[Outcome]:
    """Each with its own test."""
    with _pool() as pool:
        yield from pool.imap_unordered(_by_test, sabotages)


def _pool() -> multiprocessing.pool.Pool:
    return multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0)), maxtasksperchild=1)


class Record(NamedTuple):
    """Of the sabotages of one simulation."""

    path: Path
    history: str
    sabotages: Sequence[Sabotage]

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def replayed(self, part: int = 0, parts: int = 1) -> Iterator[Outcome]:
        """Of each sabotage whose seed or test is known, or of every so-many-th, what that finds today."""
        known = self.caught()
        mine = [each for each in self.sabotages if each.name in known or each.test][part::parts]
        seeds = [(each, [known[each.name]["seed"]]) for each in mine if each.name in known]
        yield from searched(self.history, seeds)
        yield from tested([each for each in mine if each.name not in known])

    def caught(self) -> dict[str, Any]:
        """Those on record whose seed is known. The `seed` of the others is null."""
        return {name: kept for name, kept in self.read().items() if kept["seed"] is not None}

    def still_caught(self) -> set[str]:
        """The names of those that the seeds on record catch today."""
        caught = {outcome.sabotage.name for outcome in self.replayed() if outcome.found}
        print(f"{len(caught)} of {len(self.sabotages)} are caught by the seeds on record", file=sys.stderr)
        return caught

    def tell(self, results: Iterable[Outcome], *, keep: bool, forget: bool = False) -> int:
        """Print them, and write those that were caught to the record where it is to `keep` them, and where it is to
        `forget`, that those are sought that were not; how many escaped."""
        escaped = 0
        for result in results:
            sabotage, seed, _, found = result
            escaped += not found
            caught = "ESCAPED" if not found else "caught by its test" if seed is None else f"caught by seed {seed}"
            print(f"{sabotage.rule:26} {sabotage.name:55} {caught:22} {found[:110]}", flush=True)
            if keep and (seed is not None or forget):
                self._keep(result)
        return escaped

    def _keep(self, result: Outcome) -> None:
        sabotage, seed, played, found = result
        played = played if seed is not None else 0
        new = {"rule": sabotage.rule, "seed": seed, "played": played, "found": found}
        record = self.read() | {sabotage.name: new}
        kept = {each.name: record[each.name] for each in self.sabotages if each.name in record}
        self.path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
