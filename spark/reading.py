"""spark.read: one snapshot for each DataFrame, planned into tasks on the driver, read on executors (RFC 0021, 0022)."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark_lithify.cold import tell_cold
from pyspark_lithify.columns import for_spark
from pyspark_lithify.options import ReadOptions
from pyspark_lithify.telling import told, told_while_read

if TYPE_CHECKING:
    from pyspark_lithify.opening import Opened

    from lithify.log.partition import Partition
    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic
    from lithify.log.topic_snapshot import TopicSnapshot
    from lithify.segment.read_task import ReadTask
    from lithify.store.port import StoreSpec

__all__ = ["HELD_FOR", "BatchReader", "ReadPartition"]

HELD_FOR = timedelta(hours=1)  # each task that is read renews it

T = TypeVar("T")


class ReadPartition(InputPartition):
    """What one task reads. Without a task there is nothing to read."""

    def __init__(self, task: "ReadTask | None", spec: "StoreSpec") -> None:
        super().__init__(None)
        self.task = task
        self.spec = spec


class BatchReader(DataSourceReader):
    """SUBTLE! Spark asks a DataFrame for its partitions once, and uses them for each of its queries and each side of a
    self-join: so all of them read one snapshot. Test: tests/spark/test_reading.py"""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    @told
    def partitions(self) -> Sequence[InputPartition]:
        from pyspark_lithify.opening import opened

        from lithify.segment.read_task import homes_needed

        found = opened(self._options.common)
        tasks = planned(found, self._options, self._columns)
        tell_cold(self._options.common.topic, tasks)
        spec = found.spec(homes_needed(tasks))
        # An empty list makes Spark call `read` with an InputPartition of its own.
        return [ReadPartition(task, spec) for task in tasks] or [ReadPartition(None, spec)]

    @told_while_read
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lithify.log.read_task import read_task
        from lithify.segment.set_aside import set_aside
        from lithify.store.opening_homes import opened_spec

        assert isinstance(partition, ReadPartition)
        if partition.task is None:
            return
        for batch in read_task(partition.task, opened_spec(partition.spec)):
            yield for_spark(batch, self._columns, partition.task.partition)
        set_aside()


def planned(opened: "Opened", options: ReadOptions, columns: Sequence[str]) -> "list[ReadTask]":
    """Tasks of one snapshot. Partitions that are named are read as `Partition.scan` does: with the keys, too, that left
    them when the topic grew."""
    stored = [name for name in columns if name != "partition"] or ["offset"]
    common: dict[str, Any] = {
        "view": options.view,
        "low": options.key_from,
        "high": options.key_to,
        "end_offset": options.offset_to,
        "columns": stored,
        "tombstones": options.tombstones,
    }
    if options.partitions is None:
        return _of_all(opened, options).plan(**common, start_offset=options.offset_from, tasks=options.tasks)
    from lithify.log.planning import held_together
    from lithify.log.topic_snapshot import starts_within

    found: list[ReadTask] = []
    share = None if options.tasks is None else max(1, options.tasks // len(options.partitions))
    wanted = list(enumerate(options.partitions))
    snapshots = opened.driver.all_of(lambda each: _of_one(opened.topic, options, *each), wanted)
    starts = starts_within(options.offset_from, snapshots)
    for snapshot, start in zip(snapshots, starts, strict=True):
        found += snapshot.plan(**common, start_offset=start, tasks=share)
    return held_together(found)


def _of_all(opened: "Opened", options: ReadOptions) -> "TopicSnapshot":
    topic = opened.topic
    if options.checkpoint is not None:
        return topic.pinned(options.checkpoint)
    if options.manifests is None:
        return _held(topic.snapshot, topic.name) if options.pin else topic.snapshot()
    found = topic.snapshot(manifests=options.manifests)
    if not options.pin:
        return found
    held = opened.driver.all_of(lambda each: _kept(topic.partition(each[0]), each[1]), enumerate(options.manifests))
    return dataclasses.replace(found, partitions=tuple(held))


def _of_one(topic: "Topic", options: ReadOptions, place: int, number: int) -> "Snapshot":
    part = topic.partition(number)
    if options.checkpoint is not None:
        return part.pinned(options.checkpoint)
    manifest = None if options.manifests is None else options.manifests[place]
    if not options.pin:
        return part.snapshot(manifest=manifest)
    if manifest is None:
        return _held(lambda ttl: part.snapshot(ttl=ttl), f"{topic.name}/{number}")
    return _kept(part, manifest)


def _held(take: "Callable[[timedelta | None], T]", where: str) -> T:
    """A new snapshot with a pin; without one where none can be made, as where so many DataFrames were made within the
    hour that their pins are at the limit."""
    from lithify.store.errors import AccessDenied, Unavailable

    try:
        return take(HELD_FOR)
    except AccessDenied:
        raise  # who may not write says pin=false
    except Unavailable as error:
        found = take(None)
        logging.getLogger("lithify.spark").warning(
            "%s is read without a pin: if the query takes longer than the collector's grace period it may fail with "
            "SnapshotExpired (%s)",
            where,
            error,
        )
        return found


def _kept(part: "Partition", manifest: int) -> "Snapshot":
    """That manifest. If a scan pins it, the pin is renewed; otherwise it cannot be pinned any more (P20)."""
    from lithify.store.errors import SnapshotExpired

    try:
        return part.snapshot(ttl=HELD_FOR, manifest=manifest)
    except SnapshotExpired:
        return part.snapshot(manifest=manifest)
