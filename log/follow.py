"""Read a partition continuously: what there is, then what comes, across compactions and collections.

A follower goes from snapshot to snapshot. It never waits by itself: `take` returns the next stretch of records, or None
if there is nothing yet; the caller decides how long to wait (docs/rfcs/0009).
"""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal, Self, get_args

import msgspec

from lithify.log.beside import AskAlone
from lithify.log.record import Record, record_bytes
from lithify.log.snapshot import Snapshot
from lithify.log.sort_places import SortPlaces
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.refusals import topic_gone
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, OffsetOutOfRange, SnapshotExpired
from lithify.store.in_step import both
from lithify.store.port import Pause

__all__ = [
    "POLL_MS",
    "Follower",
    "Gap",
    "OffsetReset",
    "SnapshotOf",
    "Stretch",
    "bounded",
    "check_poll_ms",
    "check_reset",
    "follow",
    "placed",
]

POLL_MS = 1_000  # between two looks for new records
_POLL_MS_MAX = 24 * 3_600_000  # a reader that looks less often is not following; nor can every machine wait longer
STRETCH_RECORDS = 500  # records handed out at a time, as Kafka's max.poll.records
LITTLE_BYTES_MAX = 1 << 20  # of records in memory: so much is read beside other partitions, and sorted without a place
STRETCH_BYTES = 1 << 20  # of keys, values and headers, as Kafka's max.partition.fetch.bytes; at least one record

OffsetReset = Literal["earliest", "latest", "error"]
"""Where to continue if the log has no record at an offset any more, or not yet (Kafka's auto.offset.reset)."""

SnapshotOf = Callable[[Manifest], Snapshot]
"""Opens a manifest, with the log start offset as a reader sees it now (R3)."""


