"""The demo and the S3 to play with, run for real."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pyarrow as pa
import pytest
from click.testing import CliRunner

import lithify
from lithify.cli.demo.changes import Latest, change_stream
from lithify.cli.demo.command import demo
from lithify.cli.demo.compactor import CompactorProcess
from lithify.cli.demo.picture import measure, verify, verify_gets
from lithify.cli.demo.pipeline import OnSpark
from lithify.cli.demo.s3 import OwnS3, kind_of
from lithify.cli.dev import dev
from lithify.store.errors import Corrupt, InvalidRequest, Unavailable
from lithify.work import java
from tests.processes import running

README = Path(__file__).resolve().parents[2] / "README.md"
RECORDS, KEYS = 20_000, 2_000


def run_demo(*flags: str) -> str:
    command = [
        sys.executable,
        "-m",
        "lithify.cli.main",
        "demo",
        "--records",
        str(RECORDS),
        "--keys",
        str(KEYS),
        *flags,
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LITHIFY_", "AWS_"))}
    done = subprocess.run(command, env=env, capture_output=True, check=False, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return done.stdout


def assert_told(story: str) -> None:
    """It killed a compactor in the middle of a job, and the other one redid only what was not recorded."""
    recorded, ranges = map(int, re.findall(r"(\d+) of (\d+) key ranges are recorded", story)[0])
    attempts = [int(done) for done in re.findall(r"attempt \d+, epoch \d+: (\d+) key ranges? done", story)]
    assert ranges >= 16
    assert 0 < recorded < ranges
    assert attempts == [recorded, ranges - recorded]
    assert "All verified" in story
    shown = dict(re.findall(r"│ (records stored|bytes stored) +│ +([\d.,]+)", story))
    assert shown["records stored"] == f"{RECORDS:,}"


@pytest.mark.slow
def test_the_demo_in_a_folder_leaves_nothing_there(tmp_path: Path) -> None:
    assert_told(run_demo("--engine", "local", "--warehouse", str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_the_demo_keeps_can_be_looked_at(tmp_path: Path) -> None:
    story = run_demo("--engine", "local", "--warehouse", str(tmp_path), "--keep")
    (kept,) = tmp_path.iterdir()
    assert f"export LITHIFY_WAREHOUSE={kept}" in story
    latest = Latest()
    start = 0
    for table in change_stream(RECORDS, KEYS, 1, seed=7):
        latest.apply(table, range(start, start + table.num_rows))
        start += table.num_rows
    with lithify.open(str(kept)) as warehouse:
        verify(warehouse.topic("users").scan().read_all(), latest, "what was kept")


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_on_spark_in_an_s3_of_its_own() -> None:
    story = run_demo()
    assert_told(story)
    assert re.search(r"requests of both compactors: [1-9]", story)
    assert f"Append {RECORDS:,} changes to topic 'users' in 20 tasks of Spark's df.write" in story
    assert "read with spark.read: every key, offset and value" in story
    told = {shape(line) for line in story.splitlines()}
    assert {shape(line) for line in quoted()} <= told


def quoted() -> list[str]:
    """What README.md shows of the demo."""
    (block,) = re.findall(r"^```\n(3\. Start a compactor.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)
    return block.splitlines()


def shape(line: str) -> str:
    """A line without its figures, which no two runs share; the end of the last one depends on the clock."""
    line = re.sub(r"[0-9a-f]{8,}|[\d.,]+", "#", line).replace("ranges", "range")
    return re.sub(r"; committed after .*", "", line)


@pytest.mark.slow
@pytest.mark.spark
def test_secrets_among_storage_options_reach_spark_in_another_way(tmp_path: Path) -> None:
    """The data source refuses them, since Spark logs options."""
    table = change_stream(1_000, 50, 1, seed=1)[0]
    secret = {"secret": "told-to-no-process-as-an-argument"}  # the server takes any
    with (
        OwnS3() as own,
        lithify.open(f"{own.url}/warehouse", storage_options=(options := own.options | secret)) as warehouse,
    ):
        part = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"}).partition(0)
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        java.use_java(env)
        assert {"key", "secret"} <= set(options)
        with OnSpark(f"{own.url}/warehouse", part, env, tmp_path, options) as spark:
            assert spark.append([table.slice(0, 600), table.slice(600)]) == range(1_000)
            found, expected = spark.latest(), part.scan().read_all()
            assert [found[name].to_pylist() for name in ("key", "value", "offset")] == [
                expected[name].to_pylist() for name in ("key", "value", "offset")
            ]
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    assert options["secret"].encode() not in process.read_bytes().split(b"\0")


@pytest.mark.slow
def test_a_spark_that_fails_ends_the_story_with_its_last_words(tmp_path: Path) -> None:
    with lithify.open(str(tmp_path / "warehouse")) as warehouse:
        part = warehouse.create_topic("users").partition(0)
        env = dict(os.environ) | {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
        with (
            OnSpark("nonsense://", part, env, tmp_path, {}) as spark,
            pytest.raises(Unavailable, match="its last words"),
        ):
            spark.latest()


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_java", lambda environ: None)
    done = CliRunner().invoke(demo, [])
    assert isinstance(done.exception, InvalidRequest)
    assert "pip install 'lithify[java]'" in str(done.exception)


@pytest.mark.parametrize("command", [demo, dev])
def test_without_moto_they_say_what_to_do(command: click.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["lithify.cli.demo.s3" if command is demo else "lithify.cli.dev"]
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.delenv("LITHIFY_WAREHOUSE", raising=False)
    done = CliRunner().invoke(command, ["--engine", "local"] if command is demo else [])
    assert isinstance(done.exception, InvalidRequest)
    assert "pip install 'lithify[testing]'" in str(done.exception)


def test_storage_options_that_a_compactor_would_not_get_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITHIFY_STORAGE_OPTION", raising=False)
    flags = ["--engine", "local", "--warehouse", "s3://bucket", "--storage-option", "anon=true"]
    done = CliRunner().invoke(demo, flags)
    assert isinstance(done.exception, InvalidRequest)
    assert "LITHIFY_STORAGE_OPTION" in str(done.exception)


@pytest.mark.slow
def test_a_compactor_that_fails_ends_the_story_with_its_last_words(tmp_path: Path) -> None:
    with lithify.open(str(tmp_path / "warehouse")) as warehouse:
        warehouse.create_topic("users")
        admin = lithify.Admin(warehouse)
        failing = CompactorProcess("nonsense://", "local", os.environ, tmp_path)
        with failing, pytest.raises(Unavailable, match="nonsense"):
            failing.watch(admin, "users", lambda job: False)


def test_the_change_stream_is_the_same_for_the_same_seed() -> None:
    first, again, other = (change_stream(1_000, 100, 4, seed) for seed in (1, 1, 2))
    assert [table.num_rows for table in first] == [250] * 4
    assert first == again
    assert first != other
    whole = pa.concat_tables(first)
    assert len(set(whole["key"].to_pylist())) <= 100
    assert 0 < whole["value"].null_count < 500


def appended(warehouse: lithify.Warehouse) -> tuple[lithify.Partition, Latest]:
    partition, latest = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"}).partition(0), Latest()
    for table in change_stream(500, 50, 3, seed=1):
        latest.apply(table, partition.append(table))
    return partition, latest


def test_the_picture_is_measured(tmp_path: Path) -> None:
    with lithify.open(str(tmp_path)) as warehouse:
        partition, latest = appended(warehouse)
        picture = measure(warehouse, partition, latest)
    assert picture.records == 500
    assert picture.live == len(latest.rows)
    assert picture.segments == 3
    sizes = [file.stat().st_size for file in tmp_path.rglob("*.*") if file.is_file()]
    assert picture.objects == len(sizes)
    assert picture.bytes == sum(sizes)
    assert picture.scan.requests > 3
    assert picture.scan.usd > 0


def test_every_difference_from_the_dict_is_found(tmp_path: Path) -> None:
    with lithify.open(str(tmp_path)) as warehouse:
        partition, latest = appended(warehouse)
        found = partition.scan().read_all()
        verify(found, latest, "the scan")
        gone = latest.copy()
        key = gone.rows.popitem()[0]
        with pytest.raises(Corrupt, match="1 keys"):
            verify(found, gone, "the scan")
        offset, value = latest.rows[key]
        for wrong in ((offset + 1, value), (offset, b"other")):
            other = latest.copy()
            other.rows[key] = wrong
            with pytest.raises(Corrupt, match="1 keys"):
                verify(found, other, "the scan")
        with pytest.raises(Corrupt, match="twice or out of order"):
            verify(pa.concat_tables([found, found.slice(0, 1)]), latest, "the scan")
        gone.gone = {key}
        with pytest.raises(Corrupt, match="1 deleted keys"):
            verify_gets(partition, gone)


@pytest.mark.parametrize(
    ("method", "query", "kind"),
    [
        ("GET", "", "gets"),
        ("GET", "list-type=2&prefix=a", "lists"),
        ("HEAD", "", "heads"),
        ("PUT", "", "puts"),
        ("PUT", "uploadId=1&partNumber=2", "output_requests"),
        ("POST", "uploads", "output_requests"),
        ("POST", "uploadId=1", "output_requests"),
        ("POST", "delete", "deletes"),
        ("DELETE", "", "deletes"),
    ],
)
def test_requests_are_counted_by_their_kind(method: str, query: str, kind: str) -> None:
    assert kind_of(method, query) == kind


@pytest.mark.slow
def test_its_own_s3_counts_what_any_process_asks() -> None:
    with OwnS3() as own:
        before = own.counts()
        with lithify.open(f"{own.url}/warehouse", storage_options=own.options) as warehouse:
            warehouse.store.put("a", b"1")
            assert warehouse.store.get("a") is not None
            assert [found.key for found in warehouse.store.list("").objects] == ["a"]
            warehouse.store.delete(["a"])
        counted = own.counts() - before
    assert before.total == 0
    assert (counted.puts, counted.gets, counted.lists, counted.deletes) == (1, 1, 1, 1)


@pytest.mark.slow
def test_dev_runs_until_it_is_told_to_leave() -> None:
    command = [sys.executable, "-m", "lithify.cli.main", "dev", "--port", "0", "--json"]
    with running(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            exports = msgspec.json.decode(server.stdout.readline(), type=dict[str, str])
            options = {
                "key": exports["AWS_ACCESS_KEY_ID"],
                "secret": exports["AWS_SECRET_ACCESS_KEY"],
                "endpoint_url": exports["AWS_ENDPOINT_URL_S3"],
            }
            with lithify.open(exports["LITHIFY_WAREHOUSE"], storage_options=options) as warehouse:
                assert warehouse.create_topic("users").append([lithify.Record(b"k", b"v")]) == {0: range(1)}
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


@pytest.mark.slow
def test_dev_says_what_to_do_where_the_port_is_taken() -> None:
    with OwnS3() as own:
        port = own.env["AWS_ENDPOINT_URL_S3"].rpartition(":")[2]
        done = CliRunner().invoke(dev, ["--port", port])
    assert isinstance(done.exception, InvalidRequest)
    assert "--port" in str(done.exception)
