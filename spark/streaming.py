"""readStream and writeStream (docs/rfcs/0022): the log of each partition from an offset to another, once each; and one
transaction for each batch of a query."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from pyspark_lithify.cold import tell_cold
from pyspark_lithify.columns import for_spark
from pyspark_lithify.offsets import ends_in_order, limited, read_offsets, spell_offsets, stretches
from pyspark_lithify.options import StreamReadOptions, WriteOptions
from pyspark_lithify.telling import told, told_while_read
from pyspark_lithify.writing import Placing, Written, commit, of_transaction, placing, write

if TYPE_CHECKING:
    from pyspark_lithify.opening import Opened

    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic
    from lithify.manifest.model import Growth
    from lithify.segment.read_task import ReadTask
    from lithify.store.port import StoreSpec

__all__ = ["StreamReader", "StreamWriter", "Stretch"]

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
    """Offsets are as `spell_offsets` gives them."""

    def __init__(self, options: StreamReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._found: Opened | None = None
        self._last: dict[int, range] | None = None  # of a query with the trigger AvailableNow
        self._seen: Sequence[Snapshot] | None = None  # of each partition, as last asked for
        self._growths: Sequence[Growth] = ()  # of the topic, then
        self._told_cold = False

    @told
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        starting = self._options.starting
        found: dict[int, int] = {}
        for number, log in self._logs_to_read().items():
            at = log.stop if starting == "latest" else log.start
            if isinstance(starting, Mapping) and number in starting:
                at = self._within(number, starting[number], log)
            found[number] = at
        if isinstance(starting, Mapping):
            self._check_named(starting, found)
        return self._spelled(found)

    @told
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = self._read(start)
        logs = self._logs_to_read()
        if self._options.fail_on_data_loss:
            self._check_there(begin, logs)
        else:
            begin = {
                number: min(max(begin.get(number, 0), log.start), log.stop)
                for number, log in logs.items()
                if number in begin or log.start
            }
        ends = ends_in_order(begin, logs, self._growths)
        if isinstance(limit, ReadMaxRows):
            ends = limited(begin, ends, limit.max_rows)
        return self._spelled(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @told
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._logs()

    @told
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Spark asks for its metrics, right after `latestOffset`: no further look at the store."""
        logs = self._logs() if self._seen is None else _logs_of(self._seen)
        return self._spelled({number: log.stop for number, log in logs.items()})

    @told
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A partition that the start does not name was added since: it is read from its first record."""
        opened, begin, ends = self._open(), self._read(start), self._read(end)
        spec = opened.spec(self._homes_needed())
        self._tell_cold(begin, ends)
        found: list[InputPartition] = []
        for number, last in ends.items():
            for first, stop in stretches(begin.get(number, 0), last, self._options.rows_per_task):
                stretch = Stretch(opened.topic.name, opened.topic.topic_id, number, first, stop)
                found.append(StretchPartition(stretch, spec))
        return found

    @told_while_read
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lithify.segment.set_aside import set_aside

        if not isinstance(partition, StretchPartition):
            return  # Spark's own placeholder, if there are no stretches
        stretch = partition.stretch
        for batch in _records(stretch, partition.spec, self._options.fail_on_data_loss, self._columns):
            yield for_spark(batch, self._columns, stretch.partition)
        set_aside()

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark keeps the position in the query's checkpoint."""

    def stop(self) -> None:
        """Nothing is held."""

    def _open(self) -> "Opened":
        if self._found is None:
            from pyspark_lithify.opening import opened

            self._found = opened(self._options.common)
        return self._found

    def _topic(self) -> "Topic":
        return self._open().topic

    def _logs_to_read(self) -> dict[int, range]:
        """SUBTLE! With the trigger AvailableNow, for the first offset, too: 1. Spark has the query's end noted: 100. 2.
        Others append up to 110. 3. A new query begins at "latest", which would be 110 now, beyond its end; its next
        call would take the warehouse for one that was restored. Test: tests/spark/test_stream_offsets.py"""
        return self._logs() if self._last is None else self._last

    def _logs(self) -> dict[int, range]:
        """The offsets of each partition's log now, from its start to its end; all partitions are asked together."""
        seen = self._topic().snapshot()
        self._seen, self._growths = seen.partitions, seen.places.growths
        return _logs_of(self._seen)

    def _homes_needed(self) -> frozenset[str]:
        """Those in which executors may find a segment. They read the newest manifest, which may be a later one: so
        where segments go counts, too."""
        if self._seen is None and "homes" in self._options.common.storage_options:
            self._logs()  # of a batch that is repeated after a restart nothing was asked yet
        named = (snapshot.homes for snapshot in self._seen or ())
        return frozenset((self._topic().parsed_config.cold_home,)).union(*named)

    def _tell_cold(self, begin: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Once for a query, at its first batch that reads there; not of a batch that is repeated after a restart."""
        if not self._told_cold:
            named = [(number, each) for number, each in enumerate(self._seen or ()) if each.homes]
            tasks = [_whole(each, begin.get(number, 0), ends.get(number, 0)) for number, each in named]
            self._told_cold = tell_cold(self._options.common.topic, itertools.chain.from_iterable(tasks))

    def _spelled(self, offsets: Mapping[int, int]) -> dict[str, Any]:
        topic = self._topic()
        return spell_offsets(topic.name, topic.topic_id, offsets)

    def _read(self, spelled: object) -> dict[int, int]:
        topic = self._topic()
        return read_offsets(spelled, topic.name, topic.topic_id)

    def _check_there(self, begin: Mapping[int, int], logs: Mapping[int, range]) -> None:
        """SUBTLE! 1. A query has read up to 100. 2. The log is restored to a point where it ended at 40. 3. The query
        takes 100 for the end, and is silent until others have appended 60 records, which it never reads. Test:
        tests/spark/test_stream_offsets.py"""
        for number, at in begin.items():
            end = logs[number].stop if number in logs else 0
            if end < at or number not in logs:
                raise restored(f"{self._options.common.topic}/{number}", at, end if number in logs else None)

    def _within(self, number: int, at: int, log: range) -> int:
        if log.start <= at <= log.stop:
            return at
        if at < log.start and not self._options.fail_on_data_loss:
            return log.start
        from lithify.store.errors import OffsetOutOfRange

        raise OffsetOutOfRange(
            f"{self._options.common.topic}/{number}: startingOffsets says {at}; the log has {log.start} to {log.stop}"
        )

    def _check_named(self, starting: Mapping[int, int], found: Mapping[int, int]) -> None:
        strange = sorted(set(starting) - set(found))
        if strange:
            from lithify.store.errors import InvalidRequest

            raise InvalidRequest(
                f"startingOffsets names partition {strange[0]}; topic {self._options.common.topic} has {len(found)}"
            )


def _whole(snapshot: "Snapshot", start: int, end: int) -> "list[ReadTask]":
    """What a stretch of its log is read from. Asks the store for nothing."""
    start, end = max(start, snapshot.log_start_offset), min(end, snapshot.next_offset)
    if start >= end:
        return []
    return snapshot.plan(view="log", start_offset=start, end_offset=end, columns=["offset"], tasks=1)


def _logs_of(snapshots: "Sequence[Snapshot]") -> dict[int, range]:
    return {number: range(each.log_start_offset, each.next_offset) for number, each in enumerate(snapshots)}


def restored(where: str, at: int, end: int | None) -> Exception:
    """`end`: of the log; None: the partition is not there."""
    from lithify.store.errors import OffsetOutOfRange

    ends = "the topic does not have this partition" if end is None else f"the log ends at {end}"
    return OffsetOutOfRange(
        f"{where}: {ends}, and this query has read up to {at}. Was the warehouse restored to an earlier point? What "
        "was appended after it is gone. Start the query with a new checkpointLocation; or with option "
        "failOnDataLoss=false, which goes on at the end of the log"
    )


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
        if snapshot.next_offset < stretch.end and fail_on_data_loss:
            raise restored(where, stretch.end, snapshot.next_offset)
        at, end = max(at, floor), min(stretch.end, snapshot.next_offset)
        if at >= end:
            return  # all of it was removed
        with contextlib.suppress(SnapshotExpired):  # a slow reader goes on in a newer manifest
            for batch in _in_order(snapshot, at, end, columns):
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
        return write(of_transaction(self._placing, (_application(query_id), int(batch))), iterator, query_id)

    @told
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, Written) and message.query_id]
        if written:
            commit(self._options, messages, (_application(str(written[0].query_id)), batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing, as in `BatchWriter.abort`."""


def _application(query_id: str) -> str:
    return f"spark {query_id}"