class Gap(msgspec.Struct, frozen=True):
    """Records with start_offset ≤ offset < end_offset that this reader lost: they expired before it reached them. It
    continues at `end_offset`. Records that compaction superseded, or that somebody deleted, are not a gap."""

    start_offset: int
    end_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive items, and the offset at which reading continues after them."""

    items: list[Record | Gap]
    end_offset: int


def check_reset(value: object) -> OffsetReset:
    for known in get_args(OffsetReset):
        if value == known:
            return known
    raise InvalidRequest(f"auto_offset_reset must be one of {', '.join(get_args(OffsetReset))}")


def check_poll_ms(value: object) -> int:
    if type(value) is not int or not 1 <= value <= _POLL_MS_MAX:
        raise InvalidRequest(f"poll_ms must be an integer from 1 to {_POLL_MS_MAX} (a day)")
    return value


def placed(where: str, offset: int | None, floor: int, end: int, reset: OffsetReset) -> int:
    """Where a reader that wants `offset` (None: it has no position yet) starts in a log of [floor, end).

    Raises OffsetOutOfRange if the log does not have that offset and the reset policy is "error".
    """
    if offset is not None and floor <= offset <= end:
        return offset
    if reset == "error":
        wanted = "no position was given in the log" if offset is None else f"offset {offset} lies outside the log"
        raise OffsetOutOfRange(
            f"{where}: {wanted}, which begins at {floor} and ends before {end}: choose one of these offsets, or "
            "another auto_offset_reset"
        )
    return floor if reset == "earliest" else end


def bounded(snapshot: Snapshot, start: int | None, end: int | None, reset: OffsetReset) -> tuple[int, int | None]:
    """Where a bounded read starts and ends. Invalid offsets are passed on, for the snapshot to refuse."""
    floor, log_end = snapshot.log_start_offset, snapshot.next_offset
    if start is not None and (type(start) is not int or not 0 <= start < floor or (type(end) is int and end < start)):
        return start, end
    start = placed(snapshot.where, start, floor, log_end, reset)
    return start, max(start, end) if type(end) is int else end


class Follower:
    """One endless reader of a partition. Not thread-safe. Between two stretches of a manifest it keeps open what it
    reads from, perhaps a sort; `close` closes it.

    `start_offset` 0 is the beginning of the log, wherever that is by now; None: `reset` decides. Where it begins is
    fixed here. `resumed`: the offset is where an earlier reader stopped; if records are missing from there, they are
    lost. In a partition that was `added` it continues at the log's start if records were dropped before it reached the
    first, whatever `reset` says.
    """

    def __init__(
        self,
        driver: Driver,
        files: PartitionFiles,
        snapshot_of: SnapshotOf,
        start_offset: int | None,
        reset: OffsetReset,
        *,
        resumed: bool = False,
        added: bool = False,
        manifest: Manifest | None = None,
    ) -> None:
        """`files` belong to this follower only. With `manifest`, the newest seen through them, nothing is asked of the
        store. Raises NotFound, OffsetOutOfRange; with `manifest` the first `take` raises them."""
        if start_offset is not None and (type(start_offset) is not int or start_offset < 0):
            raise InvalidRequest(f"{files.name}: start_offset must be an integer >= 0")
        self._driver = driver
        self._files = files
        self._snapshot_of = snapshot_of
        self._reset: OffsetReset = reset
        self._looks = 0
        self._at_end = False
        self._was_at_end = False  # of any snapshot so far
        self._places: SortPlaces | None = None
        self._stretches: Generator[Stretch] | None = None
        self._is_little = False  # `_stretches` may be continued beside others
        self._added = added
        self._open(driver.run(files.head()) if manifest is None else manifest)
        self._first = self._manifest.id
        self.position: int
        self.first_to = 0  # how far it has come in its first manifest; 0: not at all
        begins = start_offset == 0 and not resumed
        raises = reset == "error" and manifest is None and not added
        if start_offset is None or begins or raises or start_offset > self._snapshot.next_offset:
            self.position = self._placed(start_offset)
        else:
            self.position = start_offset  # below the floor it begins with a gap

    def share(self, places: SortPlaces) -> Self:
        """Sort only while holding one of these places, which other readers share. Returns self."""
        self._places = places
        return self

    def take(self) -> Stretch | None:
        """What comes next. None: nothing yet, or it waits for a place to sort in. If there is nothing yet, it costs one
        GET, every second time two.

        Raises OffsetOutOfRange if the log's start passed this reader and its reset policy is "error"; NotFound once the
        topic is deleted; Unavailable: call again.
        """
        return self._taken(beside=False)

    def take_beside(self) -> Stretch | None:
        """As `take`, in a thread of the store, while other followers are asked. Raises AskAlone if it would have to
        read or sort much, or to ask another home."""
        if self._stretches is not None and not self._is_little:
            raise AskAlone
        return self._taken(beside=True)

    def _taken(self, *, beside: bool) -> Stretch | None:
        try:
            return self._take(beside=beside)
        finally:
            if self._stretches is None:
                self._give_back()

    def _take(self, *, beside: bool) -> Stretch | None:
        is_over = False  # whether a snapshot ended in this call
        while True:
            if self._stretches is None:
                if self._at_end and not self._look():
                    return None
                gap = self._step_over()
                if gap is not None:
                    return Stretch([gap], self.position)
                shares = beside or self._places is not None
                self._is_little = shares and self._snapshot.is_little(self.position, LITTLE_BYTES_MAX)
                if beside and not self._is_little:
                    raise AskAlone
                if not self._may_read(again=is_over, beside=beside):
                    return None
            # If something below raises, the next call begins anew at `position`.
            stretches, self._stretches = self._stretches or self._read(), None
            try:
                stretch = next(stretches, None)
            except SnapshotExpired:
                # Its manifest was collected; the head has what is still there of it.
                self._give_back()
                is_over = True
                self._open(self._driver.run(self._files.head()))
                continue
            if stretch is None:
                self._give_back()
                is_over = self._at_end = self._was_at_end = True
                continue
            self._stretches, self.position = stretches, stretch.end_offset
            if self._manifest.id == self._first:
                self.first_to = self.position
            return stretch

    def _may_read(self, *, again: bool, beside: bool) -> bool:
        if self._places is None or not self._snapshot.sorts(self.position):
            return True
        if self._is_little and self._places.take_little(self):
            return True
        if beside:
            raise AskAlone
        return self._places.take(self, first=not self._was_at_end, again=again)

    def _give_back(self) -> None:
        if self._places is not None:
            self._places.give_back(self)

    def wait(self, ms: int) -> None:
        """Wait between half of `ms` and all of it."""
        self._driver.answer(Pause(ms))

    def close(self) -> None:
        """Close what it reads from: a sort, its file, and its place. The next `take` begins anew at the position."""
        stretches, self._stretches = self._stretches, None
        if stretches is not None:
            stretches.close()
        self._give_back()

    def _open(self, manifest: Manifest) -> None:
        if manifest.sealed:
            raise topic_gone(manifest)
        self._manifest, self._snapshot = manifest, self._snapshot_of(manifest)

    def _look(self) -> bool:
        """Whether there is a newer manifest; if so, open it."""
        self._looks += 1
        newer = self._driver.run(_newer(self._files, self._manifest.id, boundary_too=self._looks % 2 == 0))
        if newer is None:
            return False
        self._open(newer)
        self._at_end = False
        return True

    def _step_over(self) -> Gap | None:
        """Continue at an offset that the log still has."""
        if self.position >= self._snapshot.log_start_offset:
            return None
        # Records deleted by hand are not reported as a gap; records skipped because auto_offset_reset is "latest" are.
        lost_from = max(self.position, self._manifest.deleted_to)
        reset = self._reset_at(self.position)
        self.position = self._placed(self.position)
        if lost_from >= self.position:
            return None
        floor = self._snapshot.log_start_offset
        reason = f"the log now starts at offset {floor}; auto_offset_reset is {reset}"
        return Gap(lost_from, self.position, reason)

    def _placed(self, offset: int | None) -> int:
        floor, end = self._snapshot.log_start_offset, self._snapshot.next_offset
        return placed(self._files.name, offset, floor, end, self._reset_at(offset))

    def _reset_at(self, offset: int | None) -> OffsetReset:
        return "earliest" if self._added and offset == 0 else self._reset

    def _read(self) -> Generator[Stretch]:
        records, end = self._snapshot.read(self.position), self._snapshot.next_offset
        reached = self.position
        while items := _stretch(records):
            last = items[-1].offset
            assert last is not None  # it comes from the log
            reached = last + 1
            yield Stretch([*items], reached)
        if reached < end:
            yield Stretch([], end)  # compaction removed the last records


def _stretch(records: Iterator[Record]) -> list[Record]:
    """The next records: STRETCH_RECORDS of them, or until they reach STRETCH_BYTES."""
    items: list[Record] = []
    held_bytes = 0
    for record in itertools.islice(records, STRETCH_RECORDS):
        items.append(record)
        held_bytes += record_bytes(record)
        if held_bytes >= STRETCH_BYTES:
            break
    return items


async def _newer(files: PartitionFiles, number: int, *, boundary_too: bool) -> Manifest | None:
    """A manifest after `number`, or None if none was seen."""
    seen = files.manifest.seen
    if seen.value is not None and seen.number > number:
        return seen.value  # this client committed it itself
    # SUBTLE! No next number proves nothing: if this client slept through a collection, it was collected. But then the
    # boundary has moved. Test: tests/log/test_follow.py
    # They may go together, because "nothing yet" proves no head: a boundary that moves just after it was asked for is
    # found by the next look that asks for it.
    if boundary_too:
        moved = any(await both(files.manifest.moved(), files.boundary.moved()))
    else:
        moved = await files.manifest.moved()
    if not moved:
        return None
    head = await files.head()
    return head if head.id > number else None


class _Following(Iterator[Record | Gap]):
    """Everything that a follower takes, endlessly. An exception does not end it: called again, it continues."""

    def __init__(self, follower: Follower, poll_ms: int, stop: Callable[[], bool] | None) -> None:
        self._follower = follower
        self._poll_ms = poll_ms
        self._stop = stop
        self._waiting: deque[Record | Gap] = deque()
        self._closed = False

    def __next__(self) -> Record | Gap:
        while not self._waiting:
            if self._closed or (self._stop is not None and self._stop()):
                raise StopIteration
            stretch = self._follower.take()
            if stretch is None:
                self._follower.wait(self._poll_ms)
            else:
                self._waiting.extend(stretch.items)
        return self._waiting.popleft()

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._follower.close()


def follow(follower: Follower, poll_ms: int, stop: Callable[[], bool] | None) -> Iterator[Record | Gap]:
    """Everything the follower takes, endlessly; `stop` is asked between two takes."""
    return _Following(follower, poll_ms, stop)
