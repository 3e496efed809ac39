"""What numbered files store is both set by somebody and read by somebody: a field that is one of the two alone is a
rule without code. (`planning` was read for long, and nobody ever set it.)"""

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lithify.manifest import jobs, model, run_lists, runs

pytestmark = pytest.mark.xdist_group("sources")
ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = Path(__file__).with_name("stored_defaults.json")
PACKAGES = ("admin", "cli", "compactor", "events", "gc", "log", "manifest", "segment", "store")
SHOWN_TO_PEOPLE = {
    # Read by who looks at the file with `jq`, and by 'lithify manifest show'.
    *("ProducerBatch.rows", "Checkpoint.created_at_ms", "Quarantine.since_ms", "Attempt.worker", "RangeDone.attempt"),
    "MergeCounts.cpu_ms",
}
SET_BY_THE_COMMIT = {"format", "id", "nonce", "committed_at_ms"}


def stored() -> dict[str, Any]:
    structs = [
        c
        for m in (model, runs, run_lists, jobs)
        for c in vars(m).values()
        if isinstance(c, type) and c.__module__ == m.__name__
    ]
    return {
        f"{struct.__name__}.{field.name}": field
        for struct in structs
        if issubclass(struct, msgspec.Struct)
        for field in msgspec.structs.fields(struct)
        if field.name not in SET_BY_THE_COMMIT
    }


FIELDS = stored()


def trees() -> list[ast.AST]:
    files = [f for package in PACKAGES for f in sorted((ROOT / package).rglob("*.py"))]
    return [ast.parse(f.read_text(encoding="utf-8")) for f in files if f.name not in ("model.py", "runs.py")]


def used(programs: list[ast.AST]) -> tuple[set[str], set[str], set[str]]:
    """The names of keywords that are given something, but for constants; those given a constant, as name=constant; and
    the attributes that are read, by name or by `getattr`. A struct built by position sets all its fields."""
    given, constants, read = set[str](), set[str](), set[str]()
    for node in (n for program in programs for n in ast.walk(program)):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if isinstance(keyword.value, ast.Constant):
                    constants.add(f"{keyword.arg}={keyword.value.value!r}")
                else:
                    given.add(str(keyword.arg))
            if node.args and isinstance(node.func, ast.Name):
                kind = getattr(model, node.func.id, None) or getattr(jobs, node.func.id, None)
                if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                    given.update(f"{kind.__name__}.{name}" for name in kind.__struct_fields__[: len(node.args)])
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            read.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            read.add(node.value)  # of a table of names that is read by `getattr`
    return given, constants, read


def unset(field: str, default: Any, given: set[str], constants: set[str]) -> bool:
    name = field.partition(".")[2]
    values = {value for value in constants if value.startswith(f"{name}=")}
    return not (given & {name, field} or values - {f"{name}={default!r}"})


def default(field: Any) -> Any:
    made = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return "unset" if made is msgspec.UNSET else json.loads(msgspec.json.encode(made))


def test_what_a_file_leaves_out_means_what_it_meant_when_it_was_written() -> None:
    """A field that was not there yet, or has its default, is not in the file. With another default, files that are
    there would say something else. A new field is entered here."""
    optional = {name: default(field) for name, field in FIELDS.items() if not field.required}
    assert optional == json.loads(DEFAULTS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def uses() -> tuple[set[str], set[str], set[str]]:
    return used(trees())


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_every_stored_field_is_set_and_read(field: str, uses: tuple[set[str], set[str], set[str]]) -> None:
    given, constants, read = uses
    assert not unset(field, FIELDS[field].default, given, constants), f"{field} keeps its default for ever"
    assert field.partition(".")[2] in read or field in SHOWN_TO_PEOPLE, f"nobody reads {field}"


def test_a_field_that_is_only_put_back_counts_as_unset() -> None:
    given, constants, read = used([ast.parse("replace(state, planning=False)\nif state.planning: pass")])
    assert unset("CompactorState.planning", False, given, constants)
    assert "planning" in read
    given, constants, _ = used([ast.parse("replace(state, planning=True)")])
    assert not unset("CompactorState.planning", False, given, constants)
