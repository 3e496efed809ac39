"""What Spark pickles for executors holds no secret and no record, and leads them to the warehouse's host alone,
whatever their own environment says (RFC 0022)."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark_lithify.columns import spark_schema
from pyspark_lithify.options import COLUMNS, read_options, stream_options, write_options
from pyspark_lithify.reading import BatchReader
from pyspark_lithify.streaming import StreamReader
from pyspark_lithify.writing import BatchWriter

import lithify
from lithify.log.partition import Partition
from lithify.testing.server import S3Server

SECRET, CONTENT = "hush-hush-hush", b"what nobody else may read"


class Remote:
    """A warehouse in a bucket, its secret in the environment, and the options of a user who has nothing else."""

    def __init__(self, server: S3Server, patch: pytest.MonkeyPatch) -> None:
        self.url = server.url(f"{server.create_bucket()}/warehouse")
        self.host = server.endpoint_url.removeprefix("http://")
        for name, value in server.env.items():
            patch.setenv(name, value)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        self.topic = lithify.open(self.url).create_topic("t", config={"cleanup.policy": "compact"})
        self.topic.append([lithify.Record(b"k%d" % n, CONTENT) for n in range(5)])

    def given(self, **more: str) -> dict[str, str]:
        return {"topic": "t", "path": self.url} | more


def as_on_an_executor(patch: pytest.MonkeyPatch) -> None:
    """Keys alone are there, and what names an endpoint names another."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        patch.setenv(name, "http://127.0.0.2:9")
    patch.setenv("AWS_REGION", "eu-north-1")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def connections() -> set[str]:
    """Of this process, from now on."""
    found: set[str] = set()
    _watched.append(found)
    return found


_watched: list[set[str]] = []


def _watch(event: str, arguments: Any) -> None:
    if event == "socket.connect" and _watched and isinstance(arguments[1], tuple):
        _watched[-1].add("{}:{}".format(*arguments[1][:2]))


sys.addaudithook(_watch)


def travelled(thing: Any) -> Any:
    body = pickle.dumps(thing)
    assert SECRET.encode() not in body
    assert CONTENT not in body
    return pickle.loads(body)


@pytest.mark.slow
def test_reads_streams_and_writes(monkeypatch: pytest.MonkeyPatch, connections: set[str]) -> None:
    with S3Server() as server:
        remote = Remote(server, monkeypatch)
        reader = BatchReader(read_options(remote.given()), COLUMNS)
        stream = StreamReader(stream_options(remote.given()), COLUMNS)
        writer = BatchWriter(write_options(remote.given()), spark_schema(("key", "value")))
        tasks: list[tuple[Any, Any]] = [(reader, part) for part in reader.partitions()]
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        fresh = StreamReader(stream_options(remote.given()), COLUMNS)  # Spark sends one that has read nothing
        tasks += [(fresh, part) for part in stream.partitions(stream.initialOffset(), end)]
        with monkeypatch.context() as executor:
            as_on_an_executor(executor)
            for made, part in tasks:
                found = [travelled(made).read(travelled(part)) for _ in range(2)]
                assert [sum(batch.num_rows for batch in batches) for batches in found] == [5, 5]
            rows = pa.RecordBatch.from_pydict({"key": [b"new"], "value": [CONTENT]})
            message = travelled(travelled(writer).write(iter([rows])))
        writer.commit([message])
        assert remote.topic.partition(0).get(b"new") is not None
        assert connections == {remote.host}


def test_a_commit_that_raises_after_it_was_published_deletes_nothing(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark calls `abort` then, with everything that was published."""
    topic = warehouse.create_topic("t", partitions=2)
    writer = BatchWriter(write_options({"topic": "t", "path": url}), spark_schema(("key", "value")))
    rows = pa.RecordBatch.from_pydict({"key": [b"%d" % n for n in range(9)], "value": [b"v"] * 9})
    messages: list[Any] = [writer.write(iter([rows])), None]
    upload = Partition.upload

    def published(part: Partition, *given: Any) -> range:
        upload(part, *given)
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "upload", published)
        with pytest.raises(ConnectionResetError):
            writer.commit(messages)
    stored = sorted(Path(url.removeprefix("file://")).rglob("segments/*"))
    writer.abort(messages)
    assert sorted(Path(url.removeprefix("file://")).rglob("segments/*")) == stored
    for _ in range(2):
        writer.commit(messages)
    kept = [row.key for number in (0, 1) for row in topic.partition(number).read()]
    assert sorted(key or b"" for key in kept) == [b"%d" % n for n in range(9)]
