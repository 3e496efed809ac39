"""Read a partition as it was in one manifest."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from lithify.log.held import hold_of
from lithify.log.placed import check_keys
from lithify.log.planning import Wanted, check_offsets, cut, target_of, wanted
from lithify.log.positions_in_log import offset_at, offset_of_last
from lithify.log.record import Record, to_record, whole_records
from lithify.log.whole import Batches, Whole
from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.homes import in_warehouse, named_homes
from lithify.manifest.model import Checkpoint, Manifest, SegmentRef
from lithify.manifest.pins import DeleteCheckpoint, RefreshCheckpoint
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.segment.cold_reads import ColdReads
from lithify.segment.offset_order import in_offset_order, sorts
from lithify.segment.points import Points
from lithify.segment.read_batches import schema_of, task_batches
from lithify.segment.read_plan import whole_task
from lithify.segment.read_task import ReadTask, View
from lithify.segment.room import Room
from lithify.segment.schema import RECORDS
from lithify.segment.segments import Segments
from lithify.store.errors import InvalidRequest, LithifyError, NotFound, OffsetOutOfRange
from lithify.store.port import Store
from lithify.store.short_repr import shortened

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
        points: Points,
        floor: int,
        explain: Callable[[Manifest, NotFound], LithifyError],
        checkpoint: Checkpoint | None = None,
        *,
        ttl_ms: int | None = None,
        commit: Callable[[Any], Any] | None = None,
    ) -> None:
        """`points` reads the manifest. `explain` says what a missing object of it means. `ttl_ms`: for so long the
        checkpoint is renewed, if it is a scan's. `commit` applies an edit to the partition."""
        self._cold_reads = segments.cold_reads or ColdReads()
        self._segments = segments
        self._points = points
        self._manifest = points.manifest
        self._floor = floor
        self._explain = explain
        self._ttl_ms = ttl_ms
        self._commit = commit
        self.checkpoint = checkpoint

    def __repr__(self) -> str:
        offsets = f"offsets {self.log_start_offset} up to {self.next_offset}"
        return f"Snapshot({shortened(self.where)} at manifest {self.manifest_id}, {offsets})"

    @property
    def manifest_id(self) -> int:
        return self._manifest.id

    def shows(self, other: "Snapshot") -> bool:
        """Whether both are of one and the same manifest, read once."""
        return self._manifest is other._manifest

    @property
    def log_start_offset(self) -> int:
        return self._floor

    @property
    def next_offset(self) -> int:
        return self._manifest.next_offset

    @property
    def homes(self) -> frozenset[str]:
        """The other homes than the warehouse in which its segments are, by their names."""
        return named_homes(self._manifest)

    @property
    def cold_segments_read(self) -> int:
        """Of how many segments outside the warehouse its reads have taken something so far (docs/homes.md). 0: every
        answer was hot."""
        return self._cold_reads.count

    def read(self, start_offset: int = 0, end_offset: int | None = None) -> Iterator[Record]:
        """Every stored record with start_offset ≤ offset < end_offset, in offset order, including superseded ones and
        tombstones (value None), without those below the log start offset. Raises OffsetOutOfRange."""
        return whole_records(self.log(start_offset, end_offset), self.where)

    def read_batches(self, start_offset: int = 0, end_offset: int | None = None) -> pa.RecordBatchReader:
        """As `read`, in batches with columns key, value, offset, timestamp_ms, headers."""
        return self.log(start_offset, end_offset).reader()

    def log(self, start_offset: int = 0, end_offset: int | None = None) -> Batches:
        """What `read_batches` reads."""
        return Batches(RECORDS, Whole(self._in_offset_order(start_offset, end_offset), self.where))

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """The offset of the first record that is not older than `timestamp_ms`, as Kafka's offsetsForTimes; None: all
        are older. Records need not be in the order of their times. Values are not read."""
        if type(timestamp_ms) is not int:
            raise InvalidRequest(f"{self.where}: timestamp_ms is a whole number of milliseconds since 1970")
        return self._looked_for(partial(offset_at, timestamp_ms=timestamp_ms))

    def offset_of_last(self, records: int) -> int:
        """The offset at which the last so many records begin; fewer, if there are not so many. Values are not read."""
        if type(records) is not int or records < 0:
            raise InvalidRequest(f"{self.where}: give a number of records: 0 or more")
        found = self._looked_for(partial(offset_of_last, count=records)) if records else None
        return self.next_offset if found is None else found

    def _looked_for(self, look: Callable[[Segments, Iterable[SegmentRef], int], int | None]) -> int | None:
        try:
            return look(self._segments, self._manifest.segments(), self._floor)
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing

    def sorts(self, start_offset: int) -> bool:
        """Whether `read` from there needs a sort: compaction has put records in key order."""
        return sorts(self._manifest.runs, Bounds(from_offset=start_offset, to_offset=self.next_offset))

    def is_little(self, start_offset: int, bytes_max: int) -> bool:
        """Whether `read` from there takes no more than `bytes_max` of records in memory, all from the warehouse."""
        wanted = Bounds(from_offset=start_offset, to_offset=self.next_offset)
        refs = [ref for ref in self._manifest.segments() if may_hold(ref, wanted)]
        return sum(ref.raw_bytes for ref in refs) <= bytes_max and all(map(in_warehouse, refs))

    def scan(
        self,
        tombstones: bool = False,
        *,
        low: bytes | None = None,
        high: bytes | None = None,
        columns: Iterable[str] | None = None,
    ) -> pa.RecordBatchReader:
        """The latest record of each key with low ≤ key < high, in key order; deleted keys only with `tombstones`.
        Columns that are not named are not read, unless they decide."""
        return self.latest(tombstones, low, high, columns).reader()

    def latest(self, tombstones: bool, low: bytes | None, high: bytes | None, columns: Iterable[str] | None) -> Batches:
        """What `scan` reads."""
        asked = wanted(self.where, low=low, high=high, columns=columns, tombstones=tombstones)
        whole = self.task(asked)
        return Batches(schema_of(whole.columns), Whole(self.batches(whole), self.where))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """As `scan`, for whatever reads Arrow: `polars.DataFrame(snapshot)`, or DuckDB's `from snapshot`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def plan(
        self,
        *,
        view: View = "latest",
        low: bytes | None = None,
        high: bytes | None = None,
        start_offset: int = 0,
        end_offset: int | None = None,
        columns: Iterable[str] | None = None,
        tombstones: bool = False,
        ordered: bool = False,
        tasks: int | None = None,
        target_bytes: int | None = None,
    ) -> list[ReadTask]:
        """Disjoint tasks for `lithify.read_task`, in any process. Together they give what `scan` (view "latest") or
        `read` ("log", deleted keys included) shows, with low ≤ key < high and start_offset ≤ offset < end_offset.

        Each is of about `target_bytes` of Parquet (128 MiB), or there are about as many as `tasks` says; fewer where
        each would have to read the same (docs/rfcs/0021). `ordered`: each task of a log gives its records in offset
        order, at the price of a sort. Raises OffsetOutOfRange for a log that ends before `start_offset`.
        """
        asked = wanted(
            self.where,
            view=view,
            low=low,
            high=high,
            start_offset=start_offset,
            end_offset=end_offset,
            columns=columns,
            tombstones=tombstones,
            ordered=ordered,
        )
        whole = self.task(asked)
        return self.cut(whole, target_of(self.where, tasks, target_bytes, [whole]))

    def cut(self, whole: ReadTask, target_bytes: int) -> list[ReadTask]:
        """The tasks of `whole`, a task of this snapshot."""
        try:
            return cut(whole, self._segments, target_bytes)
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing

    def batches(
        self, whole: ReadTask, left_out: Callable[[int, int], object] = lambda partition, rows: None
    ) -> Iterator[pa.RecordBatch]:
        """The records of `whole`, a task of this snapshot; `left_out` as in `task_batches`."""
        return self._guarded(task_batches(whole, self._segments, left_out))

    def task(self, asked: Wanted, places: KeyPlaces | None = None) -> ReadTask:
        """One task for all of it. `places`: of a topic that has grown."""
        start = self._start(asked.start_offset, beyond_the_end=asked.view == "latest")
        task = ReadTask(
            keys=self._segments.keys,
            manifest_id=self.manifest_id,
            view=asked.view,
            columns=asked.columns,
            tombstones=asked.tombstones,
            ordered=asked.ordered,
            bounds=Bounds(asked.low, asked.high, start, asked.end_offset),
            runs=(),
            l0=(),
            places=places,
            hold=hold_of(self.checkpoint, self._ttl_ms),
            rows=0,
            bytes=0,
        )
        if asked.end_offset is not None and start >= asked.end_offset:
            return task
        return whole_task(task, self._manifest.runs, self._manifest.l0)

    def renew(self) -> None:
        """Let the pin that `ttl` made expire that long from now. `plan`'s tasks do so while they are read. Raises
        NotFound if it has expired."""
        if self._commit is not None and hold_of(self.checkpoint, self._ttl_ms) is not None:
            assert self.checkpoint is not None
            self.checkpoint = self._commit(RefreshCheckpoint(self.checkpoint.id, self._ttl_ms))

    def release(self) -> None:
        """Let go of the pin that `ttl` made, before it expires. Checkpoints of users are left alone."""
        if self._commit is not None and hold_of(self.checkpoint, self._ttl_ms) is not None:
            assert self.checkpoint is not None
            self._commit(DeleteCheckpoint(self.checkpoint.id))
            self.checkpoint = None

    def get(self, key: bytes | str) -> Record | None:
        """The latest record of `key`; None: there is none, or it was deleted."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[bytes | str]) -> list[Record | None]:
        """As `get`, for each of `keys`, in their order. Memory: the records, and up to 200 MiB to find them."""
        return self.get_many_beside(keys, None, here_only=False)

    def get_many_beside(
        self, keys: Iterable[bytes | str], room: Room | None, *, here_only: bool
    ) -> list[Record | None]:
        """As `get_many`, beside others that share `room`. `here_only`: it asks the warehouse alone, and raises
        Elsewhere (lithify.segment.points) if that is not enough."""
        wanted = check_keys(keys, self.where)
        try:
            in_turn = sorted(set(wanted))  # in order: neighbours are found in the same rows
            found = self._points.latest(
                in_turn, self._floor, here_only=here_only, cold_reads=self._cold_reads, room=room
            )
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
        records = {key: to_record(row) for key, row in found.items() if row.value is not None}
        return [records.get(key) for key in wanted]

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        """All that its manifest names."""
        return tuple(self._manifest.segments())

    @property
    def store(self) -> Store:
        """The warehouse's."""
        return self._segments.homes.here

    @property
    def where(self) -> str:
        """Topic and partition, as messages name them."""
        return f"{self._segments.keys.topic}/{self._segments.keys.partition}"

    def _start(self, start: int, *, beyond_the_end: bool) -> int:
        """Not before the log's start. Raises OffsetOutOfRange for one beyond its end, unless that is allowed."""
        if start > self.next_offset and not beyond_the_end:
            inside = f"from {self._floor} to {self.next_offset}"
            if self._floor == self.next_offset:
                inside = f"from {self._floor}: it is empty"
            raise OffsetOutOfRange(f"{self.where}: offset {start} is beyond the end of the log; read {inside}")
        return max(start, self._floor)

    def _in_offset_order(self, start: int, end: int | None) -> Iterator[pa.RecordBatch]:
        check_offsets(self.where, start, end)
        start = self._start(start, beyond_the_end=False)
        end = self.next_offset if end is None else min(end, self.next_offset)
        if start >= end:
            return iter(())
        within = Bounds(from_offset=start, to_offset=end)
        runs, l0 = self._manifest.runs, self._manifest.l0
        return self._guarded(in_offset_order(runs, l0, self._segments.reader, within))

    def _guarded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except NotFound as missing:
            raise self._explain(self._manifest, missing) from missing
