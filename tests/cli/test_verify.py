"""`lithify verify`, and the quarantine that a damaged segment leads to."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Lithify, changes

ONCE = ("compactor", "run", "--once", "--engine", "local")
LOCALLY = ("verify", "--engine", "local")


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", "--batch-size", "10", input=changes(20))
    return on_files


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[40] ^= 1  # in the first row group
    file.write_bytes(body)


def test_a_sound_warehouse(users: Lithify) -> None:
    (check,) = users.json(*LOCALLY)["partitions"]
    assert (check["segments"], check["unnamed"], check["findings"]) == (2, 0, [])
    assert "intact" in users.ok(*LOCALLY, "--deep", "users")
    users.refused(*LOCALLY, "nobody", code=3, saying="does not exist")


def test_damage_and_loss_are_each_named(users: Lithify, folder: Path) -> None:
    damaged, lost = segments(folder)
    flip(damaged)
    lost.unlink()
    result = users(*LOCALLY, "--json")
    assert result.exit_code == 9
    (check,) = json.loads(result.stdout)["partitions"]
    kinds = {Path(finding["object"]).name: finding["kind"] for finding in check["findings"]}
    assert kinds == {damaged.name: "corrupt", lost.name: "missing"}
    text = users(*LOCALLY).stdout
    assert damaged.name in text
    assert lost.name in text
    assert "restore the object" in text.lower()


def test_pinned_segments_are_verified_and_orphans_counted(users: Lithify, folder: Path) -> None:
    users.ok("checkpoint", "create", "users", "kept")
    old = segments(folder)[0]
    shutil.copy(old, old.with_name("000000000001-0123456789abcdef.parquet"))
    users.ok(*ONCE)
    (check,) = users.json(*LOCALLY)["partitions"]
    assert (check["segments"], check["pinned"], check["unnamed"], check["findings"]) == (3, 2, 1, [])
    flip(old)
    assert users(*LOCALLY).exit_code == 9


def test_a_checkpoint_whose_manifest_is_damaged(users: Lithify, folder: Path) -> None:
    (pinned,) = users.json("checkpoint", "create", "users", "kept")
    users.ok("append", "users", input=changes(1))
    number = pinned["checkpoint"]["manifest"]
    (file,) = folder.rglob(f"*{number:020d}.manifest")
    file.write_bytes(file.read_bytes()[:100])
    result = users(*LOCALLY)
    assert result.exit_code == 9
    assert f"{file.name} is damaged" in result.stdout


def test_a_manifest_that_breaks_an_invariant(users: Lithify, folder: Path) -> None:
    head = max(folder.rglob("*.manifest"))
    manifest = json.loads(head.read_bytes())
    manifest["next_offset"] = 3
    head.write_text(json.dumps(manifest))
    result = users(*LOCALLY)
    assert result.exit_code == 9
    assert "live offsets lie below next_offset" in result.stdout


@pytest.mark.slow
def test_a_quarantine_from_damage_to_repair(users: Lithify, folder: Path) -> None:
    damaged = segments(folder)[0]
    sound = damaged.read_bytes()
    flip(damaged)
    assert users(*ONCE).exit_code == 9
    assert users(*ONCE).exit_code == 9, "it does not pass by itself"
    result = users("doctor", "--rounds", "1")
    assert result.exit_code == 9
    assert "quarantined" in result.stdout
    told = users(*LOCALLY).stdout
    assert "quarantined: users/0 is not compacted: " in told
    assert "'lithify compaction retry users --partition 0'" in told
    users.refused("compaction", "retry", "users", code=9, saying="Restore the object")
    assert "! users/0: quarantined" in users.ok("topic", "describe", "users")
    damaged.write_bytes(sound)
    assert users(*LOCALLY).exit_code == 0
    users.ok("compaction", "retry", "users")
    assert users.json(*ONCE)["partitions"][0]["outcome"] == "worked"
    assert len(users.records("scan", "users")) == 7


@pytest.mark.slow
def test_what_cannot_be_repaired_is_given_up_by_hand(users: Lithify, folder: Path) -> None:
    """The last resort: everything up to the damaged append goes, at an operator's word alone."""
    damaged = segments(folder)[0]
    damaged.unlink()
    assert users(*ONCE).exit_code == 9
    head = users.json("topic", "describe", "users")["partitions"][0]
    lost = next(ref for ref in head["l0"] if ref["id"] in damaged.name)
    users.refused("topic", "delete-records", "users", "--before", "1", code=2, saying="--yes")
    before = str(lost["max_offset"] + 1)
    start = users.json("topic", "delete-records", "users", "--before", before, "--yes")["log_start_offset"]
    assert start == lost["max_offset"] + 1
    users(*ONCE)  # retires the segment, though compaction is still stopped
    users.ok("compaction", "retry", "users")
    assert users.json(*ONCE)["partitions"][0]["outcome"] in ("worked", "idle")
    assert next(record["offset"] for record in users.records("read", "users")) >= start
    assert users(*LOCALLY).exit_code == 0


@pytest.mark.spark
def test_verified_on_spark(
    users: Lithify, folder: Path, monkeypatch: pytest.MonkeyPatch, spark_session: object
) -> None:
    """The session of the tests runs in this process already, and is left alone."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    damaged = segments(folder)[1]
    flip(damaged)
    result = users("verify", "--json", "--master", "local[2]")
    assert result.exit_code == 9, result.stderr
    (check,) = json.loads(result.stdout)["partitions"]
    assert [Path(finding["object"]).name for finding in check["findings"]] == [damaged.name]
    assert users("verify", "--master", "local[7]").exit_code == 2
    in_memory = Lithify("memory://verify-on-spark")
    in_memory.ok("topic", "create", "users")
    in_memory.refused("verify", "--master", "local[2]", code=2, saying="--engine local")


COMMANDS = (
    ("topic", "list"),
    ("topic", "describe", "bad"),
    ("compaction", "list"),
    ONCE,
    ("gc", "run", "--once"),
    LOCALLY,
    ("doctor", "--rounds", "1"),
)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["topic", "manifest"])
def test_a_damaged_numbered_file_is_named_beside_what_is_whole_and_the_exit_code_says_so(
    on_files: Lithify, folder: Path, suffix: str
) -> None:
    for name in ("bad", "good"):
        on_files.ok("topic", "create", name, "--config", "cleanup.policy=compact")
        on_files.ok("append", name, input=changes(5))
    on_files.ok("compaction", "submit", "good", "--full")
    newest = max((folder / "bad").rglob(f"*.{suffix}"))
    newest.write_bytes(newest.read_bytes().replace(b'"format"', b'"farmat"'))
    for words in COMMANDS:
        if words == ("topic", "list") and suffix == "manifest":
            assert on_files.ok(*words).split() == ["bad", "good"]
            continue
        if words == ("compaction", "list") and suffix == "manifest":
            continue  # it reads the jobs alone
        result = on_files(*words)
        assert result.exit_code == 9, (words, result.output)
        assert newest.name in " ".join(result.output.split()), words
        assert "describe" in words or "good" in result.output or "1 partition" in result.output, words
