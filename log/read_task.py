"""Reading a task of a plan, in whatever process it arrived (docs/rfcs/0021)."""

import logging
from collections.abc import Iterator

import pyarrow as pa
import structlog

from lithify.log.held import Renewal, Renewals
from lithify.log.whole import Whole
from lithify.manifest.missing import explain_missing
from lithify.manifest.partition import PartitionFiles
from lithify.segment.read_batches import schema_of, task_batches
from lithify.segment.read_task import ReadTask
from lithify.segment.segments import Segments
from lithify.store.driver import Clock, Driver
from lithify.store.errors import NotFound
from lithify.store.homes import Homes
from lithify.store.port import Store

__all__ = ["read_task"]

log = structlog.wrap_logger(logging.getLogger("lithify.log"))


def read_task(task: ReadTask, store: Store | Homes, clock: Clock | None = None) -> pa.RecordBatchReader:
    """The records of a task of `Snapshot.plan`, with its columns. `store` is that of the warehouse, opened here (see
    `lithify.store.opening`). Meanwhile the snapshot's pin is renewed, if it has one, and those of
    the plan's other partitions.

    Reading it twice gives the same. Raises SnapshotExpired if the manifest is no longer retained, Corrupt, Unavailable.
    """
    driver, files = Driver(store, clock), PartitionFiles(task.keys)
    where = f"{task.keys.topic}/{task.partition}"
    return pa.RecordBatchReader.from_batches(schema_of(task.columns), Whole(_kept(task, driver, files), where))


def _kept(task: ReadTask, driver: Driver, files: PartitionFiles) -> Iterator[pa.RecordBatch]:
    renewal = _renewals(task, files)
    try:
        if renewal is not None:
            driver.run(renewal.keep())
        for batch in task_batches(task, Segments(task.keys, driver.homes), _left_out):
            yield batch
            if renewal is not None:
                driver.run(renewal.keep())
    except NotFound as missing:
        head = driver.run(files.head())
        raise explain_missing(head, files.boundary.seen.value, task.manifest_id, missing) from missing


def _renewals(task: ReadTask, files: PartitionFiles) -> Renewals | None:
    if task.hold is None:
        return None
    others = [Renewal(PartitionFiles(keys), hold) for keys, hold in task.holds if keys != task.keys]
    return Renewals(Renewal(files, task.hold), others, task.hold.ttl_ms)


def _left_out(partition: int, records: int) -> None:
    log.warning("a task leaves out what keys left behind when the topic grew", partition=partition, records=records)
