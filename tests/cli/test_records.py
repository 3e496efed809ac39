"""`lithify append`, `read`, `scan`, `get`, `export`."""

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.segment.partitioner import partition_for_key
from tests.cli.conftest import Lithify, changes, lines


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--partitions", "3", "--config", "cleanup.policy=compact")
    return lithify


def test_what_is_appended_is_read_back(users: Lithify) -> None:
    given = [
        {"key": "a", "value": "1", "timestamp_ms": 5, "headers": {"h": "x", "n": None, "b": {"base64": "/w=="}}},
        {"key": "b", "value_base64": "/wA=", "timestamp_ms": 6},
        {"key_base64": "gA==", "value": "", "timestamp_ms": 7, "headers": [["h", "1"], ["h", "2"]]},
        {"key": "a", "value": None, "timestamp_ms": 8},
        {"key": "", "value": "an empty key is a key", "timestamp_ms": 9},
    ]
    assert users.json("append", "users", input=lines(*given))["appended"] == 5
    found = users.records("read", "users")
    shown = [{name: value for name, value in line.items() if name not in ("partition", "offset")} for line in found]
    assert sorted(shown, key=json.dumps) == sorted(given, key=json.dumps)
    assert all(line["partition"] == partition_for_key(line["key"].encode(), 3) for line in found if line.get("key"))
    assert [line["key"] for line in users.records("scan", "users") if "key" in line] == ["", "b"]


def test_get_finds_the_latest(users: Lithify) -> None:
    users.ok("append", "users", input=lines({"key": "a", "value": "1"}, {"key": "a", "value": "2"}))
    users.ok("append", "users", input=lines({"key": "b", "value": "1"}, {"key": "b", "value": None}))
    (found,) = users.records("get", "users", "a")
    assert (found["value"], found["offset"]) == ("2", 1)
    assert users.records("get", "users", "--base64", "YQ==")[0]["value"] == "2"
    users.refused("get", "users", "b", code=3, saying="deleted")
    users.refused("get", "users", "--base64", "not valid base64", code=2, saying="not valid base64")


def test_reading_within_limits(users: Lithify) -> None:
    users.ok("append", "users", "--partition", "1", input=changes(20))
    found = users.records(
        "read", "users", "--partition", "1", "--from-offset", "5", "--to-offset", "15", "--limit", "4"
    )
    assert [line["offset"] for line in found] == [5, 6, 7, 8]
    assert users.records("read", "users", "--limit", "0") == []
    assert len(users.records("scan", "users", "--limit", "3")) == 3
    users.refused("read", "users", "--partition", "9", code=3, saying="it has partitions 0 to 2")
    users.refused("read", "users", "--from-offset", "30", code=10, saying="beyond the end of the log")


def test_batches_are_as_large_as_asked(users: Lithify) -> None:
    users.ok("append", "users", "--partition", "0", "--batch-size", "10", input=changes(25))
    (part, *_) = users.json("topic", "describe", "users")["partitions"]
    assert [segment["rows"] for segment in part["l0"]] == [10, 10, 5]


