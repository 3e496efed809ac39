"""docs/protocol.md stays true: every rule has its row, and what a row names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "protocol.md"
COLUMNS = ["Rule", "Says", "Code", "Test", "RFC"]
RULES = [f"P{number}" for number in range(1, 22)] + [f"R{number}" for number in range(1, 7)]


def cells(line: str) -> list[str]:
    """The cells of one table line; `\\|` inside a cell is a bar."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def read_rows() -> list[dict[str, str]]:
    """The rows of every table on the page that has exactly the five columns."""
    rows: list[dict[str, str]] = []
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = cells(line) if line.lstrip().startswith("|") else []
        if row == COLUMNS:
            inside = True
        elif not row:
            inside = False
        elif inside and not set("".join(row)) <= set("-: "):
            assert len(row) == len(COLUMNS), f"{PAGE.name}: a row of {len(row)} cells instead of 5: {line[:80]}"
            rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


ROWS = read_rows()


def rule_of(row: dict[str, str]) -> str:
    """`P3`, `**P3** ◆` and `[P3](#p3)` all name P3."""
    found = re.search(r"\b[PR]\d+\b", row["Rule"])
    assert found, f"a row without the name of a rule: {row['Rule']!r}"
    return found[0]


def by_rule(row: dict[str, str]) -> str:
    return row["Rule"].strip("*` ")


@cache
def symbols(file: Path) -> frozenset[str]:
    """Functions, classes, methods (`Class.method`) and module-level names defined in a Python file."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(prefix + name)
                case ast.ClassDef(name=name, body=inner):
                    found.add(prefix + name)
                    visit(inner, f"{prefix}{name}.")
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(prefix + name)
                case _:
                    pass

    visit(ast.parse(file.read_text(encoding="utf-8")).body, "")
    return frozenset(found)


def missing(places: list[tuple[str, str]]) -> list[str]:
    """Those of (path, symbol) that the tree does not hold."""
    return [
        f"{path}:{symbol}"
        for path, symbol in places
        if not (ROOT / path).is_file() or symbol not in symbols(ROOT / path)
    ]


def test_every_rule_has_a_row() -> None:
    assert set(map(rule_of, ROWS)) == set(RULES)


@pytest.mark.parametrize("row", ROWS, ids=by_rule)
def test_its_code_exists(row: dict[str, str]) -> None:
    places = re.findall(r"([\w/.-]+\.py):([\w.]+)", row["Code"])
    assert places, f"{rule_of(row)} names no code: write `path.py:symbol`"
    assert missing(places) == []
    assert [path for path, _ in places if path.startswith("tests/")] == []


@pytest.mark.parametrize("row", ROWS, ids=by_rule)
def test_its_test_exists(row: dict[str, str]) -> None:
    places = re.findall(r"(tests/[\w/.-]+\.py)::([\w.:]+)", row["Test"])
    assert places, f"{rule_of(row)} names no test: write `tests/….py::test_name`"
    places = [(path, name.replace("::", ".")) for path, name in places]
    assert missing(places) == []
    assert [name for _, name in places if not name.split(".")[-1].startswith("test_")] == []


@pytest.mark.parametrize("row", ROWS, ids=by_rule)
def test_its_rfc_exists(row: dict[str, str]) -> None:
    numbers = re.findall(r"\b(\d{4})\b", row["RFC"])
    assert numbers, f"{rule_of(row)} names no RFC: write its number, as in 0002"
    assert "0000" not in numbers
    assert [number for number in numbers if len(list((ROOT / "docs" / "rfcs").glob(f"{number}-*.md"))) != 1] == []


def test_every_rule_of_kafkas_names_its_scenarios() -> None:
    lines = [cells(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| [CD]\d+ \|", line)]
    folder = ROOT / "tests" / "scenarios"
    named = {file for row in lines for file in re.findall(r"`([^`]+\.toml)`", row[3])}
    assert named == {file.name for file in folder.glob("[CD]*.toml")}
    assert [row[0] for row in lines if not row[3]] == ["C15"], "which is P13's"
