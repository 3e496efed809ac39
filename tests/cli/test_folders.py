"""Exports to folders, and imports of them: many Parquet files, by Spark's workers or in this process (RFC 0029)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

import lithify as product
from lithify.cli.records import folder_exports, folder_imports
from lithify.cli.records.folder_imports import cut
from lithify.cli.records.parts import Where, check_travels, travelling, where_to_work
from lithify.log.partition import Partition
from lithify.log.read_task import read_task
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.port import StoreSpec
from lithify.testing.server import S3Server
from lithify.work.pays import ON_SPARK_FROM_BYTES
from tests.cli.conftest import Lithify, lines

KEPT = ("--config", "cleanup.policy=compact")


@pytest.fixture
def lithify(folder: Path) -> Lithify:
    return Lithify(str(folder))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three files, and what others leave beside them. The last file has the latest records of two keys."""
    made = tmp_path / "files"
    (made / "more").mkdir(parents=True)
    (made / "_temporary").mkdir()
    put(made / "a.parquet", [f"k{n}" for n in range(20)])
    put(made / "b.parquet", ["k1", "k2"], "later")
    put(made / "more" / "c.parquet", ["k2", "new"], "last")
    (made / "_SUCCESS").touch()
    (made / "notes.txt").write_text("not for the log", encoding="utf-8")
    (made / "_temporary" / "d.parquet").write_text("half a file", encoding="utf-8")
    return made


def put(file: Path, keys: list[str], value: str = "first") -> None:
    pq.write_table(pa.table({"key": keys, "value": [value] * len(keys)}), file)


def latest(lithify: Lithify, topic: str) -> dict[str, str]:
    return {row["key"]: row["value"] for row in lithify.records("scan", topic)}


EXPECTED = {f"k{n}": "first" for n in range(20)} | {"k1": "later", "k2": "last", "new": "last"}


def test_a_folder_is_appended_once_in_the_order_of_its_names(lithify: Lithify, files: Path) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "3", *KEPT)
    first = lithify.json("append", "t", "--from", f"{files}/")
    assert (first["appended"], first["files"]) == (24, 3)
    again = lithify.json("append", "t", "--from", f"{files}/")
    assert (again["appended"], again["source_id"]) == (0, first["source_id"])
    assert latest(lithify, "t") == EXPECTED
    assert len(lithify.records("read", "t")) == 24
    with product.open(lithify.url) as warehouse:
        parts = [warehouse.topic("t").partition(number) for number in range(3)]
        assert all(len(part.describe().l0) == 1 for part in parts)


def test_a_folder_that_has_changed_is_refused(lithify: Lithify, files: Path) -> None:
    """Its other files would be appended again."""
    lithify.ok("topic", "create", "t", *KEPT)
    lithify.ok("append", "t", "--from", f"{files}/")
    put(files / "z.parquet", ["z"])
    lithify.refused("append", "t", "--from", f"{files}/", code=2, saying="its files have changed since")
    done = lithify.json("append", "t", "--from", f"{files}/", "--source-id", "all of it")
    assert done["appended"] == 25
    assert lithify.json("append", "t", "--from", f"{files}/", "--source-id", "all of it")["appended"] == 0
    assert len(lithify.records("read", "t")) == 24 + 25


