"""`lithify doctor`."""

import importlib.metadata
import os
import re
from pathlib import Path
from typing import Any

import pytest

from lithify.store.driver import new_id
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from tests.cli.conftest import Lithify, changes, lines


def checks(lithify: Lithify) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in lithify.json("doctor", "--rounds", "1")["checks"]}


def test_a_place_that_is_fit(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2")
    found = checks(on_files)
    assert {check["verdict"] for name, check in found.items() if name.startswith("store: ")} == {"ok"}
    assert found["topics"]["detail"] == "2 partitions are readable"
    took = r"(\d+ ms|less than 1 ms)"
    assert re.fullmatch(rf"a GET takes {took}, a PUT {took} \(medians of 9\)", found["store: latency"]["detail"])
    assert on_files.ok("doctor", "--rounds", "1").endswith("\nfit\n")


@pytest.mark.parametrize("made", [(), ("photos/2026",)], ids=["no folder", "a folder of something else"])
def test_of_a_mistyped_path_nothing_stays(on_files: Lithify, folder: Path, made: tuple[str, ...]) -> None:
    for name in made:
        (folder / name).mkdir(parents=True)
    before = set(folder.parent.rglob("*"))
    text = on_files.ok("doctor")
    assert "there is no warehouse at" in " ".join(text.split())
    assert "objects of the probe removed" in " ".join(text.split())
    assert text.endswith("the store is fit; there is no warehouse here\n")
    assert set(folder.parent.rglob("*")) == before


def test_debt_that_nobody_pays(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    """For long: old records that were appended just now are no reason to ask."""
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=lines({"key": "k", "value": "v", "timestamp_ms": 1}))
    assert "users/0" not in checks(on_files)
    monkeypatch.setattr("lithify.admin.overdue.OVERDUE_MS", 0)
    found = checks(on_files)["users/0"]
    assert found["verdict"] == "warning"
    assert "judging by the append" in found["detail"]
    assert "is a compactor running?" in found["detail"]


def test_appends_that_are_slowed_down_and_refused(on_files: Lithify) -> None:
    """It said that all was well, beside an append that was refused."""
    on_files.ok("topic", "create", "users", "--partitions", "2", "--config", "l0.segments.max=4")
    for count in range(1, 5):
        on_files.ok("append", "users", "--partition", "1", input=changes(1))
        found = checks(on_files).get("users/1") if count < 4 else None
        assert (found and found["verdict"]) == ("warning" if count == 3 else None)
    said = "appends are slowed down: 3 L0 segments of at most 4 (l0.segments.max)"
    on_files.ok("topic", "alter", "users", "--config", "l0.segments.max=5")
    assert checks(on_files)["users/1"]["detail"].startswith(said.replace("3", "4").replace("most 4", "most 5"))
    on_files.ok("topic", "alter", "users", "--config", "l0.segments.max=4")
    result = on_files("doctor", "--rounds", "1")
    assert result.exit_code == 9
    told = " ".join(result.stdout.split())
    assert "failure users/1 appends are refused: 4 L0 segments of at most 4 (l0.segments.max)" in told
    assert "see 'lithify compaction explain users --partition 1'" in told
    on_files.ok("topic", "alter", "users", "--config", "compaction.paused=true")
    assert "appends are refused: 4 L0 segments of at most 4" in on_files.ok("compaction", "explain", "users")


def test_an_s3fs_of_the_trap(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.2" if name == "s3fs" else real(name))
    assert checks(on_files)["s3fs"]["verdict"] == "warning"


def test_no_java_and_no_space_are_warnings(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.work.java.find_java", lambda: None)
    monkeypatch.setattr("lithify.cli.doctor._FREE_BYTES_MIN", 1 << 60)
    found = checks(on_files)
    assert found["java"]["verdict"] == found["temporary folder"]["verdict"] == "warning"


def test_damage_that_needs_a_person(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("topic", "create", "others")
    for file in (folder / "users").rglob("*.topic"):
        file.write_bytes(b"{")
    result = on_files("doctor", "--rounds", "1")
    assert result.exit_code == 9
    assert "topic users" in result.stdout
    assert "1 partition is readable" in result.stdout


def test_a_home_that_is_away(on_files: Lithify, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("topic", "create", "others", "--config", f"cold.location={cold.as_uri()}")
    on_files.ok("append", "users", input=changes(9))
    on_files.ok("compaction", "submit", "users", "--full")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    on_files.ok("topic", "alter", "users", "--config", f"cold.location={cold.as_uri()}")
    name = f"home {cold.as_uri()}"
    assert checks(on_files)[name]["verdict"] == "ok", "nothing is there yet"
    on_files.ok("home", "relocate", "users")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    on_files.ok("topic", "alter", "users", "--unset", "cold.location")
    assert checks(on_files)[name]["detail"] == "answers; it is a home of others, users"
    cold.rename(tmp_path / "unmounted")
    cold.mkdir()
    result = on_files("doctor", "--rounds", "1")
    assert result.exit_code == 7, "nothing is damaged; the home does not answer"
    told = " ".join(result.stdout.split())
    assert f"failure {name} is away: there is no users/" in told
    assert "reads and compactions that need its segments fail" in told
    assert "1 check failed" in told


def test_stale_temporaries_of_homes_are_removed_too(on_files: Lithify, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    stale = cold / ".lithify-tmp" / "0123456789abcdef.7"
    on_files.ok("topic", "create", "users", "--config", f"cold.location={cold.as_uri()}")
    on_files.ok("append", "users", input=changes(9))
    on_files.ok("compaction", "submit", "users", "--full")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    on_files.ok("home", "relocate", "users")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    stale.parent.mkdir(parents=True, exist_ok=True)
    stale.write_bytes(b"half")
    os.utime(stale, (1, 1))
    assert checks(on_files)["stale temporaries"]["detail"] == "1 removed, left by killed processes"
    assert not stale.exists()


def test_a_home_without_a_bucket(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is there yet, so it lacks the file that says whose it is; but it does not answer either."""

    def away(self: MemoryStore, key: str) -> None:
        raise Unavailable("there is no such bucket")

    on_files.ok("topic", "create", "users", "--config", f"cold.location=memory://{new_id()}")
    monkeypatch.setattr(MemoryStore, "head", away)
    result = on_files("doctor", "--rounds", "1")
    assert result.exit_code == 7
    assert "is away: " in result.stdout
    assert "Until it answers, nothing moves there" in " ".join(result.stdout.split())
