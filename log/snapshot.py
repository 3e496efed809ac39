"""Read a partition as it was in one manifest."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from lithify.log.record import Record, to_records
from lithify.log.whole import Whole
from lithify.manifest.bounds import Bounds
from lithify.manifest.model import Checkpoint, Manifest
from lithify.segment.offset_order import in_offset_order, sorts
from lithify.segment.scan import get, latest_by_key
from lithify.segment.schema import RECORDS
from lithify.segment.segments import Segments
from lithify.store.errors import InvalidRequest, LithifyError, NotFound, OffsetOutOfRange

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

    Thread-safe; it keeps nothing open. If `checkpoint` pins it, it stays readable until that is deleted or expires;
    otherwise while its manifest is retained, after which reads raise SnapshotExpired. An iterator that has failed
    raises the same error again: begin another one.
    """

    def __init__(
        self,
        segments: Segments,
        manifest: Manifest,
        floor: int,
        explain: Callable[[Manifest, NotFound], LithifyError],
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """`explain` says what a missing object of this manifest means."""
        self._segments = segments
        self._manifest = manifest
        self._floor = floor
        self._explain = explain
        self.checkpoint = checkpoint

    def __repr__(self) -> str:
        return f"Snapshot({self._where} at manifest {self.manifest_id})"

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
        """Every stored record with start_offset ≤ offset < end_offset, in offset order, including superseded ones and
        tombstones (value None), without those below the log start offset. Raises OffsetOutOfRange."""
        return Whole(to_records(self._in_offset_order(start_offset, end_offset)), self._where)

    def read_batches(self, start_offset: int = 0, end_offset: int | None = None) -> pa.RecordBatchReader:
        """As `read`, in batches with columns key, value, offset, timestamp_ms, headers."""
        return self._reader(self._in_offset_order(start_offset, end_offset))

    def sorts(self, start_offset: int) -> bool:
        """Whether `read` from there needs a sort: compaction has put records in key order."""
        return sorts(self._manifest.runs, Bounds(from_offset=start_offset, to_offset=self.next_offset))

    def scan(self, tombstones: bool = False) -> pa.RecordBatchReader:
        """The latest record of each key, in key order; deleted keys only with `tombstones`."""
        shown = Bounds(from_offset=self._floor)
        runs, l0 = self._manifest.runs, self._manifest.l0
        batches = latest_by_key(runs, l0, self._segments.reader, shown, tombstones=tombstones)
        return self._reader(self._guarded(batches))

    def get(self, key: bytes) -> Record | None:
        """The latest record of `key`; None: there is none, or it was deleted."""
        if type(key) is not bytes:
            raise InvalidRequest(f"{self._where}: a key is bytes, not {type(key).__name__}")
        try:
            found = get(self._manifest.segments(), self._segments.reader, key, self._floor)
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
        record = None if found is None else next(to_records(iter([found])))
        return None if record is None or record.value is None else record

    @property
    def _where(self) -> str:
        return f"{self._segments.keys.topic}/{self._segments.keys.partition}"

    def _in_offset_order(self, start: int, end: int | None) -> Iterator[pa.RecordBatch]:
        following = self.next_offset
        if type(start) is not int or start < 0 or (end is not None and (type(end) is not int or end < start)):
            bounds = "start_offset and end_offset must be integers >= 0, with end_offset >= start_offset"
            raise InvalidRequest(f"{self._where}: {bounds}")
        if start > following:
            raise OffsetOutOfRange(
                f"{self._where}: offset {start} is beyond the end of the log; read from {self._floor} to {following}"
            )
        start, end = max(start, self._floor), following if end is None else min(end, following)
        if start >= end:
            return iter(())
        wanted = Bounds(from_offset=start, to_offset=end)
        runs, l0 = self._manifest.runs, self._manifest.l0
        return self._guarded(in_offset_order(runs, l0, self._segments.reader, wanted))

    def _reader(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(RECORDS, Whole(batches, self._where))

    def _guarded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
