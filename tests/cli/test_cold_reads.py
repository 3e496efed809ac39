"""Commands whose answers took something from a cold home say so on standard error, and read it as any other."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Lithify, changes

TOLD = "lithify: 1 segment of a cold home was read; 'lithify home status users' shows what is where\n"


@pytest.fixture
def cold(on_files: Lithify, tmp_path: Path) -> Lithify:
    """All of topic users is cold."""
    location = (tmp_path / "cold").as_uri()
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("topic", "alter", "users", "--config", f"cold.location={location}")
    on_files.ok("append", "users", input=changes(9))
    on_files.ok("compaction", "submit", "users", "--full")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    on_files.ok("home", "relocate", "users")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    return on_files


@pytest.mark.parametrize(
    "words",
    [
        *(("scan", "users"), ("read", "users"), ("get", "users", "k1")),
        *(("export", "users", "--to", "-"), ("why", "users", "k1")),
        *(("read", "users", "--follow", "--limit", "3"), ("read", "users", "--consumer", "c")),
        ("read", "users", "--follow", "--limit", "3", "--consumer", "d"),
    ],
)
def test_it_is_said_once(cold: Lithify, words: tuple[str, ...]) -> None:
    result = cold(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == TOLD


def test_a_tail_says_it_when_it_has_caught_up(cold: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not again at its end, nor before what it waits for."""
    appended: list[str] = []

    def pause(_ms: int) -> None:
        if not appended:
            appended.append(cold.ok("append", "users", input=changes(1)))

    monkeypatch.setattr("lithify.store.driver.pause", pause)
    result = cold("read", "users", "--follow", "--limit", "8")
    assert (result.exit_code, result.stderr) == (0, TOLD)
    assert appended


def test_nothing_is_said_of_what_is_hot(cold: Lithify) -> None:
    cold.ok("append", "users", input=changes(9))
    for words in (("get", "users", "k1"), ("read", "users", "--from-offset", "9")):
        result = cold(*words)
        assert (result.exit_code, result.stderr) == (0, "")


def test_machines_are_told(cold: Lithify) -> None:
    assert cold.json("why", "users", "k1")["cold_segments_read"] == 1


def test_an_export_to_a_folder_reads_the_cold_home(cold: Lithify, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    cold.ok("export", "users", "--to", f"{folder}/")
    whole = pq.read_table(folder)
    assert sorted(whole.column("key").to_pylist()) == [f"k{n}".encode() for n in range(7)]


def test_home_status_of_the_whole_warehouse(on_files: Lithify, tmp_path: Path) -> None:
    on_files.ok("topic", "create", "plain")
    assert on_files.ok("home", "status") == "everything is in the warehouse; no topic has a cold home\n"
    cold = (tmp_path / "cold").as_uri()
    for name in ("users", "others"):
        on_files.ok("topic", "create", name, "--partitions", "2", "--config", f"cold.location={cold}")
    found = on_files.json("home", "status")
    assert [(each["topic"], each["partition"]) for each in found] == [
        *(("others", 0), ("others", 1), ("users", 0), ("users", 1))
    ]
    on_files.refused("home", "status", "--partition", "0", code=2, saying="name it")
    for file in (tmp_path / "warehouse" / "others").rglob("*.topic"):
        file.write_bytes(b"{")
    result = on_files("home", "status")
    assert result.exit_code == 9
    assert "users/1" in result.stdout
    assert "others" in result.stderr
