"""`top` shows what is in which home, and which home is away, and why."""

from pathlib import Path

from tests.cli.conftest import Lithify, changes


def test_homes_and_the_one_that_is_away(on_files: Lithify, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=changes(9))
    on_files.ok("compaction", "submit", "users", "--full")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    assert "home" not in on_files.ok("top", "--once"), "all is in the warehouse"
    on_files.ok("topic", "alter", "users", "--config", f"cold.location={cold.as_uri()}")
    on_files.ok("home", "relocate", "users")
    on_files.ok("compactor", "run", "--once", "--engine", "local")
    shown = on_files.ok("top", "--once")
    assert cold.as_uri() in shown
    assert "away" not in shown
    cold.rename(tmp_path / "unmounted")
    shown = on_files.ok("top", "--once")
    assert f"! {cold.as_uri()} is away: there is no users/" in shown
    (state,) = on_files.json("top", "--once")["homes"]
    assert state["home"] == cold.as_uri()
