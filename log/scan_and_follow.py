"""A state store's two parts: the present state, and its changes."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lithify.log.consumer import Consumer, ConsumerConfig
from lithify.log.follow import Follower, Gap, SnapshotOf, follow
from lithify.log.opening import Opening, Start
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.log.whole import Whole
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.segment.schema import RECORDS
from lithify.store.driver import Driver

__all__ = ["ScanAndFollow", "scan_and_follow"]


@dataclass(frozen=True, slots=True)
class ScanAndFollow:
    """A state and its changes, without a gap between the two. Made by `Partition.scan_and_follow`. Read `state` to its
    end first, then iterate over `changes`, which never ends.

    >>> part = lithify.open("memory://example").create_topic("users").partition(0)
    >>> _ = part.append([lithify.Record(b"ada", b"free"), lithify.Record(b"bela", b"team")])
    >>> both = part.scan_and_follow()
    >>> state = {row["key"]: row["value"] for row in both.state.read_all().to_pylist()}
    >>> _ = part.append([lithify.Record(b"ada", None)])
    >>> next(both.changes).value is None  # a deletion
    True

    A deleted key is not in the state; in the changes it is a record with value None. A named consumer commits nothing
    before the state was read to its end and, after that, a change was asked for, `commit` was called, or its `with`
    block was left without an error.

    `state` raises SnapshotExpired if reading it takes longer than the collector's grace period: begin anew. A `Gap` in
    the changes means that the state has missed something: also begin anew.
    """

    state: pa.RecordBatchReader  # the latest record of each key below `next_offset`, in key order
    next_offset: int  # where the changes begin
    changes: Iterator[Record | Gap]  # in offset order
    consumer: Consumer | None  # the changes, if from a named consumer: close it, or use it as a context


def scan_and_follow(
    driver: Driver,
    keys: PartitionKeys,
    snapshot: Snapshot,
    snapshot_of: SnapshotOf,
    consumer: str | None,
    config: ConsumerConfig,
) -> ScanAndFollow:
    """The state, and its changes; these come from the named `consumer`, if one is given."""
    end = snapshot.next_offset
    if consumer is not None:
        changes = Opening(driver, keys, snapshot_of, consumer, config, Start(rebuilt_to=end)).take()
        return ScanAndFollow(_told_at_its_end(snapshot.scan(), changes), end, changes, changes)
    follower = Follower(driver, PartitionFiles(keys), snapshot_of, end, config.auto_offset_reset, resumed=True)
    return ScanAndFollow(snapshot.scan(), end, follow(follower, config.poll_ms, config.stop), None)


def _told_at_its_end(state: pa.RecordBatchReader, consumer: Consumer) -> pa.RecordBatchReader:
    """The same, but tells the consumer when it was read to its end."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from state
        consumer.scanned()

    return pa.RecordBatchReader.from_batches(RECORDS, Whole(batches(), repr(consumer)))