BAD_LINES = {
    "no JSON": ("{secret", "is not a JSON object"),
    "no object": ("[1]", "is not a record: it must be one object, not a list: give one per line"),
    "no value": ('{"key": "secret"}', "has no value"),
    "number": ('{"key": "k", "value": 5}', "is not a record: its value must be text or null, not a whole number"),
    "unknown field": ('{"key": "k", "value": "v", "secret": 1}', "has an unknown field; known are"),
    "not valid base64": ('{"key": "k", "value_base64": "secret!"}', "has a value_base64 that is not valid base64"),
    "twice": ('{"key": "k", "value": "secret", "value_base64": ""}', "has both value and value_base64"),
    "no key": ('{"value": "secret"}', "has no key"),
    "before 1970": ('{"key": "k", "value": "v", "timestamp_ms": -1}', "has a timestamp_ms"),
    "too large": (json.dumps({"key": "k", "value": "secret" * 200_000}), "is larger than max.message.bytes"),
    "header": ('{"key": "k", "value": "v", "headers": {"h": {"secret": "x"}}}', "has a header"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_named_and_nothing_of_its_batch_is_written(users: Lithify, case: str) -> None:
    bad, saying = BAD_LINES[case]
    text = changes(12) + "\n" + bad + "\n" + changes(3)
    told = users.refused("append", "users", "--batch-size", "5", code=2, saying=f"line 14 {saying}", input=text)
    said = re.search(r"10 records were appended; .* again with --source-id (stdin-\S+) --skip 10\b", told)
    assert said is not None
    assert "secret" not in told
    assert len(users.records("read", "users")) == 10
    mended = changes(12) + "\n" + changes(3)
    users.ok("append", "users", "--source-id", said[1], "--skip", "10", input=mended)
    values = [line["value"] for line in users.records("read", "users")]
    assert sorted(values) == sorted([f"v{n}" for n in range(12)] + ["v0", "v1", "v2"])


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.parquet"])
@pytest.mark.parametrize("shape", ["--log", "--latest"])
def test_what_is_exported_can_be_appended_elsewhere(users: Lithify, tmp_path: Path, name: str, shape: str) -> None:
    users.ok("append", "users", input=changes(30) + lines({"key": "gone", "value": None, "headers": {"h": "1"}}))
    target = (tmp_path / name).as_uri()
    exported = users.json("export", "users", "--to", target, shape)["exported"]
    users.ok("topic", "create", "copy", "--partitions", "3", "--config", "cleanup.policy=compact")
    assert users.json("append", "copy", "--from", target, "--batch-size", "4")["appended"] == exported
    command = ("read",) if shape == "--log" else ("scan",)
    kept = [(line["key"], line["value"], line["timestamp_ms"]) for line in users.records(*command, "users")]
    assert [(line["key"], line["value"], line["timestamp_ms"]) for line in users.records(*command, "copy")] == kept
    assert len(kept) == exported == (31 if shape == "--log" else 7)


def test_compressed_lines_are_compressed(users: Lithify, tmp_path: Path) -> None:
    users.ok("append", "users", input=changes(3))
    users.ok("export", "users", "--to", str(tmp_path / "x.gz"), "--log")
    assert len(gzip.decompress((tmp_path / "x.gz").read_bytes()).splitlines()) == 3


def test_an_export_that_fails_leaves_nothing(on_files: Lithify, folder: Path, tmp_path: Path) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(50))
    on_files.ok("append", "users", input=changes(50))
    for segment in sorted(folder.rglob("*.parquet"))[1:]:
        segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    on_files.refused("export", "users", "--to", str(tmp_path / "out.jsonl"), code=9, saying="segment")
    assert not (tmp_path / "out.jsonl").exists()


def test_parquet_rows_can_be_skipped(users: Lithify, tmp_path: Path) -> None:
    table = pa.table({"key": [b"a", b"b", b"c", b"d", b"e"], "value": ["1", "2", None, "4", "5"]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    users.ok("append", "users", "--from", str(tmp_path / "in.parquet"), "--skip", "3", "--batch-size", "2")
    assert sorted(line["value"] for line in users.records("read", "users")) == ["4", "5"]


def test_a_parquet_file_that_does_not_fit_is_refused(users: Lithify, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1.5], "value": [b"x"]}), tmp_path / "in.parquet")
    said = "column 'key' has type double, not text or bytes: to store it as text (or JSON), say --key-column key"
    users.refused("append", "users", "--from", str(tmp_path / "in.parquet"), code=2, saying=said)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but not really PAR1")
    users.refused("append", "users", "--from", str(tmp_path / "bad.parquet"), code=2, saying="is not a Parquet file")
    assert users.ok("read", "users") == ""


