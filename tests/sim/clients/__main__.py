"""`python -m tests.sim.clients`: histories of clients, as `python -m tests.sim` plays those of the protocol.

--seeds 1000 [--from 0]    as many histories
--seed 17                  one history with its trace
"""

import argparse
import multiprocessing
import os
import sys
from collections import Counter

from tests.sim.clients.history import Found, play

FAILURES_SHOWN = 5
CHUNK = 5  # histories
CHUNKS_OF_A_PROCESS = 40  # greenlets leave a process larger than it needs to be


def many(first: int, count: int, processes: int) -> int:
    counts: Counter[str] = Counter()
    told, steps, failures = 0, 0, list[Found]()
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=CHUNKS_OF_A_PROCESS) as pool:
        for found in pool.imap_unordered(play, range(first, first + count), chunksize=CHUNK):
            told, steps = told + 1, steps + found.steps
            counts.update(found.counts)
            if found.violation is not None:
                failures.append(found)
            if len(failures) >= FAILURES_SHOWN:
                pool.terminate()
                break
    for name, times in sorted(counts.items()):
        print(f"{times:>12,}  {name}")
    print(f"{told:,} histories of clients, {steps:,} steps; {len(failures)} violations")
    for found in sorted(failures, key=lambda found: found.seed):
        print(f"\nseed {found.seed}: {found.violation}\n  python -m tests.sim.clients --seed {found.seed}")
    return 1 if failures else 0


def one(seed: int) -> int:
    found = play(seed, tracing=True)
    print("\n".join(found.trace or ()))
    print(f"seed {seed}, {found.steps} steps: {found.violation or 'no violation'}")
    return 0 if found.violation is None else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.clients")
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    return many(given.first, given.seeds, given.processes) if given.seed is None else one(given.seed)


if __name__ == "__main__":
    sys.exit(main())
