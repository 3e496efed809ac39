"""readStream and writeStream (docs/rfcs/0022): the log of each partition from an offset to another, once each; and one
transaction for each batch of a query."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from pyspark_lithify.columns import for_spark
from pyspark_lithify.options import StreamReadOptions, WriteOptions
from pyspark_lithify.telling import told, told_while_read
from pyspark_lithify.writing import Placing, Written, commit, placing, write

if TYPE_CHECKING:
    from pyspark_lithify.opening import Opened

    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic
    from lithify.store.port import StoreSpec

__all__ = ["StreamReader", "StreamWriter", "Stretch", "as_before"]

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class Stretch:
    """Records start <= offset < end of one partition. It names no manifest: whoever reads it, at once or after a
    restart of days, reads the newest."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


class StretchPartition(InputPartition):
    def __init__(self, stretch: Stretch, spec: "StoreSpec") -> None:
        super().__init__(None)
        self.stretch = stretch
        self.spec = spec


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"topic": the topic's id, "offsets": {"0": next offset, …}}, in the order of the partitions: Spark
    compares them as text."""

    def __init__(self, options: StreamReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._found: Opened | None = None
        self._last: dict[int, int] | None = None  # of a query with the trigger AvailableNow

    @told
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        topic, starting = self._opened(), self._options.starting
        found: dict[int, int] = {}
        for number in range(topic.partitions_now()):
            now = topic.partition(number).snapshot()
            at = now.next_offset if starting == "latest" else now.log_start_offset
            if isinstance(starting, Mapping) and number in starting:
                at = self._within(number, starting[number], now.log_start_offset, now.next_offset)
            found[number] = at
        if isinstance(starting, Mapping):
            self._check_named(starting, found)
        return self._spelled(found)

    @told
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = self._read(start)
        ends = self._ends() if self._last is None else {**self._last}
        missing = [number for number in begin if number not in ends]
        if missing and self._last is None:
            raise self._error(f"the checkpoint knows partition {missing[0]}, which the topic does not have")
        for number, at in begin.items():
            ends[number] = max(at, ends.get(number, at))
        if isinstance(limit, ReadMaxRows):
            ends = _limited(begin, ends, limit.max_rows)
        return self._spelled(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @told
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._ends()

    @told
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._spelled(self._ends())

    @told
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A partition that the start does not name was added since: it is read from its first record."""
        (topic, spec), begin = self._open(), self._read(start)
        found: list[InputPartition] = []
        for number, last in self._read(end).items():
            for first, stop in _stretches(begin.get(number, 0), last, self._options.rows_per_task):
                found.append(StretchPartition(Stretch(topic.name, topic.topic_id, number, first, stop), spec))
        return found

    @told_while_read
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StretchPartition):
            return  # Spark's own, where there are none of ours
        stretch = partition.stretch
        for batch in _records(stretch, partition.spec, self._options.fail_on_data_loss, self._columns):
            yield for_spark(batch, self._columns, stretch.partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: where the query is stands in its checkpoint."""

    def stop(self) -> None:
        """Nothing is held."""

    def _open(self) -> "Opened":
        if self._found is None:
            from pyspark_lithify.opening import opened

            self._found = opened(self._options.common)
        return self._found

    def _opened(self) -> "Topic":
        return self._open().topic

    def _ends(self) -> dict[int, int]:
        topic = self._opened()
        return {number: topic.partition(number).snapshot().next_offset for number in range(topic.partitions_now())}

    def _spelled(self, offsets: Mapping[int, int]) -> dict[str, Any]:
        return {
            "topic": self._opened().topic_id,
            "offsets": {str(number): offsets[number] for number in sorted(offsets)},
        }

    def _read(self, spelled: Mapping[str, Any]) -> dict[int, int]:
        topic = self._opened()
        if spelled.get("topic") != topic.topic_id:
            raise self._error("the checkpoint is of another topic of this name, which was deleted")
        return {int(number): offset for number, offset in spelled["offsets"].items()}

    def _within(self, number: int, at: int, floor: int, end: int) -> int:
        if floor <= at <= end:
            return at
        if at < floor and not self._options.fail_on_data_loss:
            return floor
        from lithify.store.errors import OffsetOutOfRange

        raise OffsetOutOfRange(
            f"{self._options.common.topic}/{number}: startingOffsets says {at}; the log has {floor} to {end}"
        )

    def _check_named(self, starting: Mapping[int, int], found: Mapping[int, int]) -> None:
        strange = sorted(set(starting) - set(found))
        if strange:
            from lithify.store.errors import InvalidRequest

            raise InvalidRequest(
                f"startingOffsets names partition {strange[0]}; topic {self._options.common.topic} has {len(found)}"
            )

    def _error(self, what: str) -> Exception:
        from lithify.store.errors import InvalidRequest

        return InvalidRequest(
            f"topic {self._options.common.topic}: {what}. Start the query with a new checkpointLocation"
        )


def _limited(begin: Mapping[int, int], ends: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """At most `rows_max` offsets in all: to each partition its share of what is there, so that none starves."""
    there = {number: last - begin.get(number, 0) for number, last in ends.items()}
    found, left, owed = dict(begin), rows_max, sum(there.values())
    for number in sorted(there, key=lambda number: there[number]):
        share = there[number] if owed <= left else -(-left * there[number] // owed) if owed else 0
        taken = min(share, left, there[number])
        owed, left = owed - there[number], left - taken
        if taken or number in begin:
            found[number] = begin.get(number, 0) + taken
    return found


def _stretches(start: int, end: int, rows_max: int) -> Iterator[tuple[int, int]]:
    """Even parts of at most `rows_max` offsets."""
    parts = -(-(end - start) // rows_max)
    for index in range(parts):
        yield start + (end - start) * index // parts, start + (end - start) * (index + 1) // parts


def _records(
    stretch: Stretch, spec: "StoreSpec", fail_on_data_loss: bool, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    from pyspark_lithify.opening import topic_on_executor

    from lithify.store.errors import NotFound, OffsetOutOfRange, SnapshotExpired

    topic = topic_on_executor(spec, stretch.topic)
    where = f"{stretch.topic}/{stretch.partition}"
    if topic.topic_id != stretch.topic_id:
        raise NotFound(f"{where}: the topic was deleted, and another one has its name: start a new query")
    part, at = topic.partition(stretch.partition), stretch.start
    while at < stretch.end:
        snapshot = part.snapshot()
        floor = snapshot.log_start_offset
        if at < floor and fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{where}: retention or a deletion removed the records {at} to {min(floor, stretch.end) - 1}, which "
                "this query has not read. With option failOnDataLoss=false it goes on without them"
            )
        at = max(at, floor)
        if at >= stretch.end:
            return  # all of it was removed
        with contextlib.suppress(SnapshotExpired):  # a slow reader goes on in a newer manifest
            for batch in _in_order(snapshot, at, stretch.end, columns):
                yield batch
                at = batch.column("offset")[-1].as_py() + 1
            return


def _in_order(snapshot: "Snapshot", start: int, end: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    stored = [name for name in columns if name not in ("partition", "offset")]
    for task in snapshot.plan(
        view="log", start_offset=start, end_offset=end, columns=["offset", *stored], ordered=True, tasks=1
    ):
        yield from snapshot.batches(task)


class StreamWriter(DataSourceStreamArrowWriter):
    """SUBTLE! Spark makes one writer for the tasks of a batch and another one for its commit: what the commit needs to
    know comes with the tasks' messages. Test: tests/spark/test_streams_out.py"""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._placing: Placing = placing(options, schema, None, stream=True)

    @told
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query_id, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query_id is not None, "a query's tasks know its id"
        assert batch is not None, "a query's tasks know the batch's number"
        return write(as_before(self._placing, (_application(query_id), int(batch))), iterator, query_id)

    @told
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, Written) and message.query_id]
        if written:
            commit(self._options, messages, (_application(str(written[0].query_id)), batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing, as in `BatchWriter.abort`."""


def _application(query_id: str) -> str:
    return f"spark {query_id}"


def as_before(placing: Placing, txn: tuple[str, int]) -> Placing:
    """Distributed as an earlier attempt of this batch was, which may have appended a part of it. SUBTLE! A task that
    looked by itself might see a commit of another attempt that the task before it did not see, and the two would
    distribute one batch in two ways. Test: tests/spark/test_growing_writes.py"""
    return replace(placing, partitions_count=placing.former.count_for(txn, placing.partitions_count))
