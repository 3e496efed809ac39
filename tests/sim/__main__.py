"""`python -m tests.sim`: many histories, on every core; or one, told step by step.

--seeds 20000 [--from 0]    as many histories; the first failures are made small and kept beside this file
--seed 17                   one history with its trace
--case tests/sim/regressions/x.json
"""

import argparse
import gc
import multiprocessing
import os
import string
import sys
from collections import Counter
from pathlib import Path

from tests.sim.cases import load, save
from tests.sim.history import Found, Mask, play
from tests.sim.shrink import shrunk

CHUNK = 20
FAILURES_SHOWN = 5
PROGRESS_EVERY = 10_000  # histories
LINES_SHOWN, LINE_SHOWN = 30, 160  # of a failure's trace: lines, and characters of each


def _chunk(seeds: range) -> tuple[int, int, int, Counter[str], list[Found]]:
    counts: Counter[str] = Counter()
    steps, shortest, failures = 0, sys.maxsize, list[Found]()
    for seed in seeds:
        found = play(seed)
        counts.update(found.counts)
        steps += found.steps
        if found.violation is None:
            shortest = min(shortest, found.steps)
        else:
            failures.append(found)
    return len(seeds), steps, shortest, counts, failures


def many(first: int, count: int, processes: int) -> int:
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    counts: Counter[str] = Counter()
    told, steps, shortest, failures = 0, 0, sys.maxsize, list[Found]()
    gc.set_threshold(100_000, 20, 20)  # a tenth of the time went into looking for rubbish
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for played, done, least, seen, failed in pool.imap_unordered(_chunk, chunks):
            told, steps, shortest = told + played, steps + done, min(shortest, least)
            counts.update(seen)
            failures += failed
            if told % PROGRESS_EVERY == 0 and told < count:
                print(f"{told:,} of {count:,} histories, {len(failures)} violations", file=sys.stderr)
            if len(failures) >= FAILURES_SHOWN:
                pool.terminate()
                break
    _tell_counts(counts)
    print(f"{told:,} histories of {shortest} steps and more, {steps:,} steps; {len(failures)} violations")
    for found in sorted(failures, key=lambda found: found.seed)[:FAILURES_SHOWN]:
        tell(found)
    return 1 if failures else 0


def _tell_counts(counts: Counter[str]) -> None:
    """How often each rule, fault, actor and commit came about; the rest is what those who took part went through."""
    for group in ("rule ", "fault ", "actor ", "commit: ", ""):
        names = [name for name in counts if name.startswith(group)]
        for name in sorted(names, key=lambda name: (name.rstrip(string.digits), len(name), name)):
            print(f"{counts.pop(name):>14,}  {name}")
        print()


def tell(found: Found) -> None:
    print(f"\nseed {found.seed}: {found.violation}\n  make sim SEED={found.seed}")
    mask, small = shrunk(found)
    path = save(f"seed-{found.seed}", small, mask)
    print(*(line[:LINE_SHOWN] for line in (small.trace or [])[-LINES_SHOWN:]), sep="\n")
    print(f"  made small to {small.steps} steps ({small.violation}), of which these are the last:")
    print(f"  make sim CASE={os.path.relpath(path)}")


def one(seed: int, mask: Mask) -> int:
    found = play(seed, mask, tracing=True)
    print("\n".join(found.trace or ()))
    print(f"seed {seed}, {found.steps} steps: {found.violation or 'no violation'}")
    return 0 if found.violation is None else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim")
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--case", type=Path)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    if given.case is not None:
        return one(*load(given.case))
    if given.seed is None:
        return many(given.first, given.seeds, given.processes)
    if given.shrink:
        tell(play(given.seed))
        return 1
    return one(given.seed, Mask())


if __name__ == "__main__":
    sys.exit(main())
