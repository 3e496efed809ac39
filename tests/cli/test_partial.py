"""A command over a topic, one of whose partitions is damaged: the others are answered, and it is named."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Lithify, changes

COMMANDS = [
    ("compaction", "explain", "users"),
    ("compaction", "retry", "users"),
    ("compaction", "list", "users"),
    ("checkpoint", "list", "users"),
    ("checkpoint", "create", "users", "new"),
    ("checkpoint", "delete", "users", "old"),
    ("consumer", "list", "users"),
    ("consumer", "reset", "users", "c", "--to-latest"),
    ("consumer", "delete", "users", "c"),
    ("transaction", "list", "users"),
    ("topic", "describe", "users"),
]


@pytest.fixture
def users(on_files: Lithify, folder: Path) -> Lithify:
    on_files.ok("topic", "create", "users", "--partitions", "3")
    for number in range(3):
        on_files.ok("append", "users", "--partition", str(number), input=changes(3))
        on_files.ok("read", "users", "--partition", str(number), "--consumer", "c", "--limit", "1")
    on_files.ok("checkpoint", "create", "users", "old")
    on_files.ok("compaction", "submit", "users", "--full")
    for chain in ("manifest", "compactor"):
        max(folder.rglob(f"users/*/00001/{chain}/*")).write_bytes(b"{")
    return on_files


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_others_are_answered_and_it_is_named(users: Lithify, command: tuple[str, ...]) -> None:
    result = users(*command, "--json")
    assert result.exit_code == 9, result.stderr
    told = json.loads(result.stdout)
    if command[1] != "describe":
        assert len(result.stderr.splitlines()) == 1
        assert "/00001/" in result.stderr
        assert "is damaged" in result.stderr
    if isinstance(told, dict):
        found = [part if isinstance(part, int) else part["partition"] for part in told["partitions"]]
    else:
        found = [each["partition"] if "partition" in each else int(each["id"].split("/")[1]) for each in told]
    assert found == [0, 2]


@pytest.mark.parametrize("command", [it for it in COMMANDS if it[1] != "describe"], ids=" ".join)
def test_one_that_is_asked_for_is_an_error(users: Lithify, command: tuple[str, ...]) -> None:
    users.refused(*command, "--partition", "1", code=9, saying="is damaged")
    result = users(*command, "--partition", "0")
    assert (result.exit_code, result.stderr) == (0, "")