@pytest.mark.parametrize("error", [ConnectionResetError, CommitUnknown])
def test_an_import_that_ends_between_two_partitions_is_completed_by_the_next(
    lithify: Lithify, files: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Also if the topic grew in between: keys stay where the first run put them."""
    lithify.ok("topic", "create", "t", "--partitions", "3", *KEPT)
    upload, done = Partition.upload, list[int]()

    def uploaded(part: Partition, *given: Any) -> range:
        if done:
            raise error("the process ended here")
        done.append(part.number)
        return upload(part, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "upload", uploaded)
        assert lithify("append", "t", "--from", f"{files}/").exit_code != 0
    assert 0 < len(lithify.records("read", "t")) < 24
    lithify.ok("topic", "alter", "t", "--partitions", "5")
    assert 0 < lithify.json("append", "t", "--from", f"{files}/")["appended"] < 24
    assert len(lithify.records("read", "t")) == 24
    assert lithify.json("append", "t", "--from", f"{files}/")["appended"] == 0


def test_a_bad_file_is_named_and_nothing_is_appended(lithify: Lithify, files: Path) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "3", *KEPT)
    (files / "bad.parquet").write_bytes(b"PAR1, and then nothing")
    lithify.refused("append", "t", "--from", f"{files}/", code=2, saying="bad.parquet is not a Parquet file")
    pq.write_table(pa.table({"key": ["k", None], "value": ["v", "v"]}), files / "bad.parquet")
    lithify.refused("append", "t", "--from", f"{files}/", code=2, saying="bad.parquet: ")
    pq.write_table(pa.table({"id": [1], "value": ["v"]}), files / "bad.parquet")
    lithify.refused("append", "t", "--from", f"{files}/", code=2, saying="bad.parquet: ")
    assert lithify.records("read", "t") == []


def test_files_may_have_different_columns(lithify: Lithify, files: Path) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "2")
    table = pa.table({"value": [b"v"], "key": pa.array([None], pa.binary()), "timestamp_ms": [1_700_000_000_000]})
    pq.write_table(table, files / "z.parquet")
    assert lithify.json("append", "t", "--from", f"{files}/")["appended"] == 25
    assert {row["timestamp_ms"] for row in lithify.records("read", "t") if row["key"] is None} == {1_700_000_000_000}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--partition", "0"), "a folder goes in whole"),
        (("--skip", "1"), "a folder goes in whole"),
        (("--new-source",), "a folder goes in whole"),
        (("--engine", "local", "--master", "local[2]"), "--master is Spark's"),
    ],
)
def test_what_a_folder_does_not_take(lithify: Lithify, files: Path, flags: tuple[str, ...], said: str) -> None:
    lithify.ok("topic", "create", "t")
    lithify.refused("append", "t", "--from", f"{files}/", *flags, code=2, saying=said)


def test_a_folder_without_files_and_one_that_is_not_there(lithify: Lithify, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "t")
    (tmp_path / "none").mkdir()
    for name in ("none", "nowhere"):
        lithify.refused("append", "t", "--from", f"{tmp_path}/{name}/", code=2, saying="holds no Parquet files")


def test_what_was_exported_is_what_the_topic_has(lithify: Lithify, files: Path, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "3", *KEPT)
    lithify.ok("append", "t", "--from", f"{files}/")
    lithify.ok("checkpoint", "create", "t", "then")
    lithify.ok("append", "t", input=b'{"key": "k1", "value": null}\n')
    for flags, rows in (((), 20), (("--log",), 25), (("--checkpoint", "then"), 21), (("--partition", "0"), None)):
        out = tmp_path / "out" / "_".join(flags).strip("-")
        exported = lithify.json("export", "t", "--to", f"{out}/", *flags)["exported"]
        assert (out / "_SUCCESS").read_bytes() == b""
        table = pa.concat_tables(pq.read_table(file) for file in sorted(out.glob("part-*.parquet")))
        assert exported == table.num_rows == (table.num_rows if rows is None else rows)
        assert table.schema.names == ["key", "value", "offset", "timestamp_ms", "headers", "partition"]
        if not flags:
            found = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
            assert found == {key.encode(): value.encode() for key, value in latest(lithify, "t").items()}


@pytest.mark.parametrize("fails", [False, True])
def test_an_export_lets_go_of_what_it_pinned(
    lithify: Lithify, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "2", *KEPT)
    lithify.ok("append", "t", "--from", f"{files}/")
    pins: list[int] = []

    def pinned() -> int:
        with product.open(lithify.url) as warehouse:
            topic = warehouse.topic("t")
            return sum(len(topic.partition(number).checkpoints("scan")) for number in range(2))

    def read(*words: Any) -> Any:
        pins.append(pinned())
        if fails:
            raise Unavailable("the store went away")
        return read_task(*words)

    monkeypatch.setattr(folder_exports, "read_task", read)
    exported = lithify("export", "t", "--to", f"{tmp_path}/out/", "--engine", "local")
    assert exported.exit_code == (7 if fails else 0)
    assert set(pins) == {2}
    assert pinned() == 0


def test_a_folder_with_files_in_it_is_not_written_to(lithify: Lithify, files: Path, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "t", *KEPT)
    lithify.refused("export", "t", "--to", f"{files}/", code=2, saying="has files in it")
    lithify.ok("export", "t", "--to", f"{tmp_path}/empty/")
    assert [file.name for file in (tmp_path / "empty").iterdir()] == ["_SUCCESS"]


@pytest.mark.slow
def test_folders_in_s3(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as server:
        bucket = server.create_bucket()
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        lithify = Lithify(f"s3://{bucket}/warehouse")
        lithify.ok("topic", "create", "t", "--partitions", "2", *KEPT)
        assert lithify.json("append", "t", "--from", f"{files}/")["appended"] == 24
        out = f"s3://{bucket}/out/"
        with pytest.raises(AssertionError, match="holds no Parquet"):
            lithify.ok("append", "t", "--from", out)
        lithify.ok("topic", "create", "u", *KEPT)
        assert lithify.json("export", "t", "--to", out)["exported"] == 21
        lithify.refused("export", "t", "--to", out, code=2, saying="has files in it")
        assert lithify.json("append", "u", "--from", out)["appended"] == 21
        assert lithify.json("append", "u", "--from", out)["appended"] == 0
        assert latest(lithify, "u") == EXPECTED


@pytest.mark.spark
def test_both_on_sparks_workers(
    spark_session: Any, lithify: Lithify, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_imports, "PART_BYTES", 1)  # a task for each file
    on_spark = ("--engine", "spark", "--master", "local[2]")
    lithify.ok("topic", "create", "t", "--partitions", "3", *KEPT)
    assert lithify.json("append", "t", "--from", f"{files}/", *on_spark)["appended"] == 24
    assert lithify.json("append", "t", "--from", f"{files}/", "--engine", "local")["appended"] == 0
    assert latest(lithify, "t") == EXPECTED
    assert lithify.json("export", "t", "--to", f"{tmp_path}/spark/", *on_spark)["exported"] == 21
    lithify.ok("export", "t", "--to", f"{tmp_path}/here/", "--engine", "local")
    made = {name: sorted((tmp_path / name).glob("part-*")) for name in ("spark", "here")}
    assert [file.name for file in made["spark"]] == [file.name for file in made["here"]]
    for one, other in zip(*made.values(), strict=True):
        assert pq.read_table(one) == pq.read_table(other)
    put(files / "a.parquet", ["x" * 40_000_000])
    said = "a.parquet: "
    lithify.refused("append", "t", "--from", f"{files}/", "--source-id", "x", *on_spark, code=2, saying=said)


def test_spark_does_it_from_a_gibibyte_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.work.pays.find_java", lambda: "a Java")
    nobody_chose = Where(None)
    assert where_to_work(nobody_chose, ON_SPARK_FROM_BYTES - 1).engine == "local"
    assert where_to_work(nobody_chose, ON_SPARK_FROM_BYTES).engine == "spark"
    assert where_to_work(Where("local"), ON_SPARK_FROM_BYTES).engine == "local"
    assert where_to_work(Where("spark"), 1).engine == "spark"
    assert where_to_work(Where(None, "spark://head:7077"), 1).engine == "spark"
    monkeypatch.setattr("lithify.work.pays.find_java", lambda: None)
    assert where_to_work(nobody_chose, ON_SPARK_FROM_BYTES).engine == "local"


def test_nothing_secret_travels() -> None:
    with pytest.raises(InvalidRequest, match="may be secret"):
        check_travels(StoreSpec(url="abfs://c@a", withheld=("account_key",)))
    with pytest.raises(InvalidRequest, match="key, secret may be secret"):
        travelling("s3://bucket/out/", {"key": "a", "secret": "b"})
    with pytest.raises(InvalidRequest, match="--engine local"):
        check_travels(StoreSpec(url="memory://x"))


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What Spark's workers would be given. Nothing is done there."""
    seen: list[bytes] = []

    def on_spark(part: Any, _count: int, _where: Where) -> Any:
        seen.append(cloudpickle.dumps(part))
        raise Unavailable("nobody is there")

    monkeypatch.setattr("lithify.cli.records.parts._on_spark", on_spark)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["export", "append"])
