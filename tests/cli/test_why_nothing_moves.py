"""Why no segment moves to the cold home: which of the conditions holds, and what would change it."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Lithify, changes

DAY_MS = 86_400_000


@pytest.fixture
def users(on_files: Lithify, tmp_path: Path) -> Lithify:
    cold = (tmp_path / "cold").as_uri()
    on_files.ok("topic", "create", "users", "--config", f"cold.location={cold}", "--config", "hot.retain.segments=0")
    return on_files


def merged(users: Lithify) -> None:
    users.ok("append", "users", input=changes(3))
    users.ok("append", "users", input=changes(3))
    users.ok("compaction", "submit", "users", "--full")
    users.ok("compactor", "run", "--once", "--engine", "local")


def why(users: Lithify) -> str:
    """The same from both commands that tell it."""
    (found,) = users.json("home", "status", "users")
    (explained,) = users.json("compaction", "explain", "users")
    assert [each["reason"] for each in explained["passed"] if each["what"] == "move old segments"] == [
        found["why_none"]
    ]
    return found["why_none"]


def test_nothing_is_there(users: Lithify) -> None:
    assert why(users) == "the partition is empty"
    users.refused("home", "relocate", "users", code=2, saying="users/0: nothing to move: the partition is empty")


def test_there_are_only_l0_segments(users: Lithify) -> None:
    users.ok("append", "users", input=changes(3))
    assert why(users).startswith("there are only L0 segments, which stay until a compaction merges them into a run")
    users.refused("home", "relocate", "users", code=2, saying="nothing to move: there are only L0 segments")
    users.refused("home", "recall", "users", code=2, saying="nothing to move: everything is in the warehouse already")


def test_no_retention_is_set(users: Lithify) -> None:
    merged(users)
    assert why(users).startswith("neither local.retention.ms nor local.retention.bytes is set")


def test_they_are_young(users: Lithify) -> None:
    merged(users)
    users.ok("topic", "alter", "users", "--config", f"local.retention.ms={DAY_MS}")
    assert re.fullmatch(r"the oldest segment is old enough in .* \(local.retention.ms\)", why(users))
    users.ok("topic", "alter", "users", "--config", "local.retention.bytes=1000000")
    assert "; all segments together have " in why(users)


def test_the_newest_are_kept(users: Lithify) -> None:
    merged(users)
    users.ok("topic", "alter", "users", "--config", "local.retention.bytes=0", "--config", "hot.retain.segments=5")
    assert why(users) == ("1 segment is old enough, but it is among the newest 5, which hot.retain.segments keeps")


def test_a_request_that_is_under_way_is_not_made_twice(users: Lithify) -> None:
    merged(users)
    users.ok("home", "relocate", "users")
    users.refused("home", "relocate", "users", code=4, saying="under way: 'lithify compaction status users/0/")
    users.ok("compactor", "run", "--once", "--engine", "local")
    assert why(users).startswith("everything is in file://")
    users.ok("topic", "alter", "users", "--config", f"local.retention.ms={DAY_MS}")
    told = users("home", "recall", "users", "--json")
    assert told.stderr.startswith("lithify: warning: what the topic's configuration calls old will go again")
    assert json.loads(told.stdout)[0]["status"] == "submitted"
    again = users("home", "recall", "users")
    assert again.exit_code == 4
    assert "a move to the warehouse is under way" in again.stderr
    assert len([each for each in users.json("compaction", "list") if each["status"] == "submitted"]) == 1


def told(users: Lithify) -> str:
    return " ".join(users.ok("home", "status", "users").split())


def test_what_is_requested_and_what_failed_is_told(users: Lithify, tmp_path: Path) -> None:
    merged(users)
    users.ok("home", "relocate", "users")
    assert "a move is requested, and waits for a compactor" in told(users)
    (tmp_path / "cold").write_text("not a folder")
    users("compactor", "run", "--once", "--engine", "local")
    assert "the latest move failed: requested: to file://" in told(users)


def test_a_home_that_is_away_is_told(users: Lithify, tmp_path: Path) -> None:
    merged(users)
    users.ok("home", "relocate", "users")
    users.ok("compactor", "run", "--once", "--engine", "local")
    assert "is away" not in told(users)
    (tmp_path / "cold").rename(tmp_path / "unmounted")
    assert re.search(r"users/0: file://\S+cold is away: .*is the home mounted\?", told(users))


COSTS = r"less than 0\.000001 USD at S3's list prices"


def test_a_move_tells_its_price(users: Lithify) -> None:
    """Before it is made, whoever asks for it."""
    merged(users)
    users.ok("topic", "alter", "users", "--config", "local.retention.bytes=0")
    assert re.search(rf"users/0: 1 segment \(\S+ \S+\) may move to file://\S+ for {COSTS}", told(users))
    (explained,) = users.json("compaction", "explain", "users")
    assert (explained["kind"], explained["price"]["segments"], explained["cold"]) == ("relocate", 1, None)
    assert explained["estimate"]["puts"] == 1
    (status,) = users.json("home", "status", "users")
    assert status["due_price"] == explained["price"]
    assert re.search(f"costs {COSTS}", " ".join(users.ok("compaction", "explain", "users").split()))
    asked = users.ok("home", "relocate", "users")
    assert re.search(rf"submitted: moves 1 segment \(\S+ \S+\) for {COSTS}", " ".join(asked.split()))
    users.ok("compactor", "run", "--once", "--engine", "local")
    (moved,) = [each for each in users.json("compaction", "list") if each["kind"] == "relocate"]
    assert moved["price"]["bytes"] == status["due_bytes"]
    assert re.search(f"price {COSTS}", " ".join(users.ok("compaction", "status", moved["id"]).split()))
