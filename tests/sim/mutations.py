"""`python -m tests.sim.mutations search|replay`: each sabotage in a process of its own, whose imports find the source
sabotaged; no file is touched. `search` looks for a seed that catches it, `replay` plays the seeds on record.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from tests.sim.sabotage import SABOTAGES
from tests.sim.sabotaged import Finder

__all__ = ["RECORD", "replayed", "searched", "table"]

RECORD = Path(__file__).with_name("mutations.json")
Result = tuple[str, int | None, int, str]
"""A sabotage, the seed that caught it, how many were played, what was found."""
# What is slow to import and none of ours: the children find it there.
PRELOADED = (asyncio, mock, msgspec, np, pa, pc, pq, xxhash)


def _seeds(name: str, seeds: Sequence[int]) -> Result:
    """In a fresh process: the first of `seeds` that catches the sabotage, how many were played, and what was found."""
    assert not any(module.startswith("lithify") for module in sys.modules), "the product must be imported sabotaged"
    sabotage = next(s for s in SABOTAGES if s.name == name)
    sys.meta_path.insert(0, Finder(sabotage))
    from tests.sim.history import play

    for played, seed in enumerate(seeds, 1):
        found = play(seed)
        if found.violation is not None:
            return name, seed, played, found.violation
    return name, None, len(seeds), ""


def _call(work: tuple[str, Sequence[int]]) -> Result:
    return _seeds(*work)


def _run(work: Sequence[tuple[str, Sequence[int]]]) -> Iterator[Result]:
    processes = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_call, work)


def searched(seeds: Sequence[int], names: Sequence[str]) -> Iterator[Result]:
    return _run([(name, seeds) for name in names])


def replayed() -> Iterator[Result]:
    """Of each sabotage on record, what its seed finds today."""
    record = _recorded()
    return _run([(s.name, [record[s.name]["seed"]]) for s in SABOTAGES])


def _recorded() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def _keep(name: str, rule: str, result: Result) -> None:
    _, seed, played, found = result
    record = _recorded() | {name: {"rule": rule, "seed": seed, "played": played, "found": found}}
    kept = {s.name: record[s.name] for s in SABOTAGES if s.name in record}
    RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table() -> list[str]:
    """The record, as docs/protocol.md shows it."""
    record = _recorded()
    rows = [f"| {s.rule} | {s.name} | `{s.file}` | {record[s.name]['played']:,} |" for s in SABOTAGES]
    return ["| Rule | Sabotage | In | Seeds to catch it |", "|---|---|---|--:|", *rows]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("what", choices=("search", "replay", "table"))
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--only", default="", help="a rule, or a part of a name")
    parser.add_argument("--missing", action="store_true", help="those alone that are not on record")
    given = parser.parse_args()
    if given.what == "table":
        print("\n".join(table()))
        return 0
    known = _recorded() if given.missing else {}
    rules = {s.name: s.rule for s in SABOTAGES if s.name not in known}
    names = [name for name, rule in rules.items() if given.only in (rule, "") or given.only in name]
    escaped = 0
    for result in replayed() if given.what == "replay" else searched(range(given.seeds), names):
        name, seed, _, found = result
        caught = "ESCAPED" if seed is None else f"caught by seed {seed}"
        escaped += seed is None
        print(f"{rules[name]:4} {name:55} {caught:22} {found[:110]}", flush=True)
        if given.what == "search" and seed is not None:
            _keep(name, rules[name], result)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
