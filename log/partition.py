"""A partition, as its clients use it."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, overload

import pyarrow as pa

from lithify.log import checkpoints, held, positions
from lithify.log.append import outcome
from lithify.log.consumer import AUTO_COMMIT_INTERVAL_MS, Consumer, ConsumerConfig
from lithify.log.consumer_info import ConsumerInfo, consumer_infos
from lithify.log.follow import POLL_MS, Follower, Gap, OffsetReset, bounded, check_poll_ms, check_reset
from lithify.log.follow import follow as _follow
from lithify.log.frames import Columns
from lithify.log.handle import Handle
from lithify.log.info import Looked, PartitionInfo, described, look
from lithify.log.intake import Records, prepare
from lithify.log.names import check_name
from lithify.log.opening import Opening, Start
from lithify.log.positions import Holds
from lithify.log.record import Record, whole_records
from lithify.log.scan_and_follow import ScanAndFollow, scan_and_follow
from lithify.log.snapshot import Snapshot
from lithify.log.transactions import TransactionInfo, end, forget, stamp_of, transaction_infos
from lithify.log.upload import UploadTask, append_uploaded, begin_upload, check_task
from lithify.log.whole import Batches
from lithify.manifest.config import TopicConfig
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.model import Checkpoint, PinOwner, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import OpenProducer, ProducerStamp, check_holds
from lithify.manifest.transactions import Reach, TransactionStamp
from lithify.segment.write import encode_append
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest

__all__ = ["Partition"]

T = TypeVar("T")


class Partition(Handle):
    """A handle of one partition. Thread-safe: threads that append at once share commits (docs/rfcs/0024). Made by
    `Topic.partition`.

    >>> part = lithify.open("memory://example").create_topic("events").partition(0)
    >>> part.append([lithify.Record(b"ada", b"login"), lithify.Record(b"ada", b"logout")])
    range(0, 2)
    >>> [(record.offset, record.value) for record in part.read(start_offset=1)]
    [(1, b'logout')]

    Every read begins with the newest manifest, so it shows every append acknowledged before, by any process. All
    methods raise NotFound once the topic is deleted, even if a new topic has the same name.
    """

    def append(
        self,
        records: Records,
        txn: tuple[str, int] | None = None,
        *,
        key: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
    ) -> range:
        """Append records, dicts, or a table with columns key, value and optionally timestamp_ms and headers, as one
        atomic commit of at most 512 MiB; answers with their offsets, in order. On return they are durable.

        A table is anything that speaks Arrow: a DataFrame of pandas or polars, a relation of DuckDB, what pyarrow has.
        `key`, `value` and `timestamp` name its columns (or the fields of dicts) if they have other names; columns that
        are not named are left out then. Text is stored as UTF-8.

        `txn` is (application, version): an application's version is appended once, however often it is tried; versions
        only grow. It is remembered until the application was idle for transactional.id.expiration.ms, or longer. An
        append without records commits nothing, and does not store its `txn`.
        Raises InvalidRequest, Unavailable, AlreadyExists (a `txn` before the latest): nothing was appended; NotFound:
        the topic was deleted, with everything in it.
        Raises CommitUnknown: it may have been appended; give its token to `outcome`.
        """
        transaction = stamp_of(txn)
        columns = Columns(key, value, timestamp)
        table = prepare(records, self._config(), self._driver.now_ms(), self._files.name, columns=columns)
        return self.append_prepared(table, transaction=transaction)

    def append_prepared(
        self, table: pa.Table, *, producer: ProducerStamp | None = None, transaction: TransactionStamp | None = None
    ) -> range:
        """As `append`. Requires: `table` comes from `lithify.log.intake.prepare`."""
        if table.num_rows == 0:
            return self._nothing()
        config = self._config()
        body, ref = encode_append(table, "key" if config.compacted else "offset")
        most, expiration_ms = config.l0_segments_max, config.transactional_id_expiration_ms
        how: dict[str, Any] = {"producer": producer, "transaction": transaction, "expiration_ms": expiration_ms}
        files = self._files.beside()
        try:
            offsets = self._appending.append(
                self._driver, files, body, ref, self._deadline_ms, l0_segments_max=most, **how
            )
            self._gets.recent.appended(offsets)
            return offsets
        finally:
            self._learn(files)

    def begin_upload(self, *, ttl: int | timedelta = timedelta(days=1), upload_id: str | None = None) -> UploadTask:
        """Allow any number of processes to `write_segment` with the task that this returns; `upload` appends what they
        wrote. For up to `ttl` (milliseconds or a timedelta; at most 7 days) no collector deletes it.

        Whoever chooses `upload_id` (16 hexadecimal digits) may begin the upload again: while it stands it is the same
        one, afterwards another. Raises InvalidRequest, Unavailable: 256 uploads stand here that were not appended;
        NotFound: the topic was deleted; CommitUnknown: begin again.
        """
        begun = self._run(begin_upload(self._files, upload_id, checkpoints.ttl_ms_of(ttl) or 0))
        return UploadTask.of(self._files.keys, begun, self._config())

    def upload(
        self, task: UploadTask, segments: Sequence[SegmentRef | None], txn: tuple[str, int] | None = None
    ) -> range:
        """Append what `write_segment` answered to this very task, as one atomic commit of at most 4,096 segments;
        answers with the offsets, in the order of `segments`. While the upload stands, a second call appends nothing,
        and answers with the offsets of the first; once it has expired, or 256 others needed its place, it is refused.
        `txn` as in `append`; without segments nothing is committed.

        Raises errors as `append`; Unavailable: this call appended nothing (too many L0 segments, or the upload
        was removed); CommitUnknown: call it again, or give the token to `outcome`.
        """
        transaction, given = stamp_of(txn), tuple(ref for ref in segments if ref is not None)
        check_task(task, self._files)
        if not given:
            return self._nothing()
        return self._run(append_uploaded(self._files, task.name, given, self._config(), transaction))

    def _nothing(self) -> range:
        end = self._head().next_offset
        return range(end, end)

    def lent(self, driver: Driver, config: TopicConfig, deadline_ms: int | None = None) -> "Partition":
        """The same handle, with the same lock, for a caller that waits in its own way, at most until `deadline_ms`, and
        knows the configuration."""
        lent = copy.copy(self)
        lent._driver, lent._config, lent._deadline_ms = driver, lambda: config, deadline_ms
        return lent

    def transactions(self) -> tuple[TransactionInfo, ...]:
        """The applications whose `txn` is remembered, the longest idle first."""
        return transaction_infos(self._head())

    def forget_transaction(self, application: str) -> None:
        """Whatever `application` sends later is appended as if it came for the first time. Raises NotFound."""
        self._run(forget(self._files, application))

    def end_transaction(self, application: str, *, at: Reach | None = None) -> None:
        """Mark the application as finished: at the limit it is forgotten first. `at`: only if it is still at this
        version."""
        self._run(end(self._files, application, at))

    def open_producer(self, producer_id: str) -> ProducerStamp:
        """Take the next epoch of an idempotent producer, which fences older epochs here. Returns the stamp for its
        first append; the stamp's sequence counts the records that are already here."""
        return self._commit(OpenProducer(check_name(f"{self._files.name}: a producer's id", producer_id)))

    def check_producer(self, stamp: ProducerStamp) -> None:
        """Raises Fenced if a later instance of the producer was opened here."""
        check_holds(self._head(), stamp, self._files.name)

    def outcome(self, token: str, settle: bool = False) -> range | None:
        """Whether an append happened that raised CommitUnknown with `token`: its offsets, or None: it certainly did not
        happen and never will. Raises CommitUnknown if that is unknown, InvalidRequest for the token of another
        partition's append.

        Until another commit, the lost request might still arrive. `settle` makes the answer certain: a commit that
        changes nothing takes its place, unless it did arrive.
        """
        return self._run(outcome(self._files, token, settle=settle))

    @overload
    def read(
        self,
        start_offset: int | None = 0,
        end_offset: int | None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        follow: Literal[False] = False,
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Record]: ...

    @overload
    def read(
        self,
        start_offset: int | None = 0,
        end_offset: None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        follow: Literal[True],
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Record | Gap]: ...

    def read(
        self,
        start_offset: int | None = 0,
        end_offset: int | None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        follow: bool = False,
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Record] | Iterator[Record | Gap]:
        """Every stored record from `start_offset` on (and before `end_offset`), in offset order, including superseded
        ones and tombstones (value None). The call fixes where it begins and ends. Gaps in offsets are normal after
        compaction. Raises OffsetOutOfRange beyond the log; at its end there is nothing to read.

        If the log no longer has `start_offset`, or it is None, `auto_offset_reset` says where to begin: "earliest",
        "latest", or "error" (OffsetOutOfRange), as Kafka's auto.offset.reset.

        With `follow` it never ends by itself: it looks for new commits every `poll_ms`, until `stop` (called between
        two looks, and between stretches of 500 records) returns true, or the iterator is closed. If retention overtakes
        it, it yields a `Gap` before it continues. A start beyond the log is reset too. An exception does not end it:
        after Unavailable, ask for the next record again.
        """
        reset = check_reset(auto_offset_reset)
        if not follow:
            return whole_records(self._log(start_offset, end_offset, reset), self._files.name)
        if end_offset is not None:
            raise InvalidRequest(f"{self._files.name}: give either follow or end_offset: following has no end")
        return _follow(self.follower(start_offset, reset), check_poll_ms(poll_ms), stop)

    def read_batches(
        self,
        start_offset: int | None = 0,
        end_offset: int | None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
    ) -> pa.RecordBatchReader:
        """As `read`, in batches with columns key, value, offset, timestamp_ms, headers."""
        return self._log(start_offset, end_offset, check_reset(auto_offset_reset)).reader()

    def _log(self, start: int | None, end: int | None, reset: OffsetReset) -> Batches:
        return self._of_head(lambda snapshot: snapshot.log(*bounded(snapshot, start, end, reset)))

    def _of_head(self, read: Callable[[Snapshot], Batches]) -> Batches:
        return self._beside_head.batches(self._driver.store, self.snapshot, self._likely, read)

    def follower(
        self,
        start_offset: int | None = 0,
        auto_offset_reset: OffsetReset = "earliest",
        *,
        resumed: bool = False,
        added: bool = False,
    ) -> Follower:
        """What `read(follow=True)` uses, for callers who do the waiting themselves: `take` never waits. `resumed`: an
        earlier reader stopped at this offset; if records are missing from there, that is a gap. `added`: the same for a
        partition that was added later, whose records were all to be read."""
        files, reset = PartitionFiles(self._files.keys), check_reset(auto_offset_reset)
        return Follower(self._driver, files, self._open, start_offset, reset, resumed=resumed or added, added=added)

    def scan_and_follow(
        self,
        consumer: str | None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        auto_commit_interval_ms: int | None = AUTO_COMMIT_INTERVAL_MS,
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> ScanAndFollow:
        """For state stores: the latest record of each key, then every later record, none missed and none twice.

        With `consumer` the changes come from the named consumer; its position then implies that the state was rebuilt.
        """
        config = ConsumerConfig(check_reset(auto_offset_reset), auto_commit_interval_ms, poll_ms, stop)
        name = None if consumer is None else positions.check_consumer_name(consumer)
        return scan_and_follow(self._driver, self._files.keys, self.snapshot(), self._open, name, config)

    def consumer(
        self,
        name: str,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        auto_commit_interval_ms: int | None = AUTO_COMMIT_INTERVAL_MS,
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> Consumer:
        """Resume reading where the last consumer of this name stopped, and take over the name: an instance that still
        runs is refused at its next commit. A new name begins where `auto_offset_reset` says."""
        config = ConsumerConfig(check_reset(auto_offset_reset), auto_commit_interval_ms, poll_ms, stop)
        return self.opening(positions.check_consumer_name(name), config).take()

    def opening(self, name: str, config: ConsumerConfig, *, added: bool = False, holds: Holds | None = None) -> Opening:
        """As `consumer`, in two steps. `added`: the partition was added after the consumer first read its topic; if it
        has no position here, it begins at offset 0. `holds` raises if another instance has replaced the caller's."""
        start = Start(added=added, holds=holds)
        return Opening(self._driver, self._files.keys, self._open, name, config, start)

    def consumers(self) -> tuple[ConsumerInfo, ...]:
        """Named consumers with their positions and lags, by name."""
        head = self._head()
        return consumer_infos(head, self._floor(head))

    def reset_consumer(self, name: str, to: int | Literal["earliest", "latest"]) -> int:
        """Set a consumer's position to an offset, to the log's start or to its end; returns it. A running instance is
        refused at its next commit. Raises NotFound, OffsetOutOfRange."""
        resetting = positions.reset(self._files, positions.check_consumer_name(name), to, self._floor)
        return self._run(resetting).offset

    def delete_consumer(self, name: str) -> None:
        """Delete a named consumer. Raises NotFound."""
        self._run(positions.forget(self._files, positions.check_consumer_name(name)))

    def scan(
        self,
        tombstones: bool = False,
        *,
        low: bytes | None = None,
        high: bytes | None = None,
        columns: Iterable[str] | None = None,
    ) -> pa.RecordBatchReader:
        """The latest record of each key with low ≤ key < high, in key order; deleted keys only with `tombstones`."""
        return self._of_head(lambda snapshot: snapshot.latest(tombstones, low, high, columns)).reader()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """As `scan`, for whatever reads Arrow: `polars.DataFrame(part)`, or DuckDB's `from part`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def get(self, key: bytes | str, *, max_staleness_ms: int = 0) -> Record | None:
        """The latest record of `key`; None: there is none, or it was deleted. With `max_staleness_ms` the answer may be
        up to this many milliseconds old (see `get_many`)."""
        return self.get_many((key,), max_staleness_ms=max_staleness_ms)[0]

    def get_many(self, keys: Iterable[bytes | str], *, max_staleness_ms: int = 0) -> list[Record | None]:
        """As `get`, for each of `keys`, in their order, all from one manifest.

        With `max_staleness_ms` (at most an hour) the answer may be up to this many milliseconds old: it has every
        append that was acknowledged before that, and every one through this handle. If nothing of what it needs is new
        to this process, the call makes no request. Retention by time counts as ever.

        >>> part = lithify.open("memory://example").create_topic("users").partition(0)
        >>> _ = part.append([lithify.Record(b"ada", b"free"), lithify.Record(b"bela", b"team")])
        >>> [record and record.value for record in part.get_many([b"bela", b"carl", b"ada"], max_staleness_ms=1_000)]
        [b'team', None, b'free']
        """
        return self.get_many_beside(keys, max_staleness_ms, None)

    def snapshot(
        self, pin: str | None = None, ttl: int | timedelta | None = None, *, manifest: int | None = None
    ) -> Snapshot:
        """Read from one manifest: the newest, or the one with that number while it is retained. With `pin`, a
        checkpoint of that name keeps it readable: one that has not expired is opened as it was pinned, otherwise one is
        made that expires `ttl` (milliseconds or a timedelta; None: never) from now. Without, a `ttl` of at most an hour
        keeps it readable for that long, and whoever reads tasks of `Snapshot.plan` renews it (docs/rfcs/0021)."""
        ttl_ms = checkpoints.ttl_ms_of(ttl)
        return self._snapshot(*self._run(held.opened(self._files, pin, ttl_ms, manifest)), ttl_ms)

    def pinned(self, name: str) -> Snapshot:
        """The snapshot that checkpoint `name` pins. As `snapshot(pin=name)`, but makes none. Raises NotFound."""
        return self._snapshot(*self._run(checkpoints.pinned(self._files, checkpoints.check_checkpoint_name(name))))

    def checkpoints(self, owner: PinOwner | None = "user") -> tuple[Checkpoint, ...]:
        """The checkpoints made by users; or by another `owner`: "scan", "view", None for all."""
        return tuple(found for found in self._head().checkpoints if owner in (None, found.owner))

    def refresh_checkpoint(self, name: str, ttl: int | timedelta | None = None) -> Checkpoint:
        """Let the checkpoint expire `ttl` (milliseconds or a timedelta; None: never) from now. Raises NotFound."""
        name, ttl_ms = checkpoints.check_checkpoint_name(name), checkpoints.ttl_ms_of(ttl)
        return self._run(checkpoints.refresh(self._files, name, ttl_ms))

    def delete_checkpoint(self, name: str) -> None:
        """Delete checkpoint `name`. Raises NotFound."""
        self._run(checkpoints.delete(self._files, checkpoints.check_checkpoint_name(name)))

    def describe(self) -> PartitionInfo:
        return self.described(self.look())

    def look(self) -> Looked:
        """What `described` goes by; needs no configuration."""
        return self._run(look(self._files))

    def described(self, looked: Looked) -> PartitionInfo:
        return described(looked, self._bounded(looked.head), self._config(), self._driver.now_ms())

    def delete_records(self, before_offset: int) -> int:
        """Move the log start offset up to `before_offset` by hand (KIP-107; -1: to the end); returns it. Readers see it
        at once, it cannot be undone; the next compaction and collection free the bytes.

        Raises OffsetOutOfRange beyond the end of the log.
        """
        if type(before_offset) is not int or before_offset < -1:
            raise InvalidRequest(
                f"{self._files.name}: before_offset must be an integer >= 0, or -1 for the end of the log"
            )
        before = self._head().next_offset if before_offset == -1 else before_offset
        return self._commit(RaiseFloor(before))
