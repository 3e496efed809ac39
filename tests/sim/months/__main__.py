"""`python -m tests.sim.months`: months of mixed load in minutes, judged while they pass.

--days 60 [--seed 0]    one history, and what it came to
"""

import argparse
import os
import sys

from tests.sim.months.history import Found, play
from tests.sim.months.idle import idle_hour
from tests.sim.months.report import table
from tests.sim.months.topics import many


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.months")
    parser.add_argument("--days", type=float, default=60)
    parser.add_argument("--partitions", type=int, default=0, help="so many beside the usual ones; it ends at once")
    parser.add_argument("--idle", type=int, default=0, help="what so many partitions at rest cost in an hour; no days")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table-each", type=int, default=0, help="so many days, what they came to so far")
    given = parser.parse_args()
    if given.idle:
        found_idle = idle_hour(given.idle, given.seed)
        for (role, kind), count in sorted(found_idle.requests.items()):
            print(f"requests an hour of {role}: {count:,} {kind}")
        for role in ("compactors", "collectors", None):
            print(f"dollars a month of {role or 'both'}: {found_idle.dollars_a_month(role):.2f}")
        return 0

    def tells(found: Found) -> None:
        took_s = sum(os.times()[:2])
        print(f"day {found.days_played:.0f} after {took_s:.0f} s of this machine", file=sys.stderr, flush=True)
        if given.table_each and round(found.days_played) % given.table_each == 0:
            print(table(found), file=sys.stderr, flush=True)

    found = play(given.seed, days=given.days, rests=not given.partitions, tells=tells, beside=many(given.partitions))
    tells(found)
    print(table(found))
    return 0 if found.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
