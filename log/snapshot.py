"""Reading a partition as it was in one manifest."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from lithify.log.reader import in_offset_order, latest_by_key, sorts
from lithify.log.record import Record, to_records
from lithify.log.whole import Whole
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Checkpoint, Manifest, SegmentRef
from lithify.segment.read import FETCH_BYTES_MAX, SegmentReader
from lithify.segment.scan import get
from lithify.segment.schema import RECORDS
from lithify.store.errors import InvalidRequest, LithifyError, NotFound, OffsetOutOfRange
from lithify.store.port import Store

__all__ = ["Snapshot"]


class Snapshot:
    """One manifest of a partition, and its log start offset at the time of the snapshot (R3). Made by
    `Partition.snapshot`.

    >>> part = lithify.open("memory://example").create_topic("users").partition(0)
    >>> _ = part.append([lithify.Record(b"ada", b"free")])
    >>> before = part.snapshot(pin="before the change", ttl=3_600_000)  # readable for an hour at least
    >>> _ = part.append([lithify.Record(b"ada", b"pro")])
    >>> before.get(b"ada").value, part.get(b"ada").value
    (b'free', b'pro')

    Thread-safe; it holds nothing open. If it is pinned by `checkpoint` it stays readable until that is deleted or
    expires; otherwise for as long as its manifest is retained, after which reads raise SnapshotExpired. An iterator
    that has failed fails again however often it is asked: begin another one.
    """

    def __init__(
        self,
        store: Store,
        keys: PartitionKeys,
        manifest: Manifest,
        floor: int,
        explain: Callable[[Manifest, NotFound], LithifyError],
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """`explain` says what a missing object of this manifest means."""
        self._store = store
        self._keys = keys
        self._manifest = manifest
        self._floor = floor
        self._explain = explain
        self.checkpoint = checkpoint

    def __repr__(self) -> str:
        return f"Snapshot({self._keys.topic}/{self._keys.partition} at manifest {self.manifest_id})"

    @property
    def manifest_id(self) -> int:
        return self._manifest.id

    @property
    def log_start_offset(self) -> int:
        return self._floor

    @property
    def next_offset(self) -> int:
        return self._manifest.next_offset

    def read(self, start_offset: int = 0, end_offset: int | None = None) -> Iterator[Record]:
        """Every stored record with start_offset ≤ offset < end_offset, in offset order, superseded ones and tombstones
        (value None) included; those below the log start offset are not shown. Raises OffsetOutOfRange."""
        return Whole(to_records(self._in_offset_order(start_offset, end_offset)), self._where)

    def read_batches(self, start_offset: int = 0, end_offset: int | None = None) -> pa.RecordBatchReader:
        """As `read`, in batches with columns key, value, offset, timestamp_ms, headers."""
        return self._reader(self._in_offset_order(start_offset, end_offset))

    def sorts(self, start_offset: int) -> bool:
        """Whether `read` from there on takes a sort: where compaction put records in the order of their keys."""
        return sorts(self._manifest, start_offset)

    def scan(self, tombstones: bool = False) -> pa.RecordBatchReader:
        """The latest record of each key, in key order; deleted keys only with `tombstones`."""
        batches = latest_by_key(self._manifest, self._open, self._floor, tombstones=tombstones)
        return self._reader(self._guarded(batches))

    def get(self, key: bytes) -> Record | None:
        """The latest record of `key`; None where there is none, or it was deleted."""
        if type(key) is not bytes:
            raise InvalidRequest(f"{self._where}: a key is bytes, not {type(key).__name__}")
        candidates = [(self._keys.key_of(ref), ref) for ref in self._manifest.segments()]
        try:
            found = get(self._store, candidates, key, self._floor)
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
        record = None if found is None else next(to_records(iter([found])))
        return None if record is None or record.value is None else record

    @property
    def _where(self) -> str:
        return f"{self._keys.topic}/{self._keys.partition}"

    def _in_offset_order(self, start: int, end: int | None) -> Iterator[pa.RecordBatch]:
        following = self.next_offset
        if type(start) is not int or start < 0 or (end is not None and (type(end) is not int or end < start)):
            raise InvalidRequest(f"{self._where}: offsets are whole numbers from 0, and none ends before it starts")
        if start > following:
            raise OffsetOutOfRange(
                f"{self._where}: offset {start} lies beyond the log, which ends before {following}: read from "
                f"{self._floor} to {following}"
            )
        start, end = max(start, self._floor), following if end is None else min(end, following)
        if start >= end:
            return iter(())
        return self._guarded(in_offset_order(self._manifest, self._open, start, end))

    def _open(self, ref: SegmentRef, fetch_bytes: int = FETCH_BYTES_MAX) -> SegmentReader:
        return SegmentReader(self._store, self._keys.key_of(ref), ref, fetch_bytes=fetch_bytes)

    def _reader(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(RECORDS, Whole(batches, self._where))

    def _guarded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
