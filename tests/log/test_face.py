"""The public names and signatures: a change here is a change for every user."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import lithify

NAMES = [
    *(
        "AccessDenied",
        "Admin",
        "AlreadyExists",
        "Checkpoint",
        "Collector",
        "CommitUnknown",
        "CompactionInfo",
        "Compactor",
    ),
    *("Consumer", "ConsumerInfo", "Corrupt"),
    *("Delivery", "EpochRegression", "Explanation", "Fenced", "Gap", "GcReport", "InvalidRequest", "LithifyError"),
    *("LocalEngine", "MaintenanceReport", "NotFound", "OffsetOutOfRange", "Partition", "PartitionInfo", "Producer"),
    *(
        "ReadTask",
        "Record",
        "RetentionPolicy",
        "RunInfo",
        "ScanAndFollow",
        "SegmentInfo",
        "Snapshot",
        "SnapshotExpired",
    ),
    *("SparkEngine", "Topic", "TopicConsumer", "TopicInfo", "TopicSnapshot", "TransactionInfo"),
    *("Unavailable", "UploadTask", "Warehouse", "WarehouseInfo", "open", "partition_for_key", "read_task"),
    "write_segment",
]

PLAN = (
    "(self, *, view='latest', low=None, high=None, start_offset=0, end_offset=None, columns=None, tombstones=False, "
    "ordered=False, tasks=None, target_bytes=None)"
)
SIGNATURES = {
    "open": "(url, clock=None, storage_options=None)",
    "partition_for_key": "(key, partitions)",
    "read_task": "(task, store, clock=None)",
    "Record": "(key, value, timestamp_ms=None, headers=(), offset=None)",
    "RetentionPolicy": "(max_records=None, max_age_seconds=None, max_total_bytes=None)",
    "Warehouse.create_topic": "(self, name, partitions=1, config=None, *, retention=None, probe=True, exist_ok=False)",
    "Warehouse.topic": "(self, name, *, for_append=False)",
    "Warehouse.alter": "(self, settings)",
    "Warehouse.describe": "(self)",
    "Warehouse.topics": "(self)",
    "Warehouse.delete_topic": "(self, name)",
    "Warehouse.close": "(self)",
    "Topic.partition": "(self, number)",
    "Topic.alter": "(self, config=None, partitions=None, *, retention=None)",
    "Topic.describe": "(self)",
    "Topic.delete_records": "(self, before_offsets)",
    "Topic.append": "(self, records, *, key=None, value=None, timestamp=None)",
    "Topic.read": "(self)",
    "Topic.offsets_for_timestamp": "(self, timestamp_ms)",
    "Topic.scan": "(self, tombstones=False, *, low=None, high=None, columns=None)",
    "Topic.get": "(self, key, *, max_staleness_ms=0)",
    "Topic.get_many": "(self, keys, *, max_staleness_ms=0)",
    "Topic.snapshot": "(self, ttl=None, *, manifests=None)",
    "Topic.pinned": "(self, name)",
    "TopicSnapshot.read": "(self)",
    "TopicSnapshot.scan": "(self, tombstones=False, *, low=None, high=None, columns=None)",
    "TopicSnapshot.plan": PLAN,
    "TopicSnapshot.renew": "(self)",
    "TopicSnapshot.release": "(self)",
    "TopicSnapshot.get": "(self, key)",
    "TopicSnapshot.get_many": "(self, keys)",
    "Topic.producer": "(self, id=None, config=None)",
    "Topic.consumer": "(self, name, partitions=None, *, auto_offset_reset='earliest', auto_commit_interval_ms=5000, "
    "poll_ms=1000, stop=None)",
    "Partition.append": "(self, records, txn=None, *, key=None, value=None, timestamp=None)",
    "Partition.offset_for_timestamp": "(self, timestamp_ms)",
    "Partition.begin_upload": "(self, *, ttl=datetime.timedelta(days=1), upload_id=None)",
    "Partition.upload": "(self, task, segments, txn=None)",
    "write_segment": "(store, task, records)",
    "Partition.transactions": "(self)",
    "Partition.forget_transaction": "(self, application)",
    "Partition.end_transaction": "(self, application, *, at=None)",
    "Partition.delete_records": "(self, before_offset)",
    "Partition.outcome": "(self, token, settle=False)",
    "Partition.read": "(self, start_offset=0, end_offset=None, *, auto_offset_reset='earliest', follow=False, "
    "poll_ms=1000, stop=None)",
    "Partition.read_batches": "(self, start_offset=0, end_offset=None, *, auto_offset_reset='earliest')",
    "Partition.scan_and_follow": "(self, consumer=None, *, auto_offset_reset='earliest', auto_commit_interval_ms=5000, "
    "poll_ms=1000, stop=None)",
    "Partition.follower": "(self, start_offset=0, auto_offset_reset='earliest', *, resumed=False, added=False)",
    "Partition.consumer": "(self, name, *, auto_offset_reset='earliest', auto_commit_interval_ms=5000, poll_ms=1000, "
    "stop=None)",
    "Partition.consumers": "(self)",
    "Partition.reset_consumer": "(self, name, to)",
    "Partition.delete_consumer": "(self, name)",
    "Consumer.poll": "(self, timeout_ms=0, max_records=500)",
    "Consumer.commit": "(self)",
    "Consumer.close": "(self)",
    "TopicConsumer.poll": "(self, timeout_ms=0, max_records=500)",
    "TopicConsumer.commit": "(self)",
    "TopicConsumer.close": "(self)",
    "Partition.scan": "(self, tombstones=False, *, low=None, high=None, columns=None)",
    "Partition.get": "(self, key, *, max_staleness_ms=0)",
    "Partition.get_many": "(self, keys, *, max_staleness_ms=0)",
    "Partition.snapshot": "(self, pin=None, ttl=None, *, manifest=None)",
    "Partition.pinned": "(self, name)",
    "Partition.checkpoints": "(self, owner='user')",
    "Partition.refresh_checkpoint": "(self, name, ttl=None)",
    "Partition.delete_checkpoint": "(self, name)",
    "Partition.describe": "(self)",
    "Snapshot.read": "(self, start_offset=0, end_offset=None)",
    "Snapshot.read_batches": "(self, start_offset=0, end_offset=None)",
    "Snapshot.offset_for_timestamp": "(self, timestamp_ms)",
    "Snapshot.offset_of_last": "(self, records)",
    "Snapshot.scan": "(self, tombstones=False, *, low=None, high=None, columns=None)",
    "Snapshot.plan": PLAN,
    "Snapshot.renew": "(self)",
    "Snapshot.release": "(self)",
    "Snapshot.get": "(self, key)",
    "Snapshot.get_many": "(self, keys)",
    "Producer.append": "(self, key, value, timestamp_ms=None, headers=())",
    "Producer.flush": "(self)",
    "Producer.close": "(self)",
    "Delivery.done": "(self)",
    "Delivery.offset": "(self, timeout_ms=None)",
    "Admin.topics": "(self)",
    "Admin.topic": "(self, topic)",
    "Admin.create_topic": "(self, topic, partitions=1, config=None, *, probe=True)",
    "Admin.alter_topic": "(self, topic, config=None, partitions=None)",
    "Admin.delete_topic": "(self, topic)",
    "Admin.describe_topic": "(self, topic)",
    "Admin.describe": "(self, topic, partition=None)",
    "Admin.delete_records": "(self, topic, partition, before_offset)",
    "Admin.manifest": "(self, topic, partition=None, number=None)",
    "Admin.manifest_file": "(self, topic, partition=None, number=None)",
    "Admin.history": "(self, topic, key, partition=None, limit=100, *, values=False, trace=False)",
    "Admin.checkpoints": "(self, topic, partition=None, owner='user')",
    "Admin.create_checkpoint": "(self, topic, name, partition=None, ttl_ms=None)",
    "Admin.delete_checkpoint": "(self, topic, name, partition=None)",
    "Admin.consumers": "(self, topic, partition=None)",
    "Admin.reset_consumer": "(self, topic, name, to, partition=None)",
    "Admin.delete_consumer": "(self, topic, name, partition=None)",
    "Admin.transactions": "(self, topic, partition=None)",
    "Admin.forget_transaction": "(self, topic, application, partition=None)",
    "Admin.submit": "(self, topic, partition=None, sources='full', *, idempotency_key=None)",
    "Admin.homes": "(self, topic, partition=None)",
    "Admin.relocate": "(self, topic, partition=None)",
    "Admin.recall": "(self, topic, partition=None)",
    "Admin.adopt_home": "(self, topic)",
    "Admin.compaction": "(self, id)",
    "Admin.compactions": "(self, topic=None, partition=None)",
    "Admin.readable_compactions": "(self, topic=None, partition=None, statuses=())",
    "Admin.cancel": "(self, id)",
    "Admin.explain": "(self, topic, partition=None)",
    "Admin.explain_topic": "(self, topic)",
    "Admin.pause": "(self, topic)",
    "Admin.resume": "(self, topic)",
    "Admin.retry": "(self, topic, partition=None)",
    "Admin.retry_topic": "(self, topic)",
    "Admin.gc": "(self, *, dry_run=False, sweep=False, grace_ms=3600000)",
    "Admin.overview": "(self, *, wait_ms=None)",
    "Admin.health": "(self, topic=None)",
    "Admin.verify": (
        "(self, topic=None, *, deep=False, engine='local', master=None, spark_conf=(), executor_wait_ms=60000, "
        "ended=None)"
    ),
}


def signature(path: str) -> str:
    found: Any = lithify
    for name in path.split("."):
        found = getattr(found, name)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(found).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def test_public_names() -> None:
    assert lithify.__all__ == NAMES
    assert set(NAMES) <= set(dir(lithify))
    assert [name for name in NAMES if not hasattr(lithify, name)] == []


def test_what_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        lithify.opne  # noqa: B018 # pyright: ignore


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path: str) -> None:
    assert signature(path) == SIGNATURES[path]


def test_every_public_method_is_listed() -> None:
    internal = {"Topic.prepare", "Topic.former_partitions", "Topic.key_places", "Topic.partitions_now"}
    internal |= {
        "Partition.append_prepared",
        "Partition.look",
        "Partition.described",
        "Partition.lent",
        "Partition.opening",
        "Partition.open_producer",
    }
    internal |= {"Partition.check_producer", "Snapshot.sorts", "Snapshot.task", "Snapshot.cut", "Snapshot.batches"}
    internal |= {"Snapshot.shows", "Snapshot.latest", "Snapshot.log", "Snapshot.get_many_beside"}
    internal |= {"Partition.get_many_beside", "Snapshot.is_little", "TopicSnapshot.of_each"}
    for name in ("Warehouse", "Topic", "Partition", "Snapshot", "TopicSnapshot", "Producer", "Delivery", "Admin"):
        methods = inspect.getmembers(getattr(lithify, name), inspect.isfunction)
        public = {f"{name}.{method}" for method, _ in methods if not method.startswith("_")}
        assert public - internal <= set(SIGNATURES)


@pytest.mark.slow
def test_opening_a_warehouse_loads_no_engine_and_no_client() -> None:
    program = """
import sys, lithify
light = "pyarrow" not in sys.modules
part = lithify.open("memory://light").create_topic("t").partition(0)
part.append([lithify.Record(b"k", b"v")])
assert [record.value for record in part.read()] == [b"v"]
print(light, [name for name in ("pyspark", "boto3", "botocore", "s3fs", "moto", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"
