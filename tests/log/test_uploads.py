"""Uploads as their users hold them: a driver, workers in other processes, and one commit (RFC 0019)."""

import base64
import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lithify
from lithify.log.partition import Partition
from lithify.store.errors import AlreadyExists, InvalidRequest, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.opening import open_store
from lithify.store.port import Store
from tests.clock import HandClock

DAY_MS = 86_400_000
ID = "00112233445566aa"


def records(*keys: str) -> list[lithify.Record]:
    return [lithify.Record(key.encode(), f"value of {key}".encode(), timestamp_ms=1) for key in keys]


def opened(tmp_path: Path, policy: str = "compact") -> tuple[Partition, Store]:
    url = tmp_path.as_uri()
    topic = lithify.open(url).create_topic("t", config={"cleanup.policy": policy, "retention.ms": "-1"})
    return topic.partition(0), open_store(url)


def read(partition: Partition) -> list[tuple[int, bytes | None]]:
    return [(record.offset or 0, record.key) for record in partition.read()]


@pytest.mark.slow
def test_workers_in_other_processes_write_what_one_commit_appends(tmp_path: Path) -> None:
    part, _ = opened(tmp_path)
    part.append(records("first"))
    task = part.begin_upload()
    program = """
import base64, pickle, sys
import lithify
from lithify.store.opening import open_store
task = pickle.loads(base64.b64decode(sys.argv[2]))
rows = [lithify.Record(key.encode(), b"v") for key in sys.argv[3:]]
written = lithify.write_segment(open_store(sys.argv[1]), task, rows)
print(base64.b64encode(pickle.dumps(written)).decode())
"""
    given = base64.b64encode(pickle.dumps(task)).decode()
    refs: list[Any] = []
    for keys in (("b", "a", "b"), (), ("c",)):
        command = [sys.executable, "-c", program, tmp_path.as_uri(), given, *keys]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        refs.append(pickle.loads(base64.b64decode(done.stdout)))
    assert refs[1] is None, "there were no records"
    assert part.describe().uploads == 1
    assert read(part) == [(0, b"first")]
    assert part.upload(task, refs) == range(1, 5)
    assert part.upload(task, refs) == range(1, 5)
    assert read(part) == [(0, b"first"), (1, b"b"), (2, b"a"), (3, b"b"), (4, b"c")]
    assert [segment.order for segment in part.describe().l0] == ["key"] * 3
    assert (part.describe().uploads, part.transactions()) == (1, ())


def test_tables_batches_and_readers_are_written_as_an_append_takes_them(tmp_path: Path) -> None:
    part, store = opened(tmp_path, "delete")
    task = part.begin_upload(ttl=1_000)
    table = pa.table({"key": [b"k", None], "value": [b"v", None], "timestamp_ms": [5, 6]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1))
    refs = [lithify.write_segment(store, task, each) for each in (table, table.to_batches()[0], reader)]
    assert part.upload(task, refs) == range(6)
    assert [(r.key, r.value, r.timestamp_ms) for r in part.read()] == [(b"k", b"v", 5), (None, None, 6)] * 3
    with pytest.raises(InvalidRequest, match="'valeu' is not one of"):
        lithify.write_segment(store, task, pa.table({"key": [b"k"], "valeu": [b"v"]}))


def test_what_an_append_refuses_a_worker_refuses(tmp_path: Path) -> None:
    part, store = opened(tmp_path)
    task = part.begin_upload()
    with pytest.raises(InvalidRequest, match="has no key"):
        lithify.write_segment(store, task, [lithify.Record(None, b"secret")])


def test_without_segments_nothing_is_committed(tmp_path: Path) -> None:
    part, _ = opened(tmp_path)
    task = part.begin_upload()
    before = part.describe().manifest_id
    assert part.upload(task, [None, None], txn=("query", 1)) == range(0)
    assert (part.describe().manifest_id, part.transactions()) == (before, ())


