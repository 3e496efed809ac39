"""What we give to users' own tests: the server, the faults, the plugin."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lithify
from lithify.log.warehouse import Warehouse
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.opening import open_store
from lithify.store.port import Outcome
from lithify.store.s3 import S3Store
from lithify.testing import s3
from lithify.testing.faults import Fault, FaultyStore, lose_replies
from lithify.testing.server import S3Server
from tests.processes import running

WORKER = """
import sys
from lithify.store.opening import open_store
store = open_store(sys.argv[1])
print(store.create("race", sys.argv[2].encode()).name)
"""


def test_a_server_of_its_own_serves_and_ends() -> None:
    with s3() as server:
        url = server.url(f"{server.create_bucket('named')}/w")
        assert url == "s3://named/w"
        assert open_store(url, server.options).create("k", b"x") is Outcome.CREATED
    store = S3Store("named", "w", {**server.options, "config_kwargs": {"retries": {"total_max_attempts": 1}}})
    assert store.create("k", b"x") is Outcome.UNKNOWN


@pytest.mark.slow
def test_other_processes_reach_it_by_what_it_exports(lithify_s3: S3Server, bucket: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    commands = [[sys.executable, "-c", WORKER, lithify_s3.url(f"{bucket}/w"), str(writer)] for writer in range(2)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": environment | lithify_s3.env}
    workers = [subprocess.Popen(command, **pipes) for command in commands]
    assert sorted(worker.communicate(timeout=120)[0].strip() for worker in workers) == ["CREATED", "EXISTS"]


@pytest.mark.slow
def test_it_runs_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "lithify.testing.server", "--bucket", "mine"]
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        exported = dict(process.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(4))
        options = {"key": "test", "secret": "test", "endpoint_url": exported["AWS_ENDPOINT_URL_S3"]}
        store = open_store("s3://mine/w", {**options, "client_kwargs": {"region_name": exported["AWS_REGION"]}})
        assert store.create("k", b"x") is Outcome.CREATED
        process.terminate()


def test_conditional_completions_are_atomic_too(s3_store: S3Store, bucket: str) -> None:
    client = s3_store.bulk_client()
    writers = 6
    barrier = threading.Barrier(writers)

    def attempt(number: int) -> bool:
        upload = {
            "Bucket": bucket,
            "Key": "k",
            "UploadId": client.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"],
        }
        part = client.upload_part(**upload, PartNumber=1, Body=b"%d" % number)
        barrier.wait()
        try:
            parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
            client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
        except client.exceptions.ClientError:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        assert sum(pool.map(attempt, range(writers))) == 1


def test_connections_are_kept_open(s3_store: S3Store) -> None:
    """A new connection per request would triple the time of everything tested here."""
    for number in range(3):
        s3_store.put(f"k{number}", b"x")
        s3_store.get(f"k{number}")
        s3_store.get("nothing")
    (pool,) = s3_store.bulk_client()._endpoint.http_session._manager.pools._container.values()
    assert pool.num_connections == 1


@pytest.mark.parametrize(
    ("fault", "answer", "stored"),
    [
        (Fault.NONE, Outcome.CREATED, True),
        (Fault.LOST_REPLY, Outcome.UNKNOWN, True),
        (Fault.LOST_REQUEST, Outcome.UNKNOWN, False),
        (Fault.REFUSED, None, False),
        (Fault.LATE, Outcome.UNKNOWN, False),
    ],
)
def test_what_happened_times_what_is_told(fault: Fault, answer: Outcome | None, stored: bool) -> None:
    store = FaultyStore(MemoryStore(), [fault])
    if answer is None:
        with pytest.raises(Unavailable):
            store.create("k", b"planned")
    else:
        assert store.create("k", b"planned") is answer
    assert (store.get("k") is not None) == stored
    assert store.create("k", b"next") is (Outcome.EXISTS if stored else Outcome.CREATED)
    assert store.deliver() == ([Outcome.EXISTS] if fault is Fault.LATE else [])
    assert store.attempts == [("k", fault), ("k", Fault.NONE)]


def test_a_late_create_lands_after_its_writer_looked() -> None:
    store = FaultyStore(MemoryStore(), [Fault.LATE])
    assert store.create("k", b"late") is Outcome.UNKNOWN
    assert store.get("k") is None
    assert store.deliver() == [Outcome.CREATED]
    assert store.deliver() == []
    found = store.get("k")
    assert found is not None
    assert found.body == b"late"


@pytest.mark.parametrize("wrap", [lambda store: store, Metered], ids=["bare", "metered"])
def test_every_third_reply_is_lost_and_its_object_is_there(wrap: Callable[[S3Store], Any], s3_store: S3Store) -> None:
    store = wrap(s3_store)
    with lose_replies(store, every=3) as lost:
        outcomes = [store.create(f"k{number}", b"x") for number in range(6)]
        store.put("unconditional", b"x")
    assert outcomes == [Outcome.CREATED, Outcome.CREATED, Outcome.UNKNOWN] * 2
    assert (lost.sent, lost.lost) == (6, 2)
    assert all(store.get(f"k{number}") for number in range(6))
    assert [store.create(f"l{number}", b"x") for number in range(3)] == [Outcome.CREATED] * 3


def test_replies_of_other_stores_cannot_be_lost() -> None:
    with pytest.raises(TypeError, match="use FaultyStore"), lose_replies(MemoryStore()):
        pass


def test_the_fixture_is_an_open_warehouse_on_it(lithify_warehouse: Warehouse, lithify_s3: S3Server) -> None:
    topic = lithify_warehouse.create_topic("users", partitions=1)
    offsets = topic.partition(0).append([lithify.Record(key=b"k", value=b"v", timestamp_ms=1)])
    assert offsets == range(1)
    again = lithify.open(lithify_warehouse.url, storage_options=lithify_s3.options)
    assert list(again.topics()) == ["users"]
    again.close()


def test_the_plugin_costs_other_peoples_test_runs_nothing() -> None:
    """pytest loads it wherever we are installed."""
    program = """
import json, sys
import pytest
before = set(sys.modules)
import lithify.testing.plugin
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"moto", "boto3", "botocore", "pyarrow", "pyspark", "flask", "fsspec", "pandas", "msgspec"}
