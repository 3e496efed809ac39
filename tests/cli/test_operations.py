"""`lithify compactor run --once`, `compaction`, `gc`, `checkpoint`, `manifest`."""

import json
import os
import re
from pathlib import Path

import pytest

from lithify.compactor.engines import local, spark
from tests.cli.conftest import Lithify, changes

ONCE = ("compactor", "run", "--once", "--engine", "local")


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    return lithify


def test_a_pass_compacts_and_reports_and_the_next_says_why_it_did_nothing(users: Lithify) -> None:
    users.ok("append", "users", input=changes(50))
    before = users.ok("scan", "users")
    (first,) = users.json(*ONCE)["partitions"]
    assert (first["outcome"], first["before"]["rows"], first["after"]["rows"]) == ("worked", 50, 7)
    (second,) = users.json(*ONCE)["partitions"]
    assert (second["outcome"], second["detail"], second["jobs"]) == ("idle", "nothing is due", [])
    assert (second["nothing_due"], second["last_job"], second["fault"]) == (True, None, None)
    assert second["before"] == second["after"] == first["after"]
    assert users.ok("scan", "users") == before
    assert "nothing is due" in users.ok(*ONCE)


def test_an_empty_warehouse_says_so(lithify: Lithify) -> None:
    lithify.refused(*ONCE, code=3, saying="there is no warehouse at memory://")
    lithify.ok("topic", "create", "users")
    lithify.ok("topic", "delete", "users", "--yes")
    assert "no topic" in lithify.ok(*ONCE)


def test_a_manual_compaction_from_request_to_history(users: Lithify) -> None:
    users.ok("append", "users", input=changes(9))
    users.ok(*ONCE)
    users.ok("append", "users", input=changes(3))
    (submitted,) = users.json("compaction", "submit", "users", "--full")
    assert submitted["status"] == "submitted"
    assert users.json("compaction", "list", "--active") == [submitted]
    (explained,) = users.json("compaction", "explain", "users")
    assert explained["action"] == "admit"
    users.ok(*ONCE)
    done = users.json("compaction", "status", submitted["id"])
    assert (done["status"], done["origin"], done["kind"]) == ("completed", "manual", "clean")
    assert submitted["id"] in users.ok("compaction", "list", "users")
    assert re.search("^status +completed$", users.ok("compaction", "status", submitted["id"]), re.MULTILINE)
    assert users.json("compaction", "list", "--active") == []


def test_sources_are_named_by_their_ids(users: Lithify) -> None:
    users.ok("append", "users", "--batch-size", "5", input=changes(15))
    (part,) = users.json("topic", "describe", "users")["partitions"]
    chosen = [segment["id"] for segment in part["l0"]][:2]
    (submitted,) = users.json("compaction", "submit", "users", "--sources", ",".join(chosen))
    assert submitted["sources"] == chosen
    users.refused("compaction", "submit", "users", "--sources", "nothing", code=2, saying="nothing")
    users.refused("compaction", "submit", "users", code=2, saying="--full or --sources")
    users.refused("compaction", "submit", "users", "--full", "--sources", "x", code=2, saying="--full or --sources")
    cancelled = users.json("compaction", "cancel", submitted["id"])
    users.ok(*ONCE)
    assert users.json("compaction", "status", cancelled["id"])["status"] == "cancelled"
    assert "is cancelled" in users.ok("compaction", "cancel", cancelled["id"])  # what was asked for is so


def test_what_has_ended_cannot_be_cancelled(users: Lithify) -> None:
    users.ok("append", "users", input=changes(9))
    (submitted,) = users.json("compaction", "submit", "users", "--full")
    users.ok(*ONCE)
    told = users.refused("compaction", "cancel", submitted["id"], code=2, saying="has ended (completed)")
    assert "nothing to cancel" in told


def test_a_request_that_must_wait_says_for_what(users: Lithify) -> None:
    users.ok("append", "users", input=changes(9))
    assert users.ok("compaction", "submit", "users", "--full").endswith(" submitted\n")
    users.ok("topic", "alter", "users", "--config", "compaction.paused=true")
    told = users.ok("compaction", "submit", "users", "--full")
    assert told.endswith(" submitted, and waits: compaction.paused is true\n")


