"""`make mutants`: one-line faults over the protocol's files, against the simulation and the quick tests.

--share 0.1      a tenth of them, by chance (the seed of the choice is --choice)
--only TEXT      those whose name contains the text: a file, a function, a change
--seeds 60       simulated histories for each, before the tests
--fresh          forget what earlier runs have found and which tests reach what

What was found is kept in .mutants/ by the content of each file, so an interrupted run goes on where it stopped. A
mutant that survives must stand in survivors.json with the reason why nothing can notice it, or why nothing does yet.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.mutants.operators import Mutant, mutants
from tools.mutants.reach import Reach, measured
from tools.mutants.running import ROOT, Trial, Verdict, tried

__all__ = ["KINDS", "SURVIVORS", "known", "protocol_files"]

SURVIVORS = Path(__file__).with_name("survivors.json")
KEPT = ROOT / ".mutants"
KINDS = {"equivalent", "pace", "open"}
"""Of survivors: nothing can tell it from the original · it changes cost or pace, no result · nothing notices it yet."""
SECONDS_BESIDE = 60.0  # for start and histories; the tests may take five times as long as they did


def protocol_files() -> list[str]:
    """Those that hold a rule, by the table of rules in docs/protocol.md."""
    rows = re.findall(r"^\| [PR]\d.*$", (ROOT / "docs/protocol.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {file for row in rows for file in re.findall(r"`((?:manifest|compactor|gc|segment)/\w+\.py)", row)}
    return sorted(named)


def known() -> dict[str, str]:
    """Of each survivor on record: its kind and why nothing notices it, as "equivalent: ..."."""
    return json.loads(SURVIVORS.read_text(encoding="utf-8"))


def _chosen(only: str, share: float, choice: str) -> list[tuple[Mutant, int]]:
    """Mutants with their index in their file."""
    found: list[tuple[Mutant, int]] = []
    for file in protocol_files():
        made = mutants(file, (ROOT / file).read_text(encoding="utf-8"))
        found += [(mutant, index) for index, mutant in enumerate(made)]
    dice = random.Random(choice)
    drawn = [(mutant, index) for mutant, index in found if dice.random() < share]
    return [(mutant, index) for mutant, index in drawn if only in mutant.key]


def _digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


class _Results:
    """What earlier runs found, a line each: [key, digest of its file, killed by, detail]."""

    def __init__(self) -> None:
        self._path = KEPT / "results.jsonl"
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        self._found = {(key, digest): (by, detail) for key, digest, by, detail in map(json.loads, lines)}

    def of(self, mutant: Mutant) -> tuple[str, str] | None:
        return self._found.get((mutant.key, _digest(mutant.file)))

    def keep(self, mutant: Mutant, killed_by: str, detail: str) -> None:
        KEPT.mkdir(exist_ok=True)
        digest = _digest(mutant.file)
        self._found[mutant.key, digest] = killed_by, detail
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([mutant.key, digest, killed_by, detail[:200]]) + "\n")


def _trial(mutant: Mutant, index: int, seeds: int, reach: Reach) -> Trial:
    tests = reach.tests(mutant.file, mutant.scope)
    return Trial(mutant.file, index, seeds, tests, SECONDS_BESIDE + 5 * reach.seconds(tests))


def _run(chosen: Sequence[tuple[Mutant, int]], seeds: int, results: _Results) -> None:
    reach = measured(protocol_files(), KEPT / "reach.json")
    by_place = {(mutant.file, index): mutant for mutant, index in chosen}
    trials = [_trial(mutant, index, seeds, reach) for mutant, index in chosen if results.of(mutant) is None]
    verdict: Verdict
    for done, verdict in enumerate(tried(trials, len(os.sched_getaffinity(0))), 1):
        mutant = by_place[verdict.trial.file, verdict.trial.number]
        results.keep(mutant, verdict.killed_by, verdict.detail)
        if not verdict.killed_by and mutant.key not in known():
            print(f"survives: {mutant.file}:{mutant.line} in {mutant.scope}: {mutant.change}", flush=True)
        if done % 100 == 0:
            print(f"{done:,} of {len(trials):,} tried", file=sys.stderr, flush=True)


def _told(chosen: Sequence[tuple[Mutant, int]], results: _Results) -> int:
    """A row for each file, and the sum; 1 where a survivor is not on record."""
    record = known()
    columns = ("simulation", "tests", "no end", "on record", "survives")
    total: Counter[str] = Counter()
    print(f"{'':32}{'mutants':>9}" + "".join(f"{name:>12}" for name in columns) + f"{'killed':>9}")
    for file in sorted({mutant.file for mutant, _ in chosen}):
        row: Counter[str] = Counter()
        for mutant, _ in chosen:
            found = results.of(mutant)
            if mutant.file == file and found is not None:
                row[found[0] or ("on record" if mutant.key in record else "survives")] += 1
        total.update(row)
        _tell_row(file, row, columns)
    _tell_row("all", total, columns)
    return 1 if total["survives"] else 0


def _tell_row(name: str, row: Counter[str], columns: Sequence[str]) -> None:
    all_of_them = sum(row.values())
    killed = row["simulation"] + row["tests"] + row["no end"]
    share = f"{killed / all_of_them:9.1%}" if all_of_them else ""
    print(f"{name:32}{all_of_them:>9,}" + "".join(f"{row[column]:>12,}" for column in columns) + share)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--choice", default="0")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    if given.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    chosen = _chosen(given.only, given.share, given.choice)
    results = _Results()
    _run(chosen, given.seeds, results)
    return _told(chosen, results)


if __name__ == "__main__":
    sys.exit(main())
