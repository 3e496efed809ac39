"""`python -m tests.sim.mutations search|replay|renew`: each sabotage in a process of its own, whose imports find the
source sabotaged; no file is touched. `search` looks for a seed that catches it, `replay` plays the seeds on record and
runs the tests of those that have none, `renew` looks for other seeds where those on record catch nothing any more;
`rates` says how many of the first seeds of its focus catch each.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import argparse
import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import greenlet
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
import xxhash

from tests.sim.catching import Record, rated, searched
from tests.sim.foci import focus_of
from tests.sim.sabotage import SABOTAGES, Sabotage

__all__ = ["RECORD", "table"]

RECORD = Record(Path(__file__).with_name("mutations.json"), "tests.sim.history", SABOTAGES)
FOCUSED_PART = 4  # of the seeds of a search, one of so many is of the sabotage's own focus; these come first
# What is slow to import and none of ours: the children find it there.
PRELOADED = (asyncio, greenlet, mock, msgspec, np, pa, pc, pq, structlog, xxhash)


def seeds_for(sabotage: Sabotage, count: int, focus: str = "") -> list[int]:
    """The first `count` seeds of the histories in which it shows soonest."""
    focus = focus or sabotage.focus
    return list(itertools.islice((seed for seed in itertools.count() if focus in ("", focus_of(seed).name)), count))


def candidates(sabotage: Sabotage, count: int) -> list[int]:
    """Seeds to play until one catches it: those of its focus first, if it has one."""
    focused = seeds_for(sabotage, count // FOCUSED_PART) if sabotage.focus else []
    return list(dict.fromkeys([*focused, *range(count)]))


def table() -> list[str]:
    """The record, as docs/protocol.md shows it."""
    record = RECORD.read()
    rows = [f"| {s.rule} | {s.name} | `{s.file}` | {_caught(s, record[s.name])} |" for s in SABOTAGES]
    return ["| Rule | Sabotage | In | Seeds to catch it |", "|---|---|---|--:|", *rows]


def _caught(sabotage: Sabotage, kept: dict[str, Any]) -> str:
    return f"`{sabotage.test}`" if kept["seed"] is None else f"{kept['played']:,}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("what", choices=("search", "replay", "renew", "rates", "table"))
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--only", default="", help="a rule, or a part of a name")
    parser.add_argument("--focus", default="", help="play histories of this focus alone")
    parser.add_argument("--missing", action="store_true", help="those alone whose seed is not known")
    given = parser.parse_args()
    if given.what == "table":
        print("\n".join(table()))
        return 0
    if given.what == "replay":
        return 1 if RECORD.tell(RECORD.replayed(), keep=False) else 0
    known = RECORD.caught().keys() if given.missing else set[str]()
    if given.what == "renew":
        known = RECORD.still_caught()
    wanted = [s for s in SABOTAGES if s.name not in known and (given.only in (s.rule, "") or given.only in s.name)]
    if given.what == "rates":
        for rate in rated(RECORD.history, [(each, seeds_for(each, given.seeds, given.focus)) for each in wanted]):
            share = f"{rate.caught} of {rate.played}"
            print(f"{rate.sabotage.rule:4} {rate.sabotage.name:72} {share:12} {rate.found[:130]}", flush=True)
        return 0
    print(f"{len(wanted)} to search, up to {given.seeds:,} seeds each", file=sys.stderr)
    found = searched(RECORD.history, [(sabotage, candidates(sabotage, given.seeds)) for sabotage in wanted])
    return 1 if RECORD.tell(found, keep=True, forget=given.what == "renew") else 0


if __name__ == "__main__":
    sys.exit(main())