def test_sources_need_one_partition(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "wide", "--partitions", "2")
    lithify.refused("compaction", "submit", "wide", "--sources", "x", code=2, saying="--partition")


def test_compactions_that_are_not_there(users: Lithify) -> None:
    users.refused("compaction", "status", "nonsense", code=2, saying="is not a compaction id")
    users.refused("compaction", "status", "users/0/000000000001-abcd", code=3, saying="has no compaction")
    users.refused("compaction", "explain", "nobody", code=3, saying="does not exist")
    users.refused("compaction", "explain", "users", "--partition", "4", code=3, saying="it has partition 0")


def test_a_collection_dry_then_wet(users: Lithify) -> None:
    users.ok("append", "users", input=changes(20))
    users.ok(*ONCE)
    grace = ("--gc-grace-ms", "0")
    users.json("gc", "run", "--once", *grace)
    dry = users.json("gc", "run", "--dry-run", *grace)
    (listed,) = [garbage for part in dry["partitions"] for garbage in part["deleted"] if "segments" in garbage["key"]]
    assert "replaced by manifest" in listed["reason"]
    assert listed["key"] in users.ok("gc", "run", "--dry-run", *grace)
    wet = users.json("gc", "run", "--once", "--sweep", *grace)
    assert listed["key"] in [garbage["key"] for part in wet["partitions"] for garbage in part["deleted"]]
    assert len(users.records("scan", "users")) == 7


