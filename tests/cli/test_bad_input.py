"""What goes wrong outside is told in one line with the right code, and loses nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lithify.testing.server import S3Server
from tests.cli.conftest import Lithify, changes

Damage = Callable[[Path], None]


def _truncate(folder: Path) -> None:
    head = max(folder.rglob("*.manifest"))
    head.write_bytes(head.read_bytes()[:50])


def _newer_manifest(folder: Path) -> None:
    head = max(folder.rglob("*.manifest"))
    head.write_text(json.dumps(json.loads(head.read_bytes()) | {"format": 99}))


def _newer_topic(folder: Path) -> None:
    file = max(folder.rglob("*.topic"))
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format": 99}))


def _damage_a_segment(folder: Path) -> None:
    segment = min(folder.rglob("*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-3] + b"???")


def _lose_a_segment(folder: Path) -> None:
    min(folder.rglob("*.parquet")).unlink()


def _nothing(folder: Path) -> None:
    """The request alone is bad."""


# words, what happened to the store, exit code, a part of the line
TABLE: dict[str, tuple[tuple[str, ...], Damage, int, str]] = {
    "unknown topic": (("read", "nobody"), _nothing, 3, "topic nobody does not exist"),
    "unknown topic to describe": (("topic", "describe", "nobody"), _nothing, 3, "does not exist"),
    "bad name": (("topic", "create", "a b"), _nothing, 2, "topic name 'a b' is not allowed"),
    "bad name to verify": (("verify", "a b", "--engine", "local"), _nothing, 2, "topic name 'a b' is not allowed"),
    "topic exists": (("topic", "create", "users"), _nothing, 4, "already exists"),
    "bad configuration": (("topic", "create", "x", "--config", "cleanup.policy=maybe"), _nothing, 2, "cleanup.policy"),
    "unknown configuration": (("topic", "create", "x", "--config", "retention.mss=1"), _nothing, 2, "retention.ms"),
    "no value": (("topic", "create", "x", "--config", "retention.ms"), _nothing, 2, "--config must be NAME=VALUE"),
    "fewer partitions": (("topic", "alter", "users", "--partitions", "1"), _nothing, 2, "cannot shrink"),
    "nothing to alter": (("topic", "alter", "users"), _nothing, 2, "nothing to change"),
    "unknown command": (("nonsense",), _nothing, 2, "No such command 'nonsense'. Try 'lithify --help'"),
    "mistyped command": (("topc", "list"), _nothing, 2, "Did you mean 'lithify topic'? Try 'lithify --help'"),
    "mistyped part": (("topic", "describ", "users"), _nothing, 2, "Did you mean 'lithify topic describe'? Try"),
    "unknown flag": (("topic", "list", "--nonsense"), _nothing, 2, "--nonsense"),
    "missing argument": (("topic", "create"), _nothing, 2, "Missing argument 'NAME'"),
    "unknown store": (("--warehouse", "nosuch://x", "topic", "list"), _nothing, 2, "not a known kind of store"),
    "no bucket": (("--warehouse", "s3://", "topic", "list"), _nothing, 2, "s3://bucket/prefix"),
    "relative file": (("--warehouse", "file://x", "topic", "list"), _nothing, 2, "absolute path"),
    "option for files": (("--storage-option", "key=hidden", "topic", "list"), _nothing, 2, "takes no storage options"),
    "truncated manifest": (("read", "users"), _truncate, 9, ".manifest is damaged"),
    "truncated manifest, appending": (("append", "users"), _truncate, 9, ".manifest is damaged"),
    "newer manifest": (("scan", "users"), _newer_manifest, 2, "upgrade lithify"),
    "newer topic": (("append", "users"), _newer_topic, 2, "upgrade lithify"),
    "corrupt segment": (("scan", "users"), _damage_a_segment, 9, "lithify verify"),
    "lost segment": (("read", "users"), _lose_a_segment, 9, "restore the object"),
}


@pytest.mark.parametrize("case", TABLE)
def test_one_line_one_code_and_nothing_lost(on_files: Lithify, folder: Path, case: str) -> None:
    words, damage, code, saying = TABLE[case]
    on_files.ok("topic", "create", "users", "--partitions", "2")
    on_files.ok("append", "users", "--partition", "0", input=changes(9))
    stored = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before = on_files.ok("read", "users")
    damage(folder)
    line = on_files.refused(*words, code=code, saying=saying, input=changes(3))
    assert "Traceback" not in line
    assert "hidden" not in line
    assert {file for file in folder.rglob("*") if file.is_file()} <= stored.keys()  # segments of refused appends apart
    for file, body in stored.items():
        file.write_bytes(body)
    assert on_files.ok("read", "users") == before


@pytest.mark.parametrize("words", [("topic", "list"), ("doctor",), ("verify", "--engine", "local")])
def test_without_a_warehouse(words: tuple[str, ...]) -> None:
    Lithify("").refused(*words, code=2, saying="LITHIFY_WAREHOUSE")


def test_errors_as_json(lithify: Lithify) -> None:
    result = lithify("read", "nobody", "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    error = json.loads(result.stderr)["error"]
    assert (error["kind"], error["exit_code"]) == ("NotFound", 3)
    usage = json.loads(lithify("--json", "topic", "create").stderr)["error"]
    assert (usage["kind"], usage["exit_code"]) == ("Usage", 2)


def test_one_bad_partition_stops_no_other(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact")
    for number in ("0", "1"):
        on_files.ok("append", "users", "--partition", number, input=changes(9))
    _truncate(folder)
    result = on_files("compactor", "run", "--once", "--engine", "local", "--json")
    assert result.exit_code == 9
    outcomes = {part["partition"]: part["outcome"] for part in json.loads(result.stdout)["partitions"]}
    assert outcomes == {0: "worked", 1: "failed"}
    assert on_files("gc", "run", "--once").exit_code == 9
    told = on_files("verify", "--engine", "local")
    assert told.exit_code == 9
    assert ".manifest is damaged" in told.stdout
    assert on_files("doctor", "--rounds", "1").exit_code == 9


def test_a_fault_of_our_own_is_one_line_without_its_words(lithify: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "contents of a record"

    def fail(_: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr("lithify.admin.topics.topics_found", fail)
    line = lithify.refused("topic", "list", code=70, saying="unexpected RuntimeError at lithify.admin.topics:")
    assert words not in line
    told = lithify("--log-level", "debug", "topic", "list")
    assert told.exit_code == 70
    assert "in list_" in told.stderr
    assert words not in told.stderr


def test_an_interruption(lithify: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lithify.admin.topics.topics_found", interrupt)
    result = lithify("topic", "list")
    assert result.exit_code == 130
    assert result.stderr.strip() == "lithify: interrupted"


@pytest.fixture
def no_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def test_s3_without_credentials(lithify_s3: S3Server, no_identity: None) -> None:
    bucket = lithify_s3.create_bucket()
    place = ("--storage-option", f"client_kwargs.endpoint_url={lithify_s3.endpoint_url}")
    Lithify(f"s3://{bucket}/w", *place).refused("topic", "list", code=7, saying="credentials")


def test_s3_with_a_wrong_bucket(lithify_s3: S3Server) -> None:
    env = {"LITHIFY_STORAGE_OPTION": f"key=test secret=hidden client_kwargs.endpoint_url={lithify_s3.endpoint_url}"}
    result = Lithify("s3://no-such-bucket-here/w")("topic", "create", "users", env=env)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "NoSuchBucket" in line
    assert "hidden" not in line


@pytest.mark.slow
def test_s3_end_to_end_with_records_beside_the_warehouse(lithify_s3: S3Server) -> None:
    bucket = lithify_s3.create_bucket()
    s3 = Lithify(
        f"s3://{bucket}/w",
        *("--storage-option", "key=test", "--storage-option", "secret=test"),
        *("--storage-option", f"client_kwargs.endpoint_url={lithify_s3.endpoint_url}"),
        *("--storage-option", "client_kwargs.region_name=us-east-1"),
    )
    s3.ok("topic", "create", "users")
    s3.ok("append", "users", input=changes(20))
    for name in ("out.jsonl", "out.parquet", "out.csv"):
        s3.ok("export", "users", "--to", f"s3://{bucket}/exports/{name}")
        s3.ok("append", "users", "--from", f"s3://{bucket}/exports/{name}")
    assert len(s3.records("read", "users")) == 160
    s3.refused("append", "users", "--from", f"s3://{bucket}/exports/none", code=3, saying="does not exist")