def test_workers_are_told_where_requests_go_and_nothing_secret(
    lithify_s3: S3Server, monkeypatch: pytest.MonkeyPatch, carried: list[bytes], verb: str
) -> None:
    """Whatever says it here: an option, or a variable that the workers do not have. Else they would ask Amazon."""
    url, secret = f"s3://{lithify_s3.create_bucket()}", "hush-" * 5
    options = {"key": "k", "secret": secret, "endpoint_url": lithify_s3.endpoint_url}
    flags = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    for name, value in (lithify_s3.env | {"AWS_SECRET_ACCESS_KEY": secret}).items():
        monkeypatch.setenv(name, value)
    by_variables = Lithify(f"{url}/w")
    by_variables.ok("topic", "create", "t")
    by_variables.ok("append", "t", input=lines({"key": "a", "value": "1"}))
    by_variables.ok("export", "t", "--to", f"{url}/in/", "--engine", "local")
    words = ("export", "t", "--to", f"{url}/out/") if verb == "export" else ("append", "t", "--from", f"{url}/in/")
    on_spark = ("--engine", "spark", "--master", "spark://head:7077")
    by_variables.refused(*words, *on_spark, code=7, saying="nobody is there")
    (sent,) = carried
    assert sent.count(b"endpoint_url") == 2  # of the warehouse, and of the folder
    assert lithify_s3.endpoint_url.encode() in sent
    assert secret.encode() not in sent
    Lithify(f"{url}/w", *flags).refused(*words, *on_spark, code=2, saying="key, secret may be secret")
    assert carried == [sent]


def test_files_are_cut_into_even_parts() -> None:
    size = folder_imports.PART_BYTES
    assert cut([1, 1, 1]) == [range(3)]
    assert cut([size, 1, size * 3, 2, 2]) == [range(1), range(1, 2), range(2, 3), range(3, 5)]
