"""What reports and descriptions tell a person: both figures, every reason, and what to do next."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Lithify, changes

ONCE = ("compactor", "run", "--once", "--engine", "local")
COMPACTED = ("--config", "cleanup.policy=compact")


def cells(text: str, column: str) -> list[str]:
    """A column of the table that ends `text`, none of whose cells is empty."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    head = next(at for at, line in enumerate(lines) if column in line)
    return [line[lines[head].index(column)] for line in lines[head + 1 :]]


def segments(folder: Path, partition: int = 0) -> list[Path]:
    return sorted(folder.glob(f"*/*/{partition:05}/segments/*.parquet"))


def damage(segment: Path) -> bytes:
    """A byte of the rows; answers with what was there."""
    sound = segment.read_bytes()
    segment.write_bytes(sound[:60] + bytes([sound[60] ^ 0xFF]) + sound[61:])
    return sound


def test_a_description_says_why_more_is_readable_than_retention_keeps(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "clicks", "--config", "retention.records=10")
    lithify.ok("append", "clicks", "--batch-size", "10", input=changes(10))
    assert "go together" not in lithify.ok("topic", "describe", "clicks")
    lithify.ok("append", "clicks", input=changes(15))
    kept = "clicks/0: retention.records=10, and 15 records can be read: those of one append go together"
    assert kept in lithify.ok("topic", "describe", "clicks")


def test_a_description_and_a_pass_show_what_is_stored_and_what_is_readable(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "clicks", "--config", "retention.records=10")
    lithify.ok("append", "clicks", "--batch-size", "10", input=changes(30))
    described = lithify.ok("topic", "describe", "clicks")
    assert (cells(described, "records readable"), cells(described, "records stored")) == (["10"], ["30"])
    assert cells(described, "log start") == ["20"]
    assert cells(described, "next offset") == ["30"]
    report = lithify.ok(*ONCE)
    assert cells(report, "records stored") == ["30 → 10"]
    assert cells(report, "records readable") == ["10"]
    assert " → " in cells(report, "bytes stored")[0]
    assert report.splitlines()[1].endswith(" KiB)"), "the reason comes last, for it may be long"
    assert "leaves out" not in report
    lithify.ok("topic", "delete-records", "clicks", "--partition", "0", "--before", "25", "--yes")
    assert "readable leaves out what lies below the log start" in lithify.ok(*ONCE)
    shown = lithify.ok("topic", "describe", "clicks", "--partition", "0")
    assert re.search(r"stored: 10 records .*; 5 records readable .*; the others lie below the floor", shown)


def test_a_pass_tells_what_it_did_and_what_it_waits_for(lithify: Lithify) -> None:
    throttle = ("--config", "compaction.throttle.bytes.per.second=1")
    lithify.ok("topic", "create", "users", *COMPACTED, *throttle)
    lithify.ok("append", "users", input=changes(20))
    line = lithify.ok(*ONCE).splitlines()[1]
    assert line.endswith("clean completed: dirty ratio 1.00 is above 0.5"), "nothing is due, so nothing waits"
    lithify.ok("append", "users", input=changes(500))
    line = lithify.ok(*ONCE).splitlines()[1]
    assert "compaction.throttle.bytes.per.second: the next job may start" in line
    lithify.ok("topic", "create", "others", *COMPACTED)
    lithify.ok("append", "others", input=changes(20))
    line = lithify.ok(*ONCE).splitlines()[1]
    assert line.endswith("clean completed: dirty ratio 1.00 is above 0.5")


