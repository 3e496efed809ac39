"""`python -m tests.sim.clients.mutations search|replay|renew|rates`: as `tests.sim.mutations`, of clients.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import argparse
import sys
from pathlib import Path

import fsspec
import greenlet
import msgspec
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import structlog
import xxhash

from tests.sim.catching import Record, rated, searched
from tests.sim.clients.sabotage import SABOTAGES

__all__ = ["RECORD"]

RECORD = Record(Path(__file__).with_name("mutations.json"), "tests.sim.clients.history", SABOTAGES)
# Slow to import, and not ours: the children find them there.
PRELOADED = (ds, fsspec, greenlet, msgspec, pd, pq, structlog, xxhash)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.clients.mutations")
    parser.add_argument("what", choices=("search", "replay", "renew", "rates"))
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--only", default="", help="a part of a name")
    parser.add_argument("--part", type=int, default=0, help="replay every so-many-th from this one on")
    parser.add_argument("--parts", type=int, default=1)
    given = parser.parse_args()
    if given.what == "replay":
        return 1 if RECORD.tell(RECORD.replayed(given.part, given.parts), keep=False) else 0
    known = RECORD.still_caught() if given.what == "renew" else set[str]()
    wanted = [sabotage for sabotage in SABOTAGES if given.only in sabotage.name and sabotage.name not in known]
    if given.what == "rates":
        for rate in rated(RECORD.history, [(each, range(given.seeds)) for each in wanted]):
            print(f"{rate.sabotage.name:72} {rate.caught} of {rate.played}  {rate.found[:130]}", flush=True)
        return 0
    found = searched(RECORD.history, [(sabotage, range(given.seeds)) for sabotage in wanted])
    return 1 if RECORD.tell(found, keep=True, forget=given.what == "renew") else 0


if __name__ == "__main__":
    sys.exit(main())
