"""docs/protocol.md and docs/kafka-promises.md stay true: every rule has its row, and what a row names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from lithify.log.producer_config import ProducerConfig

pytestmark = pytest.mark.xdist_group("sources")
ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "protocol.md"
PROMISES = ROOT / "docs" / "kafka-promises.md"
COLUMNS = ["Rule", "Says", "Code", "Test", "RFC"]
PROMISED = ["Promise", "In Kafka", "Here", "Test"]
RULES = [f"P{number}" for number in range(1, 24)] + [f"R{number}" for number in range(1, 7)]


def cells(line: str) -> list[str]:
    """The cells of one table line; `\\|` inside a cell is a bar."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def read_rows(page: Path, columns: list[str]) -> list[dict[str, str]]:
    """The rows of every table on the page that has exactly these columns."""
    rows: list[dict[str, str]] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        row = cells(line) if line.lstrip().startswith("|") else []
        if row == columns:
            inside = True
        elif not row:
            inside = False
        elif inside and not set("".join(row)) <= set("-: "):
            told = f"{page.name}: a row of {len(row)} cells instead of {len(columns)}: {line[:80]}"
            assert len(row) == len(columns), told
            rows.append(dict(zip(columns, row, strict=True)))
    return rows


ROWS = read_rows(PAGE, COLUMNS)
PROMISE_ROWS = read_rows(PROMISES, PROMISED)


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


def places_of(row: dict[str, str]) -> list[tuple[str, str]]:
    """A state machine is a class (`TestPartition`), not a function."""
    places = re.findall(r"(tests/[\w/.-]+\.py)::([\w.:]+)", row["Test"])
    assert places, f"{next(iter(row.values()))} names no test: write `tests/….py::test_name`"
    assert len(places) == row["Test"].count("`") / 2, f"{row['Test']}: not all of it names a test"
    places = [(path, name.replace("::", ".")) for path, name in places]
    assert [name for _, name in places if not re.match("test_|Test[A-Z]", name.split(".")[-1])] == []
    return places


@pytest.mark.parametrize("row", ROWS, ids=by_rule)
def test_its_test_exists(row: dict[str, str]) -> None:
    assert missing(places_of(row)) == []


@pytest.mark.parametrize("row", PROMISE_ROWS, ids=lambda row: row["Promise"])
def test_the_test_of_a_promise_exists(row: dict[str, str]) -> None:
    assert missing(places_of(row)) == []
    assert row["In Kafka"]
    assert row["Here"]


def test_each_setting_of_a_producer_is_promised_something() -> None:
    told = " ".join(row["Promise"] + row["Here"] for row in PROMISE_ROWS)
    assert [name for name in ProducerConfig.__struct_fields__ if f"`{name.replace('_', '.')}`" not in told] == []


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