def test_a_task_holds_what_a_worker_needs_and_no_more(tmp_path: Path) -> None:
    clock = HandClock(1_760_000_000_000)
    part = lithify.open(tmp_path.as_uri(), clock=clock).create_topic("t").partition(0)
    task = part.begin_upload()
    assert task.expires_at_ms == clock.now_ms + DAY_MS
    assert pickle.loads(pickle.dumps(task)) == task
    assert set(task.__struct_fields__) == {
        *("topic", "topic_id", "partition", "upload_id", "begun_at", "expires_at_ms", "config")
    }
    assert part.begin_upload(ttl=timedelta(days=7)).expires_at_ms == clock.now_ms + 7 * DAY_MS


def test_who_chooses_the_id_finds_the_upload_again_while_it_stands(tmp_path: Path) -> None:
    clock = HandClock(1_760_000_000_000)
    warehouse = lithify.open(tmp_path.as_uri(), clock=clock)
    part, store = warehouse.create_topic("t").partition(0), open_store(tmp_path.as_uri())
    task = part.begin_upload(upload_id=ID)
    again = lithify.open(tmp_path.as_uri(), clock=clock).topic("t").partition(0).begin_upload(upload_id=ID)
    assert again == task
    refs = [lithify.write_segment(store, task, records("a"))]
    assert part.upload(again, refs) == range(1)
    clock.now_ms += DAY_MS
    lithify.Collector(warehouse).run_once()
    another = part.begin_upload(upload_id=ID)
    assert (another.upload_id, another.begun_at > task.begun_at) == (ID, True)
    with pytest.raises(Unavailable, match="was removed: it had expired"):
        part.upload(task, refs)
    with pytest.raises(InvalidRequest, match="was not uploaded under upload"):
        part.upload(another, refs)


def test_versions_make_a_write_that_runs_again_harmless(tmp_path: Path) -> None:
    part, store = opened(tmp_path)
    for run in range(2):
        task = part.begin_upload()
        refs = [lithify.write_segment(store, task, records("a", "b"))]
        assert part.upload(task, refs, txn=("query", 3)) == range(2), run
    task = part.begin_upload()
    with pytest.raises(AlreadyExists, match="before the latest"):
        part.upload(task, [lithify.write_segment(store, task, records("a"))], txn=("query", 2))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"upload_id": "batch 7"}, "16 hexadecimal digits"),
        ({"upload_id": 7}, "16 hexadecimal digits"),
        ({"ttl": timedelta(days=8)}, "at most 7.0 d"),
        ({"ttl": 0}, "positive number of milliseconds"),
        ({"ttl": None}, "at most 7.0 d"),
    ],
)
def test_what_cannot_be_begun_is_refused(given: dict[str, Any], told: str) -> None:
    part = lithify.open("memory://uploads-refused").create_topic("t", config={}).partition(0)
    with pytest.raises(InvalidRequest, match=told):
        part.begin_upload(**given)
    lithify.open("memory://uploads-refused").delete_topic("t")


def test_an_upload_belongs_to_its_partition_and_its_topics_life(tmp_path: Path) -> None:
    warehouse = lithify.open(tmp_path.as_uri())
    topic, store = warehouse.create_topic("t", partitions=2), open_store(tmp_path.as_uri())
    task = topic.partition(0).begin_upload()
    refs = [lithify.write_segment(store, task, records("a"))]
    with pytest.raises(InvalidRequest, match="begun in t/0"):
        topic.partition(1).upload(task, refs)
    with pytest.raises(InvalidRequest, match="give the UploadTask"):
        topic.partition(0).upload(ID, refs)  # type: ignore[arg-type]
    warehouse.delete_topic("t")
    with pytest.raises(NotFound, match="was deleted"):
        topic.partition(0).upload(task, refs)
    anew = warehouse.create_topic("t", partitions=2)
    with pytest.raises(InvalidRequest, match="deleted since"):
        anew.partition(0).upload(task, refs)


def test_a_worker_whose_store_fails_says_so() -> None:
    class Failing(MemoryStore):
        def put(self, key: str, body: bytes) -> None:
            raise Unavailable("the store gave no answer")

    part = lithify.open("memory://uploads-failing").create_topic("t").partition(0)
    with pytest.raises(Unavailable, match="no answer"):
        lithify.write_segment(Failing(), part.begin_upload(), records("a"))
