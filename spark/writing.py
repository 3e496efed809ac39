"""df.write and writeStream: tasks write segments of one upload in each partition, the driver appends them (P22, RFC
0019, 0022)."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark_lithify.columns import for_append
from pyspark_lithify.distribution import (
    Former,
    application_over,
    check_distribution,
    former_of,
    keyless_turn,
    upload_id_of,
)
from pyspark_lithify.options import WriteOptions
from pyspark_lithify.telling import told

if TYPE_CHECKING:
    from lithify.log.topic import Topic
    from lithify.log.upload import UploadTask
    from lithify.manifest.model import SegmentRef
    from lithify.store.port import StoreSpec

__all__ = ["BatchWriter", "Placing", "Rows", "Written", "commit", "of_transaction", "placing", "write"]

BUFFERED_BYTES_MAX = 256 << 20  # of one task; the largest partition's rows are then written as a segment
SPLIT_BYTES = 32 << 20  # so many rows are put into their partitions at a time
_LOOK_EVERY_MS = 1_000


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote: in each partition the segments, in the order of its rows. Holds no record."""

    partitions_count: int = 0
    segments: "dict[int, list[tuple[UploadTask, SegmentRef]]]" = field(default_factory=dict)
    query_id: str | None = None  # of a stream


@dataclass(frozen=True)
class Placing:
    """What tasks need to write. `partitions_count`: over how many partitions keys are distributed. `txn`: the
    transaction's application and version. `former`: of a stream, whose tasks alone know the batch; all of them decide
    by what the driver found, and at which time."""

    options: WriteOptions
    names: tuple[str, ...]
    spec: "StoreSpec"
    upload_id: str
    partitions_count: int
    topic_id: str
    txn: tuple[str, int] | None = None
    former: Former = field(default_factory=Former)
    at_ms: int = 0


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._placing = placing(options, schema, options.txn)

    @told
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write(self._placing, iterator)

    @told
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._placing.options, messages, self._placing.options.txn)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing. SUBTLE! Spark calls this after a commit that raised, too, with everything that it may have
        appended. What was not appended is swept once the upload has expired. Test: tests/spark/test_writing.py"""


def placing(options: WriteOptions, schema: StructType, txn: tuple[str, int] | None, *, stream: bool = False) -> Placing:
    from pyspark_lithify.opening import opened

    from lithify.store.driver import new_id

    found = opened(options.common)
    topic, spec = found.topic, found.spec()
    count = topic.partitions_now()
    former = former_of(topic, found.driver.all_of) if txn is not None or stream else Former()
    names = tuple(field.name for field in schema)
    made = Placing(options, names, spec, new_id(), count, topic.topic_id, None, former, found.driver.now_ms())
    return made if txn is None else of_transaction(made, txn)


def of_transaction(placing: Placing, txn: tuple[str, int]) -> Placing:
    """Distributed as an earlier attempt of this transaction was, which may have appended a part of it; with the same
    upload, if that was lately. SUBTLE! A task that looked by itself might see a commit of another attempt that the task
    before it did not see, and the two would distribute one batch in two ways. Test: tests/spark/test_growing_writes.py
    """
    count = placing.former.count_for(txn, placing.partitions_count)
    upload_id = upload_id_of(txn, count, placing.options.upload_ttl_ms, placing.at_ms)
    return replace(placing, partitions_count=count, txn=txn, upload_id=upload_id, former=Former())


def write(placing: Placing, batches: Iterator[pa.RecordBatch], query_id: str | None = None) -> Written:
    """In a task: the rows of each partition as one segment, or a few if they are more than memory should hold."""
    from lithify.manifest.model import UPLOADED_SEGMENTS_MAX
    from lithify.segment.set_aside import set_aside

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    rows = Rows(placing, number)
    for batch in batches:
        if number >= UPLOADED_SEGMENTS_MAX and batch.num_rows:
            raise _too_many(f"this write has more than {UPLOADED_SEGMENTS_MAX} tasks, each with segments of its own")
        rows.add(for_append(batch, placing.names))
    written = rows.written()
    set_aside()
    return Written(placing.partitions_count, written, query_id)


class Rows:
    """Rows of one task by partition, until they are written. `number`: of the task; by it one partition is chosen for
    its rows without a key, unless there is a transaction."""

    def __init__(self, placing: Placing, number: int) -> None:
        self._placing = placing
        self._whole: list[pa.Table] = []  # not yet split
        self._whole_bytes = 0
        self._tables: defaultdict[int, list[pa.Table]] = defaultdict(list)
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._topic: Topic | None = None
        self._tasks: dict[int, UploadTask] = {}
        self._written: dict[int, list[tuple[UploadTask, SegmentRef]]] = {}
        turn = number if placing.txn is None else keyless_turn(placing.txn)
        self._keyless = turn % placing.partitions_count

    def add(self, table: pa.Table) -> None:
        if self._whole_bytes + table.nbytes > SPLIT_BYTES:
            self._split()  # so that a large batch is not copied, nor are two of them more than one array may hold
        self._whole.append(table)
        self._whole_bytes += table.nbytes
        if self._whole_bytes + sum(self._bytes.values()) > BUFFERED_BYTES_MAX:
            self._split()
            while sum(self._bytes.values()) > BUFFERED_BYTES_MAX:
                self._write(max(self._bytes, key=self._bytes.__getitem__))

    def written(self) -> "dict[int, list[tuple[UploadTask, SegmentRef]]]":
        self._split()
        for number in sorted(self._tables):
            self._write(number)
        return self._written

    def _split(self) -> None:
        """SUBTLE! Not each batch by itself: 1. Spark gives 10,000 rows at a time. 2. Over 1,000 partitions these are
        1,000 tables of ten rows, each of which takes kilobytes that its `nbytes` does not count. 3. A task that holds
        256 MiB by its own count takes gigabytes, and is killed. Test: tests/spark/test_many_partitions.py"""
        from lithify.segment.partitioner import rows_by_partition

        whole, self._whole, self._whole_bytes = self._whole, [], 0
        count = self._placing.partitions_count
        # One partition takes the batches as they are, without a copy.
        for table in whole if count == 1 or len(whole) < 2 else (pa.concat_tables(whole).combine_chunks(),):
            for number, rows in rows_by_partition(table, count, self._keyless):
                self._tables[number].append(rows)
                self._bytes[number] += rows.nbytes

    def _write(self, number: int) -> None:
        from lithify.log.upload import write_segment
        from lithify.store.opening import open_spec

        store, task = open_spec(self._placing.spec), self._task(number)
        del self._bytes[number]
        # No name keeps the table, so that it is let go before the segment is encoded.
        ref = write_segment(store, task, pa.concat_tables(self._tables.pop(number)))
        if ref is not None:
            self._written.setdefault(number, []).append((task, ref))

    def _task(self, number: int) -> "UploadTask":
        """The upload is begun by the first task that has rows for a partition; for the others it is the same one."""
        from pyspark_lithify.opening import topic_on_executor

        if number not in self._tasks:
            options = self._placing.options
            if self._topic is None:
                self._topic = topic_on_executor(self._placing.spec, options.common.topic)
                _check_same(self._topic, self._placing.topic_id)
            part = self._topic.partition(number)
            self._tasks[number] = part.begin_upload(ttl=options.upload_ttl_ms, upload_id=self._placing.upload_id)
        return self._tasks[number]


def commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], txn: tuple[str, int] | None) -> None:
    """On the driver: one commit for each partition. Raises what `Partition.upload` raises; its notes say where the
    write was appended before."""
    from pyspark_lithify.opening import opened

    written = [message for message in messages if isinstance(message, Written) and message.segments]
    if not written:
        return
    found = opened(options.common)
    topic = found.topic
    for message in written:
        for task, _ in itertools.chain.from_iterable(message.segments.values()):
            _check_same(topic, task.topic_id, "Nothing was appended.")
    numbers = sorted({number for message in written for number in message.segments})
    for number in numbers:
        _check_count(topic, number, sum(len(message.segments.get(number, ())) for message in written))
    check_distribution(topic, {message.partitions_count for message in written}, txn, found.driver.all_of)
    done: list[int] = []
    for number in numbers:
        given = list(itertools.chain.from_iterable(message.segments.get(number, ()) for message in written))
        stamp = None if txn is None else (application_over(txn[0], written[0].partitions_count), txn[1])
        try:
            _append(topic, number, given, stamp, options.commit_wait_ms)
        except Exception as error:
            error.add_note(_reached(error, done, txn is not None))
            raise
        done.append(number)


def _check_count(topic: "Topic", number: int, count: int) -> None:
    """Of all partitions, before something is appended to the first."""
    from lithify.manifest.model import UPLOADED_SEGMENTS_MAX

    if count > UPLOADED_SEGMENTS_MAX:
        error = _too_many(f"the tasks wrote {count} segments for {topic.name}/{number}")
        error.add_note("Nothing was appended.")
        raise error


def _too_many(what: str) -> Exception:
    from lithify.manifest.model import UPLOADED_SEGMENTS_MAX
    from lithify.store.errors import InvalidRequest

    return InvalidRequest(
        f"{what}, and one commit takes {UPLOADED_SEGMENTS_MAX} segments in a partition: write with fewer, larger "
        "tasks, as df.coalesce(1000).write"
    )


def _check_same(topic: "Topic", topic_id: str, *notes: str) -> None:
    """SUBTLE! A topic may be made again beneath a write. 1. A task writes segments for the first one. 2. It is deleted,
    and made again under its name. 3. Another task begins the same upload there; it may get the same number, so it has
    the same name. 4. We append the segments of both to the second topic, which does not have those of the first: it is
    corrupt for good. Test: tests/spark/test_writing.py
    """
    from lithify.store.errors import NotFound

    if topic.topic_id != topic_id:
        error = NotFound(
            f"topic {topic.name} was deleted while it was written, and another one has its name: write again"
        )
        for note in notes:
            error.add_note(note)
        raise error


def _reached(error: Exception, done: Sequence[int], again_is_skipped: bool) -> str:
    from lithify.store.errors import CommitUnknown

    if not done and not isinstance(error, CommitUnknown):
        return "Nothing was appended."
    again = "the same txnAppId and txnVersion skip what was appended" if again_is_skipped else "they have it twice"
    return f"Appended before this error: partitions {list(done) or 'none'}. If the write is repeated, {again}."


def _append(
    topic: "Topic",
    number: int,
    given: "list[tuple[UploadTask, SegmentRef]]",
    txn: tuple[str, int] | None,
    wait_ms: int,
) -> None:
    """Append to one partition, and wait while it has too many segments to take more; only for what waiting can mend.

    A version that this partition has, or a lower one, is skipped."""
    from lithify.manifest.uploads import UploadGone
    from lithify.store.driver import pause
    from lithify.store.errors import AlreadyExists, InvalidRequest, Unavailable

    expired = InvalidRequest(
        f"{topic.name}/{number}: the write took longer than its upload may last, so what its tasks wrote is gone. "
        "Write again, with a larger uploadTtlMs"
    )
    tasks = {(task.keys, task.name): task for task, _ in given}
    if len(tasks) > 1:
        raise expired  # it was begun anew by a later task
    (task,) = tasks.values()
    for left_ms in range(wait_ms, -1, -_LOOK_EVERY_MS):
        try:
            topic.partition(number).upload(task, [ref for _, ref in given], txn)
            return
        except AlreadyExists:
            return
        except UploadGone:
            raise expired from None
        except Unavailable as error:
            if not error.retryable or left_ms < _LOOK_EVERY_MS:
                raise
            pause(_LOOK_EVERY_MS)
