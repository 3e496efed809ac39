"""`python -m tests.sim.months.mutations [--only "a part of a name"]`: whether the months notice each sabotage.

The parent imports nothing of the product, so that its children import it sabotaged.
"""

import argparse
import sys
from pathlib import Path

from tests.sim.catching import Record, searched
from tests.sim.months.sabotage import SABOTAGES

RECORD = Record(Path(__file__).with_name("mutations.json"), "tests.sim.months.history", SABOTAGES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.months.mutations")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    wanted = [(sabotage, range(given.seeds)) for sabotage in SABOTAGES if given.only in sabotage.name]
    return 1 if RECORD.tell(searched(RECORD.history, wanted), keep=False) else 0


if __name__ == "__main__":
    sys.exit(main())
