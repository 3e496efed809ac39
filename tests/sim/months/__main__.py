"""`python -m tests.sim.months`: months of mixed load in minutes, judged while they pass.

--days 60 [--seed 0]    one history, and what it came to
"""

import argparse
import os
import sys

from tests.sim.months.history import play
from tests.sim.months.report import table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.months")
    parser.add_argument("--days", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    def tells(text: str) -> None:
        print(f"{text}, {sum(os.times()[:2]):.0f} s of this machine", file=sys.stderr, flush=True)

    found = play(given.seed, days=given.days, tells=tells)
    tells("it is over")
    print(table(found))
    return 0 if found.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
