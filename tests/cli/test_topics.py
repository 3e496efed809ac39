"""`lithify topic`."""

from pathlib import Path

import pytest

from lithify.cli.output import size_text
from lithify.manifest.config import config_table
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.cli.conftest import Lithify, changes, lines


def test_a_topic_from_creation_to_deletion(lithify: Lithify) -> None:
    assert lithify.json("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact") == {
        "topic": "users",
        "partitions": 2,
        "config": {"cleanup.policy": "compact"},
    }
    assert lithify.json("topic", "list") == ["users"]
    changes = ("--config", "retention.ms=5", "--partitions", "3")
    assert "altered" in lithify.ok("topic", "alter", "users", *changes)
    assert lithify.ok("topic", "alter", "users", *changes) == "topic users is as it was: it had this already\n"
    lithify.ok("topic", "alter", "users", "--unset", "cleanup.policy")
    described = lithify.json("topic", "describe", "users")
    assert described["config"] == {"retention.ms": "5"}
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2]
    lithify.ok("topic", "delete", "users", "--yes")
    assert lithify.ok("topic", "list") == ""


def test_the_whole_configuration_is_shown_where_it_is_asked_for(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    assert "retention.ms" not in lithify.ok("topic", "describe", "users")
    text = lithify.ok("topic", "describe", "users", "--defaults")
    assert "  cleanup.policy=compact\n" in text
    assert "  retention.ms=604800000 (default)\n" in text
    assert text.count("=") == len(config_table())
    config = lithify.json("topic", "describe", "users", "--defaults")["config"]
    assert config == {name: default for name, default, _ in config_table()} | {"cleanup.policy": "compact"}


def test_a_change_that_contradicts_itself_is_refused(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--config", "retention.ms=5")
    both = ("--config", "retention.ms=6", "--unset", "retention.ms")
    lithify.refused("topic", "alter", "users", *both, code=2, saying="retention.ms: give either --config or --unset")
    twice = ("--config", "retention.ms=6", "--config", "retention.ms=7")
    for words in (("alter", "users"), ("create", "others")):
        lithify.refused("topic", *words, *twice, code=2, saying="--config retention.ms is given twice")
    assert lithify.json("topic", "describe", "users")["config"] == {"retention.ms": "5"}
    switch = ("--config", "num.partitions=2", "--unset", "num.partitions")
    lithify.refused("warehouse", "alter", *switch, code=2, saying="give either --config or --unset")


def test_deleting_asks_and_without_anybody_to_ask_needs_yes(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused("topic", "delete", "users", code=2, saying="--yes")
    assert lithify.json("topic", "list") == ["users"]


def test_a_topic_made_again_shares_nothing_with_the_deleted_one(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input='{"key": "a", "value": "old"}\n')
    lithify.ok("checkpoint", "create", "users", "kept")
    lithify.ok("topic", "delete", "users", "--yes")
    lithify.refused("read", "users", code=3, saying="does not exist")
    lithify.ok("topic", "create", "users")
    assert lithify.ok("read", "users") == ""
    assert lithify.json("checkpoint", "list", "users") == []


def _overwrite(store: MemoryStore, key: str, body: bytes, frees: bool = False) -> Outcome:
    """What a store without conditional writes does."""
    store.put(key, body)
    return Outcome.CREATED


def test_a_place_where_two_writers_could_both_win_is_refused(lithify: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "create", _overwrite)
    unsafe = "is not safe for a log"
    lithify.refused("topic", "create", "users", "--probe", code=2, saying=unsafe)
    lithify.refused("topic", "list", code=3, saying="there is no warehouse")
    lithify.refused("compactor", "run", "--engine", "local", "--probe", code=2, saying=unsafe)
    assert lithify("doctor", "--rounds", "1").exit_code == 9
    lithify.ok("topic", "create", "users", "--no-probe")
    lithify.ok("topic", "create", "others", "--probe")  # only the first one asks


def test_plain_tables_are_neither_coloured_nor_wrapped(lithify: Lithify) -> None:
    name = "t" * 200
    lithify.ok("topic", "create", name)
    lithify.ok("append", name, input='{"key": "a", "value": "b"}\n')
    text = lithify.ok("compaction", "explain", name) + lithify.ok("gc", "run", "--once")
    assert "\x1b" not in text
    assert any(line.startswith(name) and line.rstrip().endswith("0") for line in text.splitlines())


def test_a_terminal_gets_a_table_with_bold_headers(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    result = lithify("topic", "describe", "users", env={"FORCE_COLOR": "1", "COLUMNS": "200"})
    assert result.exit_code == 0
    assert "\x1b[1m" in result.stdout, "the headers are bold"


@pytest.mark.parametrize("words", [("delete", "users"), ("delete-records", "users", "--before", "-1")])
def test_an_answer_of_no_does_nothing_and_says_so(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input=lines({"key": "k", "value": "v"}))
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = lithify("topic", *words, input="n\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "lithify: nothing was done: you answered no"
    assert lithify("topic", *words, input="").exit_code == 130  # Ctrl-C, or the end of the input, is no answer
    assert len(lithify.records("read", "users")) == 1
    assert lithify("topic", *words, input="y\n").exit_code == 0


def test_a_topic_with_a_cold_home_shows_what_is_where(on_files: Lithify, tmp_path: Path) -> None:
    cold = (tmp_path / "cold").as_uri()
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=changes(9))
    shown = on_files.ok("topic", "describe", "users")
    assert "home " not in shown
    assert "hot.retain.segments" not in shown
    on_files.ok("topic", "alter", "users", "--config", f"cold.location={cold}")
    on_files.ok("compaction", "submit", "users", "--full")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    shown = on_files.ok("topic", "describe", "users")
    assert f"home {cold}: 0 segments, 0 B" in shown
    assert "hot.retain.segments=4 (default)" in shown
    assert "hot.retain.segments" not in on_files.json("topic", "describe", "users")["config"]
    on_files.ok("home", "relocate", "users")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    on_files.ok("topic", "alter", "users", "--unset", "cold.location")
    size = on_files.json("topic", "describe", "users")["partitions"][0]["bytes"]
    shown = on_files.ok("topic", "describe", "users")
    assert "home the warehouse: 0 segments, 0 B" in shown
    assert f"home {cold}: 1 segment, {size_text(size)}" in shown


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_what_a_limited_scan_has_left_out_is_told(on_files: Lithify, limit: int) -> None:
    """Of what it has read: where the limit ends it, too."""
    keys = [f"{number:03d}" for number in range(40)]
    on_files.ok("topic", "create", "t")
    on_files.ok("append", "t", input=lines(*({"key": key, "value": "v"} for key in keys)))
    on_files.ok("topic", "alter", "t", "--partitions", "2")
    told = on_files("scan", "t", "--limit", str(limit))
    assert "left out, whose keys changed their partition when the topic grew" in told.stderr
