"""The maker of one-line faults: what it makes, and that its record of survivors names what it makes."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import KINDS, known, protocol_files
from tools.mutants.operators import mutants, mutated
from tools.mutants.reach import OF_CLASSES, Reach

ROOT = Path(__file__).resolve().parent.parent

SOURCE = '''
class Edit:
    """Not behaviour."""

    repeatable = True

    def apply(self, head: int, number: int) -> tuple[int, ...]:
        if head is None or head < 3:
            raise ValueError(f"{head + 1} is too small")
        kept = [value for value in self.values if not value.gone]
        return (*kept, min(head + number, 5))
'''


def test_each_mutant_is_one_change() -> None:
    made = mutants("x.py", SOURCE)
    assert [(m.scope, m.change) for m in made] == [
        ("Edit", "True → False"),
        ("Edit.apply", "head is None or head < 3 → True"),
        ("Edit.apply", "head is None or head < 3 → False"),
        ("Edit.apply", "head is None or head < 3 → head is None and head < 3"),
        ("Edit.apply", "head is None or head < 3 → head < 3"),
        ("Edit.apply", "head is None or head < 3 → head is None"),
        ("Edit.apply", "head is None → head is not None"),
        ("Edit.apply", "head < 3 → head <= 3"),
        ("Edit.apply", "3 → 4"),
        ("Edit.apply", "raise ValueError(f'{head + 1} is too small') → nothing"),
        ("Edit.apply", "not value.gone → True"),
        ("Edit.apply", "not value.gone → False"),
        ("Edit.apply", "not value.gone → value.gone"),
        ("Edit.apply", "*kept → nothing"),
        ("Edit.apply", "min → max"),
        ("Edit.apply", "head + number → head - number"),
        ("Edit.apply", "head + number → head"),
        ("Edit.apply", "5 → 6"),
    ]
    sources = [ast.unparse(mutated(SOURCE, index)) for index in range(len(made))]
    assert len(set(sources)) == len(sources)
    assert ast.unparse(ast.parse(SOURCE)) not in sources


@pytest.mark.slow
@pytest.mark.parametrize("file", protocol_files())
def test_names_of_mutants_are_unique_and_each_compiles(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    made = mutants(file, source)
    assert len({m.key for m in made}) == len(made)
    for index in range(0, len(made), 25):
        compile(mutated(source, index), file, "exec")


@pytest.mark.slow
def test_the_record_names_mutants_that_are_there_and_says_why_they_survive() -> None:
    made = {m.key for file in protocol_files() for m in mutants(file, (ROOT / file).read_text(encoding="utf-8"))}
    record = known()
    assert record.keys() - made == set(), "the code has changed: take these out of the record"
    assert {why.partition(": ")[0] for why in record.values()} <= KINDS
    assert all(why.partition(": ")[2] for why in record.values())


PROGRAM = """
import json, sys
from tools.mutants.running import Trial, tried
trials = [Trial(*given) for given in json.loads(sys.argv[1])]
print(json.dumps([[verdict.trial.number, verdict.killed_by] for verdict in tried(trials, 2)]))
"""


@pytest.mark.slow
def test_a_fault_is_noticed_by_a_history_or_by_a_test_and_a_harmless_one_by_neither() -> None:
    """In a process that has not imported the product: its children must import it with the fault."""
    file = "manifest/claims.py"
    numbers = {m.change: n for n, m in enumerate(mutants(file, (ROOT / file).read_text(encoding="utf-8")))}
    epoch, regression = "epoch + 1 → epoch", "stored < mine → stored <= mine"
    never, refresh = "stored < mine → False", "tests/protocol/test_p20_checkpoints.py"
    tests = {epoch: [], regression: ["tests/protocol/test_p05_fencing.py"], never: [refresh]}
    trials = [[file, numbers[change], 3, ids, 300] for change, ids in tests.items()]
    command = [sys.executable, "-c", PROGRAM, json.dumps(trials)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    killed_by = dict(json.loads(done.stdout))
    assert killed_by[numbers[epoch]] == "simulation"
    assert killed_by[numbers[regression]] in ("simulation", "tests")
    assert killed_by[numbers[never]] == "", "no history loses acknowledged writes, and no test of checkpoints does"


def test_the_body_of_a_class_meets_the_tests_that_look_at_all_classes() -> None:
    """It runs at import, so that no test is seen to reach it."""
    marks = "tests/protocol/test_marks_of_edits.py::test_what_may_use_the_reserve"
    reach = Reach({"m.py::_Edit.apply": ["a"]}, {"a": 1.0, "b": 1.0, marks: 0.1})
    assert reach.tests("m.py", "_Edit") == (marks, "a")
    assert reach.tests("m.py", "_Edit.apply") == ("a",)
    assert reach.tests("m.py", "Stored") == (marks,)
    assert all((ROOT / prefix.partition("::")[0]).exists() for prefix in OF_CLASSES)
