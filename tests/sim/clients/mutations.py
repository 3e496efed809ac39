"""`python -m tests.sim.clients.mutations search|replay`: as `tests.sim.mutations`, of the simulation of clients.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.sim.clients.sabotage import SABOTAGES
from tests.sim.sabotaged import Finder

__all__ = ["RECORD", "replayed"]

RECORD = Path(__file__).with_name("mutations.json")
Result = tuple[str, int | None, int, str]
"""A sabotage, the seed that caught it, how many were played, what was found."""
PRELOADED = (pq,)  # slow to import, and not ours: the children find it there


def _seeds(work: tuple[str, Sequence[int]]) -> Result:
    """In a fresh process: the first of the seeds that catches the sabotage."""
    name, seeds = work
    assert not any(module.startswith("lithify") for module in sys.modules), "the product must be imported sabotaged"
    sys.meta_path.insert(0, Finder(next(sabotage for sabotage in SABOTAGES if sabotage.name == name)))
    from tests.sim.clients.history import play

    for played, seed in enumerate(seeds, 1):
        found = play(seed)
        if found.violation is not None:
            return name, seed, played, found.violation
    return name, None, len(seeds), ""


def _run(work: Sequence[tuple[str, Sequence[int]]]) -> Iterator[Result]:
    processes = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_seeds, work)


def replayed() -> Iterator[Result]:
    """Of each sabotage on record, what its seed finds today."""
    record = _recorded()
    return _run([(sabotage.name, [record[sabotage.name]["seed"]]) for sabotage in SABOTAGES])


def _recorded() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def _keep(result: Result) -> None:
    name, seed, played, found = result
    record = _recorded() | {name: {"seed": seed, "played": played, "found": found}}
    kept = {sabotage.name: record[sabotage.name] for sabotage in SABOTAGES if sabotage.name in record}
    RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.clients.mutations")
    parser.add_argument("what", choices=("search", "replay"))
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--only", default="", help="a part of a name")
    given = parser.parse_args()
    names = [sabotage.name for sabotage in SABOTAGES if given.only in sabotage.name]
    results = replayed() if given.what == "replay" else _run([(name, range(given.seeds)) for name in names])
    escaped = 0
    for result in results:
        name, seed, _, found = result
        escaped += seed is None
        caught = "ESCAPED" if seed is None else f"caught by seed {seed}"
        print(f"{name:60} {caught:22} {found[:110]}", flush=True)
        if given.what == "search" and seed is not None:
            _keep(result)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
