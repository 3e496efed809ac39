"""A partition, as its clients use it."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import pyarrow as pa

from lithify.log import checkpoints
from lithify.log.append import append, outcome
from lithify.log.info import PartitionInfo, partition_info
from lithify.log.intake import Records, prepare
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.manifest.appends import OpenProducer, ProducerStamp, TransactionStamp, topic_gone
from lithify.manifest.config import TopicConfig
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Checkpoint, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.segment.write import encode_append
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound, SnapshotExpired
from lithify.store.port import Request

__all__ = ["Partition"]

T = TypeVar("T")

APPLICATION_CHARACTERS_MAX = 249


class Partition:
    """A handle of one partition. Thread-safe: its protocol steps take turns, reading goes on beside them.

    Every read begins with the newest manifest, so it shows every append that was acknowledged before, by any process.
    All methods raise NotFound once the topic is deleted; a topic of that name made since is another one.
    """

    def __init__(self, driver: Driver, keys: PartitionKeys, config: Callable[[], TopicConfig]) -> None:
        self._driver = driver
        self._config = config
        self._files = PartitionFiles(keys)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Partition({self._files.name})"

    @property
    def topic(self) -> str:
        return self._files.keys.topic

    @property
    def number(self) -> int:
        return self._files.keys.partition

    def _run(self, coroutine: Coroutine[Request[Any], Any, T]) -> T:
        with self._lock:
            return self._driver.run(coroutine)

    def append(self, records: Records, txn: tuple[str, int] | None = None) -> range:
        """Append records, or a table with columns key, value and perhaps timestamp_ms and headers, as one atomic
        commit of at most 512 MiB; answers with their offsets, in order. It is durable on return.

        `txn` is (application, version): an application's version is appended once, however often it is tried; versions
        only grow. An append without records commits nothing, its `txn` neither.
        Raises InvalidRequest, NotFound, Unavailable, AlreadyExists (a `txn` before the latest): nothing was appended.
        Raises CommitUnknown: it may have been; give its token to `outcome`.
        """
        transaction = _transaction(txn)
        table = prepare(records, self._config(), self._driver.now_ms(), self._files.name)
        return self.append_prepared(table, transaction=transaction)

    def append_prepared(
        self, table: pa.Table, *, producer: ProducerStamp | None = None, transaction: TransactionStamp | None = None
    ) -> range:
        """As `append`. Requires: `table` comes from `lithify.log.intake.prepare`."""
        if table.num_rows == 0:
            end = self._head().next_offset
            return range(end, end)
        config = self._config()
        body, ref = encode_append(table, "key" if config.compacted else "offset")
        appending = append(
            self._files,
            body,
            ref,
            l0_segments_max=config.l0_segments_max,
            producer=producer,
            transaction=transaction,
        )
        return self._run(appending)

    def open_producer(self, producer_id: str) -> int:
        """Take the next epoch of an idempotent producer; older epochs are fenced here from now on."""
        return self._run(self._files.manifest.commit(OpenProducer(producer_id))).result

    def outcome(self, token: str, settle: bool = False) -> range | None:
        """What became of an append that raised CommitUnknown with `token`: its offsets, or None: it certainly did not
        happen and never will. Raises CommitUnknown where that cannot be said.

        While nobody committed since, the lost request might still arrive. With `settle` the answer is made certain: a
        commit that changes nothing takes its place, unless it did arrive.
        """
        return self._run(outcome(self._files, token, settle=settle))

    def read(self, start_offset: int = 0, end_offset: int | None = None) -> Iterator[Record]:
        """Every stored record from `start_offset` on (and before `end_offset`), in offset order, superseded ones and
        tombstones (value None) included. Where it ends is fixed by the call. Raises OffsetOutOfRange beyond the log;
        at its end there is nothing to read. Gaps in offsets are normal after compaction."""
        return self.snapshot().read(start_offset, end_offset)

    def read_batches(self, start_offset: int = 0, end_offset: int | None = None) -> pa.RecordBatchReader:
        """As `read`, in batches with columns key, value, offset, timestamp_ms, headers."""
        return self.snapshot().read_batches(start_offset, end_offset)

    def scan(self, tombstones: bool = False) -> pa.RecordBatchReader:
        """The latest record of each key, in key order; deleted keys only with `tombstones`."""
        return self.snapshot().scan(tombstones)

    def get(self, key: bytes) -> Record | None:
        """The latest record of `key`; None where there is none, or it was deleted."""
        return self.snapshot().get(key)

    def snapshot(self, pin: str | None = None, ttl: int | timedelta | None = None) -> Snapshot:
        """Read on one manifest. With `pin` it is kept readable by a checkpoint of that name: an existing one is opened
        as it was pinned, else one is made that expires `ttl` (milliseconds or a timedelta; None: never) from now."""
        if pin is None:
            if ttl is not None:
                raise InvalidRequest(f"{self._files.name}: a ttl is a pin's; give the snapshot a pin, too")
            return self._snapshot(self._head(), None)
        name = checkpoints.check_checkpoint_name(pin)
        manifest, checkpoint = self._run(checkpoints.pin(self._files, name, _ttl_ms(ttl)))
        return self._snapshot(manifest, checkpoint)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        return self._head().checkpoints

    def refresh_checkpoint(self, name: str, ttl: int | timedelta | None = None) -> Checkpoint:
        """Let it expire `ttl` (milliseconds or a timedelta; None: never) from now. Raises NotFound."""
        return self._run(checkpoints.refresh(self._files, checkpoints.check_checkpoint_name(name), _ttl_ms(ttl)))

    def delete_checkpoint(self, name: str) -> None:
        """Raises NotFound."""
        self._run(checkpoints.delete(self._files, checkpoints.check_checkpoint_name(name)))

    def describe(self) -> PartitionInfo:
        head = self._head()
        return partition_info(head, self._config(), _floor(head), self._driver.now_ms())

    def _head(self) -> Manifest:
        head = self._run(self._files.head())
        if head.sealed:
            raise topic_gone(head)
        return head

    def _snapshot(self, manifest: Manifest, checkpoint: Checkpoint | None) -> Snapshot:
        keys, floor = self._files.keys, _floor(manifest)
        return Snapshot(self._driver.store, keys, manifest, floor, self._explain_missing, checkpoint)

    def _explain_missing(self, manifest: Manifest, missing: NotFound) -> LithifyError:
        """A reader of a retained manifest never meets a missing file (P16): is this one still retained?"""
        head = self._run(self._files.head())
        boundary = self._files.boundary.seen.value  # read by `head`, after the object was found missing
        dead = boundary is not None and manifest.id <= boundary.manifest
        if dead and all(checkpoint.manifest != manifest.id for checkpoint in head.checkpoints):
            return SnapshotExpired(
                f"{self._files.name}: manifest {manifest.id} is no longer retained, and its segments were collected; "
                "open a new snapshot, and give it a pin if it must outlive compactions"
            )
        return Corrupt(
            f"{self._files.name}: {missing} Manifest {manifest.id}, which is retained, names it: restore the object "
            "from a copy, and run 'lithify verify' to find all that is missing"
        )


def _floor(manifest: Manifest) -> int:
    """Where the log starts for a reader of `manifest` (R3)."""
    return manifest.log_start_offset


def _transaction(txn: tuple[str, int] | None) -> TransactionStamp | None:
    if txn is None:
        return None
    application, version = txn if type(txn) is tuple and len(txn) == 2 else ("", -1)
    if type(application) is not str or type(version) is not int or version < 0:
        raise InvalidRequest("txn is (application, version): a text and a whole number from 0")
    if not 1 <= len(application) <= APPLICATION_CHARACTERS_MAX:
        raise InvalidRequest(f"txn's application has 1 to {APPLICATION_CHARACTERS_MAX} characters")
    return TransactionStamp(application, version)


def _ttl_ms(ttl: int | timedelta | None) -> int | None:
    ttl_ms = ttl // timedelta(milliseconds=1) if isinstance(ttl, timedelta) else ttl
    if ttl_ms is not None and (type(ttl_ms) is not int or ttl_ms <= 0):
        raise InvalidRequest("a ttl is a number of milliseconds above 0, or a timedelta; None never expires")
    return ttl_ms