@pytest.mark.slow
def test_a_drop_beside_a_quarantine_tells_of_both(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", *COMPACTED)
    for _ in range(2):
        on_files.ok("append", "users", input=changes(9))
    damage(segments(folder)[1])
    first = on_files(*ONCE)
    assert first.exit_code == 9
    assert first.stdout.count("fails its checksum") == 1, "the reason of the failure, once"
    on_files.ok("topic", "delete-records", "users", "--before", "9", "--yes")
    result = on_files(*ONCE)
    assert result.exit_code == 9
    assert "dropped 1 segment below" in result.stdout
    assert "; quarantined because of a damaged segment" in result.stdout


def test_a_status_tells_why_records_went(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input='{"value": "1"}\n{"key": "a", "value": "2"}\n{"key": "a", "value": "3"}\n')
    lithify.ok("topic", "alter", "users", *COMPACTED)
    (part,) = lithify.json(*ONCE)["partitions"]
    status = lithify.ok("compaction", "status", part["jobs"][0]["id"])
    assert "dropped    1 superseded, 1 without a key\n" in status
    assert "requests   " in status
    assert "by its workers" in status


def test_explain_names_each_input_and_its_keys(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", *COMPACTED)
    lithify.ok("append", "users", "--batch-size", "3", input=changes(6))
    (explained,) = lithify.json("compaction", "explain", "users")
    assert [each["id"] for each in explained["inputs"]] == explained["sources"]
    assert [(each["kind"], each["rows"], each["min_offset"], each["max_offset"]) for each in explained["inputs"]] == [
        ("L0", 3, 0, 2),
        ("L0", 3, 3, 5),
    ]
    assert all(each["min_key"] and each["max_key"] for each in explained["inputs"])
    text = lithify.ok("compaction", "explain", "users")
    assert all(f"\n{source} " in text for source in explained["sources"])
    lithify.ok("topic", "create", "idle", *COMPACTED)
    assert lithify.json("compaction", "explain", "idle")[0]["inputs"] == []


@pytest.mark.slow
def test_a_quarantine_is_described_with_its_offsets_and_the_way_out(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2", *COMPACTED)
    for _ in range(2):
        on_files.ok("append", "users", "--partition", "1", input=changes(9))
    second = segments(folder, 1)[1]
    sound = damage(second)
    assert on_files(*ONCE).exit_code == 9
    part = on_files.json("topic", "describe", "users")["partitions"][1]
    assert part["quarantined_segment"] == second.stem
    for told in (on_files.ok("topic", "describe", "users"), on_files("doctor", "--rounds", "1").stdout):
        assert "it holds offsets 9 to 17" in told
        assert "'lithify compaction retry users --partition 1'" in told
    second.write_bytes(sound)
    assert "users/1: the quarantine is lifted" in on_files.ok("compaction", "retry", "users")


@pytest.mark.slow
def test_a_quarantine_names_the_next_command_everywhere(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", *COMPACTED)
    on_files.ok("append", "users", input=changes(9))
    damage(segments(folder)[0])
    retry = "'lithify compaction retry users --partition 0'"
    for _ in range(2):
        told = on_files(*ONCE).stdout
        assert cells(told.splitlines()[0] + "\n" + told.splitlines()[1], "outcome") == ["quarantined"]
        assert f"users/0 is quarantined: restore the segment, then run {retry}\n" in told
        assert "run again" not in told, "which helps nothing"
    explained = on_files.ok("compaction", "explain", "users").splitlines()[0]
    assert explained.endswith(f" restore those objects from a copy; then {retry}")
    verified = on_files("verify", "--engine", "local").stdout
    assert "Restore the object from a copy\n" in verified
    assert retry in verified
    assert "lithify verify" not in verified, "which has just been done"


@pytest.mark.slow
def test_a_retry_is_of_every_partition_and_says_where_nothing_was_to_lift(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2", *COMPACTED)
    sound: dict[int, bytes] = {}
    for number in (0, 1):
        on_files.ok("append", "users", "--partition", str(number), input=changes(9))
        sound[number] = damage(segments(folder, number)[0])
    assert on_files(*ONCE).exit_code == 9
    segments(folder, 1)[0].write_bytes(sound[1])
    on_files.refused("compaction", "retry", "users", code=9, saying="users/0: ")
    parts = on_files.json("topic", "describe", "users")["partitions"]
    assert [part["quarantine"] is None for part in parts] == [False, True], "one that is whole waits for no other"
    segments(folder)[0].unlink()
    line = on_files.refused("compaction", "retry", "users", "--partition", "0", code=9, saying="restore the object")
    assert "snapshot" not in line
    answer = on_files.json("compaction", "retry", "users", "--partition", "1")
    assert answer == [{"topic": "users", "partition": 1, "lifted": False}]
    assert "users/1 was not quarantined" in on_files.ok("compaction", "retry", "users", "--partition", "1")


def test_records_of_several_partitions_are_deleted_in_the_one_that_is_named(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "wide", "--partitions", "2")
    lithify.ok("append", "wide", "--partition", "0", input=changes(3))
    words = ("topic", "delete-records", "wide", "--before", "2", "--yes")
    lithify.refused(*words, code=2, saying="choose one of the 2 with --partition")
    assert lithify.json(*words, "--partition", "0")["log_start_offset"] == 2


def test_a_dry_run_says_what_each_object_waits_for(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", *COMPACTED)
    lithify.ok("append", "users", input=changes(20))
    lithify.ok("checkpoint", "create", "users", "kept")
    lithify.ok(*ONCE)
    (part,) = lithify.json("gc", "run", "--dry-run")["partitions"]
    (waiting,) = part["kept"]
    assert waiting["reason"].startswith("replaced by manifest ")
    assert "checkpoint kept pins manifest" in waiting["reason"]
    lithify.ok("checkpoint", "delete", "users", "kept")
    text = lithify.ok("gc", "run", "--dry-run")
    assert waiting["key"] in text
    assert "it stays readable for the grace period (1.0 h)" in text
    assert lithify.json("gc", "run", "--once")["partitions"][0]["kept"] == []


@pytest.mark.parametrize("command", [("doctor", "--rounds", "1"), ("topic", "describe", "users")])
def test_a_consumer_that_was_passed_by_is_told_of(lithify: Lithify, command: tuple[str, ...]) -> None:
    lithify.ok("topic", "create", "users", "--config", "retention.records=2")
    lithify.ok("append", "users", "--batch-size", "1", input=changes(3))
    lithify.ok("read", "users", "--consumer", "audit", "--limit", "1")
    lithify.ok("append", "users", "--batch-size", "1", input=changes(5))
    result = lithify(*command)
    assert result.exit_code == 0
    assert "audit" in result.stdout
    assert "retention has overtaken it: offsets 2 to 5 expired unread" in result.stdout


def test_a_missing_segment_is_told_of_in_one_sentence(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", *COMPACTED)
    on_files.ok("append", "users", input=changes(9))
    segments(folder)[0].unlink()
    line = on_files.refused("read", "users", code=9, saying=" does not exist, but the retained manifest 2 names it")
    assert "restore the object from a copy" in line
