"""lithify turns loose log segments in an object store into solid, sorted, compacted runs, and keeps them so.

    import lithify
    warehouse = lithify.open("s3://bucket/prefix")

Every public name is here and is imported when it is first used: importing lithify itself costs next to nothing, and
only those who compact pay for Spark. Errors are a small tree, ordered by what the caller must do next:
`lithify.store.errors`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from lithify.admin.client import Admin
    from lithify.admin.explain import Explanation
    from lithify.compactor.compactor import Compactor
    from lithify.compactor.engines.local import LocalEngine
    from lithify.compactor.engines.spark import SparkEngine
    from lithify.compactor.info import CompactionInfo, MaintenanceReport
    from lithify.gc.collector import Collector, GcReport
    from lithify.log.consumer import Consumer
    from lithify.log.consumer_info import ConsumerInfo
    from lithify.log.follow import Gap
    from lithify.log.info import PartitionInfo, RunInfo, SegmentInfo, TopicInfo
    from lithify.log.partition import Partition
    from lithify.log.producer import Delivery, Producer
    from lithify.log.read_task import read_task
    from lithify.log.record import Record
    from lithify.log.retention_policy import RetentionPolicy
    from lithify.log.scan_and_follow import ScanAndFollow
    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic
    from lithify.log.topic_consumer import TopicConsumer
    from lithify.log.topic_snapshot import TopicSnapshot
    from lithify.log.transactions import TransactionInfo
    from lithify.log.upload import UploadTask, write_segment
    from lithify.log.warehouse import Warehouse, WarehouseInfo, open  # noqa: A004 - part of the public API
    from lithify.manifest.model import Checkpoint
    from lithify.segment.partitioner import partition_for_key
    from lithify.segment.read_task import ReadTask
    from lithify.store.errors import (
        AccessDenied,
        AlreadyExists,
        CommitUnknown,
        Corrupt,
        EpochRegression,
        Fenced,
        InvalidRequest,
        LithifyError,
        NotFound,
        OffsetOutOfRange,
        SnapshotExpired,
        Unavailable,
    )

__all__ = [
    "AccessDenied",
    "Admin",
    "AlreadyExists",
    "Checkpoint",
    "Collector",
    "CommitUnknown",
    "CompactionInfo",
    "Compactor",
    "Consumer",
    "ConsumerInfo",
    "Corrupt",
    "Delivery",
    "EpochRegression",
    "Explanation",
    "Fenced",
    "Gap",
    "GcReport",
    "InvalidRequest",
    "LithifyError",
    "LocalEngine",
    "MaintenanceReport",
    "NotFound",
    "OffsetOutOfRange",
    "Partition",
    "PartitionInfo",
    "Producer",
    "ReadTask",
    "Record",
    "RetentionPolicy",
    "RunInfo",
    "ScanAndFollow",
    "SegmentInfo",
    "Snapshot",
    "SnapshotExpired",
    "SparkEngine",
    "Topic",
    "TopicConsumer",
    "TopicInfo",
    "TopicSnapshot",
    "TransactionInfo",
    "Unavailable",
    "UploadTask",
    "Warehouse",
    "WarehouseInfo",
    "open",
    "partition_for_key",
    "read_task",
    "write_segment",
]

_MODULES = {
    "Admin": "lithify.admin.client",
    "Checkpoint": "lithify.manifest.model",
    "Collector": "lithify.gc.collector",
    "CompactionInfo": "lithify.compactor.info",
    "Compactor": "lithify.compactor.compactor",
    "Consumer": "lithify.log.consumer",
    "ConsumerInfo": "lithify.log.consumer_info",
    "Delivery": "lithify.log.producer",
    "Explanation": "lithify.admin.explain",
    "Gap": "lithify.log.follow",
    "GcReport": "lithify.gc.collector",
    "LocalEngine": "lithify.compactor.engines.local",
    "MaintenanceReport": "lithify.compactor.info",
    "Partition": "lithify.log.partition",
    "PartitionInfo": "lithify.log.info",
    "Producer": "lithify.log.producer",
    "ReadTask": "lithify.segment.read_task",
    "Record": "lithify.log.record",
    "RetentionPolicy": "lithify.log.retention_policy",
    "RunInfo": "lithify.log.info",
    "ScanAndFollow": "lithify.log.scan_and_follow",
    "SegmentInfo": "lithify.log.info",
    "Snapshot": "lithify.log.snapshot",
    "SparkEngine": "lithify.compactor.engines.spark",
    "Topic": "lithify.log.topic",
    "TopicConsumer": "lithify.log.topic_consumer",
    "TopicInfo": "lithify.log.info",
    "TopicSnapshot": "lithify.log.topic_snapshot",
    "TransactionInfo": "lithify.log.transactions",
    "UploadTask": "lithify.log.upload",
    "Warehouse": "lithify.log.warehouse",
    "WarehouseInfo": "lithify.log.warehouse",
    "open": "lithify.log.warehouse",
    "partition_for_key": "lithify.segment.partitioner",
    "read_task": "lithify.log.read_task",
    "write_segment": "lithify.log.upload",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("lithify")
    if name not in __all__:
        raise AttributeError(f"module 'lithify' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES.get(name, "lithify.store.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]