def test_what_the_refusal_of_numbers_says_can_be_done(users: Lithify, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1, 2], "value": [10, None]}), tmp_path / "in.parquet")
    users.refused("append", "users", "--from", str(tmp_path / "in.parquet"), code=2, saying="'key' has type int64")
    columns = ("--key-column", "key", "--value-column", "value")
    users.ok("append", "users", "--from", str(tmp_path / "in.parquet"), *columns)
    found = users.records("read", "users")
    assert [(line["key"], line["value"]) for line in found] == [("1", "10"), ("2", None)]


def test_a_refusal_of_the_second_file_tells_of_the_first(users: Lithify, tmp_path: Path) -> None:
    for name, keys in (("a", ["x", "y"]), ("b", [1, 2])):
        pq.write_table(pa.table({"key": keys, "value": ["v", "w"]}), tmp_path / f"{name}.parquet")
    both = ("--from", str(tmp_path / "a.parquet"), "--from", str(tmp_path / "b.parquet"))
    told = users.refused("append", "users", *both, code=2, saying="'key' has type int64")
    assert "2 records were appended" in told
    assert "Nothing was" not in told


def test_a_source_that_is_not_there(users: Lithify, tmp_path: Path) -> None:
    users.refused("append", "users", "--from", str(tmp_path / "nothing.jsonl"), code=3, saying="does not exist")
    users.refused("append", "users", "--from", str(tmp_path), code=2, saying="is a folder")
    users.refused("append", "users", "--from", "nosuch://user:pass@x/y", code=2, saying="nosuch:// is no kind of URL")
    assert "pass" not in users("append", "users", "--from", "nosuch://user:pass@x/y").stderr


def test_progress_shows_on_a_terminal_only(users: Lithify) -> None:
    seen = users("append", "users", input=changes(3), env={"FORCE_COLOR": "1"})
    assert "appending to users" in seen.stderr
    assert users("append", "users", input=changes(3)).stderr == ""


def test_what_keys_left_behind_when_the_topic_grew_is_told(lithify: Lithify, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "t", "--config", "cleanup.policy=compact")
    lithify.ok("append", "t", input=changes(7))
    result = lithify("topic", "alter", "t", "--partitions", "3")
    assert "most keys now belong to another partition" in result.stderr
    everything = {line["key"] for line in lithify.records("scan", "t", "--partition", "0")}
    assert len(everything) == 7
    result = lithify("scan", "t")
    seen = {json.loads(line)["key"] for line in result.stdout.splitlines()}
    assert f"{7 - len(seen)} records left out" in result.stderr
    assert 0 < len(seen) < 7
    for key in everything - seen:
        lithify.refused("get", "t", key, code=3, saying="no record of this key")
    assert all(lithify.ok("get", "t", key) for key in seen)
    target = tmp_path / "t.jsonl"
    assert "left out" in lithify("export", "t", "--to", str(target)).stderr
    assert {json.loads(line)["key"] for line in target.read_text().splitlines()} == seen
    lithify.ok("append", "t", input=changes(7))
    assert {line["key"] for line in map(json.loads, lithify("scan", "t").stdout.splitlines())} == everything


def test_a_scan_of_some_keys(users: Lithify) -> None:
    keys = ["a", "ab", "abc", "abd", "b", "é", "éa", "\U0010ffff", "\U0010ffffz"]
    users.ok("append", "users", "--partition", "0", input=lines(*({"key": key, "value": "v"} for key in keys)))

    def scanned(*words: str) -> list[str]:
        return [line["key"] for line in users.records("scan", "users", *words)]

    for prefix in ("", "ab", "é", "\U0010ffff", "x"):
        assert scanned("--prefix", prefix) == [key for key in keys if key.startswith(prefix)], prefix
    assert scanned("--key-from", "ab", "--key-to", "b") == ["ab", "abc", "abd"]
    assert scanned("--key-to", "ab") == ["a"]
    users.refused("scan", "users", "--prefix", "a", "--key-from", "b", code=2, saying="give either")
    users.refused("scan", "users", "--key-from", "b", "--key-to", "a", code=2, saying="--key-from must not")