def test_checkpoints_pin_until_they_are_deleted(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--partitions", "2")
    made = lithify.json("checkpoint", "create", "users", "kept", "--ttl-ms", "3600000")
    assert [(each["partition"], each["checkpoint"]["name"]) for each in made] == [(0, "kept"), (1, "kept")]
    assert all(each["checkpoint"]["expires_at_ms"] for each in made)
    lithify.refused("checkpoint", "create", "users", "kept", code=4, saying="already")
    lithify.ok("checkpoint", "delete", "users", "kept", "--partition", "1")
    assert "kept" in lithify.ok("checkpoint", "list", "users")
    # Only where it is missing: a creation that was interrupted can be repeated.
    assert len(lithify.json("checkpoint", "create", "users", "kept")) == 2
    lithify.ok("checkpoint", "delete", "users", "kept")
    assert lithify.json("checkpoint", "list", "users") == []
    lithify.refused("checkpoint", "delete", "users", "kept", code=3, saying="no checkpoint 'kept'")


def test_what_a_checkpoint_pins_is_read_by_its_name(users: Lithify, tmp_path: Path) -> None:
    users.ok("append", "users", input=changes(9))
    before = {words: users.ok(*words) for words in (("read", "users"), ("scan", "users"), ("get", "users", "k1"))}
    users.ok("checkpoint", "create", "users", "kept")
    users.ok("append", "users", input=changes(20))
    users.ok(*ONCE)
    for words, shown in before.items():
        assert users.ok(*words, "--checkpoint", "kept") == shown != users.ok(*words)
    target = tmp_path / "kept.jsonl"
    users.ok("export", "users", "--checkpoint", "kept", "--to", target.as_uri())
    assert target.read_text() == before["scan", "users"]
    assert len(users.records("read", "users", "--checkpoint", "kept", "--from-offset", "7")) == 2
    users.refused(
        "read", "users", "--checkpoint", "kept", "--from-offset", "10", code=10, saying="beyond the end of the log"
    )
    users.refused("scan", "users", "--checkpoint", "gone", code=3, saying="no checkpoint 'gone'")
    users.refused("read", "users", "--checkpoint", "kept", "--follow", code=2, saying="a checkpoint does not change")
    assert [each["checkpoint"]["name"] for each in users.json("checkpoint", "list", "users")] == ["kept"]


def test_manifests_are_shown_as_stored_and_for_people(users: Lithify) -> None:
    users.ok("append", "users", input='{"key": "a key", "value": "v"}\n')
    users.ok("checkpoint", "create", "users", "kept")
    stored = json.loads(users.ok("manifest", "show", "users", "--json"))
    assert (stored["topic"], stored["next_offset"]) == ("users", 1)
    text = users.ok("manifest", "show", "users")
    assert f"users/0 manifest {stored['id']}" in text
    assert stored["l0"][0]["id"] in text
    assert "checkpoint: kept" in text
    assert "a key" not in text
    assert json.loads(users.ok("manifest", "show", "users", "--number", "1", "--json"))["id"] == 1
    users.refused("manifest", "show", "users", "--number", "99", code=3, saying="does not exist")
    users.refused("manifest", "show", "users", "--partition", "1", code=3, saying="it has partition 0")


def test_a_pass_shows_live_progress_on_a_terminal(users: Lithify) -> None:
    users.ok("append", "users", input=changes(50))
    result = users(*ONCE, env={"FORCE_COLOR": "1", "COLUMNS": "200"})
    assert result.exit_code == 0
    assert "\x1b[1m" in result.stdout, "the headers are bold"


def test_a_master_is_sparks(users: Lithify) -> None:
    users.refused(*ONCE, "--master", "local[1]", code=2, saying="--master is Spark's")
    users.refused("verify", "--engine", "local", "--master", "local[1]", code=2, saying="--master is Spark's")


def test_a_sweep_removes_what_killed_processes_left_half_written(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(3))
    stale, fresh = (folder / ".lithify-tmp" / name for name in ("0123456789abcdef.7", "fedcba9876543210.8"))
    for path in (stale, fresh):
        path.write_bytes(b"half")
    os.utime(stale, (1, 1))
    assert "would delete 1 temporary file" in on_files.ok("gc", "run", "--sweep", "--dry-run")
    on_files.ok("gc", "run", "--once")
    assert stale.exists(), "a normal pass lists nothing"
    report = on_files.json("gc", "run", "--sweep")
    assert (report["temporaries"], report["fault"]) == (1, None)
    assert (stale.exists(), fresh.exists()) == (False, True)
    assert (folder / ".lithify-tmp" / "reserve").is_dir()
    assert on_files.json("gc", "run", "--sweep")["temporaries"] == 0
    assert len(on_files.records("read", "users")) == 3


def test_a_grace_period_that_is_too_short_for_writers_is_refused(users: Lithify) -> None:
    for words in (("gc", "run", "--dry-run"), ("gc", "run"), ("compactor", "run", "--engine", "local", "--no-probe")):
        saying = "--gc-grace-ms is 299999; it must be at least 300000"
        users.refused(*words, "--gc-grace-ms", "299999", code=2, saying=saying)
    users.ok("gc", "run", "--once", "--gc-grace-ms", "300000")
    users.ok("gc", "run", "--once", "--gc-grace-ms", "0")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_engine_runs_as_much_at_once_as_it_is_told(
    engine: str, users: Lithify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container that sees all processors of its machine, one task for each is more than its memory holds."""
    module = {"local": local, "spark": spark}[engine]
    kind, told = {"local": "LocalEngine", "spark": "SparkEngine"}[engine], list[int | None]()

    class Nothing:
        def __init__(self, *_: object, parallelism: int | None = None, **_others: object) -> None:
            told.append(parallelism)

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, kind, Nothing)
    users.ok("topic", "alter", "users", "--config", "compaction.paused=true")
    once = ("compactor", "run", "--once", "--engine", engine)
    users.ok(*once)
    users.ok(*once, "--parallelism", "2")
    assert users(*once, env={"LITHIFY_COMPACTOR_PARALLELISM": "3"}).exit_code == 0
    assert told == [None, 2, 3]
    if engine == "spark":
        users.ok(*once, "--master", "local[4]", "--parallelism", "1")
        assert told[3:] == [1]
    users.refused(*once, "--parallelism", "0", code=2, saying="--parallelism")
