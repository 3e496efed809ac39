"""A named consumer of a partition: it resumes where the last instance of its name stopped (docs/rfcs/0009)."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import structlog

from lithify.log.follow import POLL_MS, Follower, Gap, OffsetReset, Stretch, check_poll_ms
from lithify.log.own_process import OwnProcess
from lithify.log.patience import Patience
from lithify.log.positions import still_holds
from lithify.log.record import Record
from lithify.log.sort_places import SortPlaces
from lithify.manifest.ages import young
from lithify.manifest.consumers import CommitPosition
from lithify.manifest.model import ConsumerPosition
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.short_repr import shortened

__all__ = ["AUTO_COMMIT_INTERVAL_MS", "RECORDS_MAX", "Consumer", "ConsumerConfig", "check_poll"]

AUTO_COMMIT_INTERVAL_MS = 5_000  # as Kafka's auto.commit.interval.ms
RECORDS_MAX = 500  # of one poll, as Kafka's max.poll.records

log = structlog.wrap_logger(logging.getLogger("lithify.log"))


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Where to begin without a position, how often positions are committed (None: only by `commit`), how often to look
    for new records, and a function that says when to stop waiting."""

    auto_offset_reset: OffsetReset = "earliest"
    auto_commit_interval_ms: int | None = AUTO_COMMIT_INTERVAL_MS
    poll_ms: int = POLL_MS
    stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        interval_ms = self.auto_commit_interval_ms
        if interval_ms is not None and (type(interval_ms) is not int or interval_ms < 1):
            raise InvalidRequest("auto_commit_interval_ms must be an integer >= 1, or None: then only commit() commits")
        check_poll_ms(self.poll_ms)


def check_poll(timeout_ms: int, max_records: int) -> None:
    if type(timeout_ms) is not int or timeout_ms < 0 or type(max_records) is not int or max_records < 1:
        raise InvalidRequest("timeout_ms must be an integer >= 0, max_records an integer >= 1")


class Consumer:
    """Reads a partition from where the last consumer of its name stopped. Made by `Partition.consumer`. Iterate over
    it, or `poll` it. One thread at a time.

    >>> part = lithify.open("memory://example").create_topic("users").partition(0)
    >>> _ = part.append([lithify.Record(b"ada", b"free"), lithify.Record(b"ada", b"pro")])
    >>> with part.consumer("billing") as consumer:
    ...     [record.value for record in consumer.poll(timeout_ms=0)]
    [b'free', b'pro']
    >>> with part.consumer("billing") as consumer:
    ...     consumer.position
    2

    Every record is delivered at least once to some instance of this name: a position is committed only after the caller
    came back for more (every `auto_commit_interval_ms`), called `commit`, or left the `with` block without an error. A
    later instance takes the name over; then the next commit of the former one raises Fenced. In a forked process the
    consumer raises InvalidRequest; open another one there.
    """

    def __init__(
        self,
        driver: Driver,
        files: PartitionFiles,
        follower: Follower,
        taken: ConsumerPosition,
        config: ConsumerConfig,
        rebuilt_to: int | None = None,
    ) -> None:
        """`taken` is the position as this instance took it over. With `rebuilt_to`, nothing is committed until
        `scanned` was called and the caller came back after that; the first commit then says that this consumer's state
        was rebuilt up to there."""
        self._process = OwnProcess()
        self._driver = driver
        self._files = files
        self._follower = follower
        self._entry = taken
        self._interval_ms = config.auto_commit_interval_ms
        self._poll_ms = config.poll_ms
        self._stop = config.stop
        self._rebuilt_to = rebuilt_to or 0
        self._rebuilding = rebuilt_to is not None
        self._scanned = False
        self._anew = taken.offset == 0  # this instance has read everything in its state itself
        self._waiting: deque[Record | Gap] = deque()  # from the follower's last stretch
        self._position = follower.position
        self._done = self._position  # everything before it was processed, once the caller came back for more
        self._came_back = False
        self._tried_ms = taken.committed_at_ms
        self._has_clock = True  # whether the last attempt to read the store's clock succeeded
        self._closed = False
        if taken.missed_to and taken.offset:
            log.warning(
                "consumer missed deletions", partition=files.name, consumer=taken.name, before_offset=taken.missed_to
            )

    def __repr__(self) -> str:
        at = f"{self._position}{', closed' if self._closed else ''}"
        return f"Consumer({shortened(self.name, 60)!r} of {shortened(self._files.name, 60)} at {at})"

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def position(self) -> int:
        """The offset from which the next record is read."""
        return self._position

    @property
    def waiting(self) -> int:
        """How many items `poll` can hand out without asking the store."""
        return len(self._waiting)

    @property
    def committed(self) -> int:
        """The position that the next instance of this name would begin at, as far as this one knows."""
        return self._entry.offset

    async def holds(self) -> None:
        """Raises Fenced if another instance took the name over, NotFound if the consumer was deleted."""
        await still_holds(self._files, self._entry.name, self._entry.instance)

    def share(self, places: SortPlaces) -> Self:
        """Sort only while holding one of these places, which other readers share. Returns self."""
        self._follower.share(places)
        return self

    def let_go(self) -> None:
        """Close any sort and give its place back, until more is asked for than what waits."""
        self._follower.close()

    def scanned(self) -> None:
        """The scan before this was read to its end; whether the caller loaded it is not known yet."""
        self._scanned = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record | Gap:
        """The next record, or the gap before it; waits for it. Ends when `stop` says so, or after `close`."""
        if not self._await_some(None):
            raise StopIteration
        return self._hand_out_one()

    def poll(self, timeout_ms: int = 0, max_records: int = RECORDS_MAX) -> list[Record | Gap]:
        """Up to `max_records` items; if there are none, looks again until `timeout_ms` have passed. It looks at least
        once, however long the store takes to answer."""
        check_poll(timeout_ms, max_records)
        self._check_open()
        self._await_some(timeout_ms)
        return self.hand_out(max_records)

    def look(self) -> int:
        """As `poll` without waiting, but keeps what it finds; returns how many items wait to be handed out."""
        self._check_open()
        self._await_some(0)
        return len(self._waiting)

    def look_beside(self) -> int:
        """As `look`, in a thread of the store, while other partitions are looked at. Raises AskAlone
        (lithify.log.beside) if it is to be asked alone."""
        self._check_open()
        self._check_process()
        self._come_back()
        while not self._waiting and self._keep(self._follower.take_beside()):
            pass
        return len(self._waiting)

    def hand_out(self, max_records: int) -> list[Record | Gap]:
        """Up to `max_records` of the waiting items. Asks nothing of the store, so it cannot fail between partitions
        when a caller collects from several: what it handed out counts as processed when the caller comes back."""
        return [self._hand_out_one() for _ in range(min(max_records, len(self._waiting)))]

    def _await_some(self, timeout_ms: int | None) -> bool:
        """Whether something waits to be handed out."""
        self._check_process()
        if self._closed:
            return False  # and the caller has not processed anything either: an error may have closed it
        self._come_back()
        patience = Patience(self._driver, timeout_ms)
        while not self._waiting and not self._closed and (self._stop is None or not self._stop()):
            if self._keep(self._follower.take()):
                continue
            if patience.is_over:
                break
            patience.wait(self._poll_ms)
            self._come_back()
        return bool(self._waiting)

    def _keep(self, stretch: Stretch | None) -> bool:
        """Whether the follower had a stretch, perhaps without items."""
        if stretch is None:
            return False
        self._waiting.extend(stretch.items)
        if not stretch.items:
            self._position = stretch.end_offset
        return True

    def _hand_out_one(self) -> Record | Gap:
        item = self._waiting.popleft()
        if not self._waiting:
            self._position = self._follower.position
        elif isinstance(item, Gap):
            self._position = item.end_offset
        else:
            assert item.offset is not None  # it comes from the log
            self._position = item.offset + 1
        return item

    def commit(self) -> None:
        """Commit the position if it moved: everything handed out is processed.

        Raises Fenced if another instance took the name over or the position was reset; NotFound if the consumer or the
        topic was deleted; Unavailable or CommitUnknown: commit again, or those records are read once more;
        InvalidRequest after `scan_and_follow`, until its state was read to the end.
        """
        self._check_process()
        self._deal()
        if self._rebuilding:
            raise InvalidRequest(
                f"{self._files.name}: consumer {self.name!r} continues from a scan that was not read to its end, so "
                "nothing is committed: read `state` to its end first, or start over"
            )
        self._commit()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidRequest(f"{self._files.name}: consumer {self.name!r} is closed; open another one")

    def _check_process(self) -> None:
        self._process.check(f"{self._files.name}: this instance of consumer {self.name!r}")

    def _deal(self) -> None:
        """The caller has processed everything handed out.

        SUBTLE! The last batch of a scan also counts as processed only now: `read_all` reads it to its end before the
        caller has loaded any of it. Test: tests/log/test_scan_and_follow.py
        """
        self._done, self._came_back = self._position, True
        self._rebuilding = self._rebuilding and not self._scanned

    def _come_back(self) -> None:
        self._deal()
        if self._interval_ms is None or not self._is_behind():
            return
        try:
            now_ms = self._driver.now_ms()
        except Unavailable as error:  # hand out what waits anyway
            self._warn_of_the_clock(error)
            return
        self._has_clock = True
        if young(self._tried_ms, now_ms, self._interval_ms):
            return
        try:
            self._commit()
        except (Unavailable, CommitUnknown) as error:  # the next commit settles it; nothing is lost until then
            self._warn(error)
        self._tried_ms = now_ms  # not if it was refused: then the caller gets the error again the next time

    def _warn_of_the_clock(self, error: LithifyError) -> None:
        if self._has_clock:  # once, not for each record
            self._warn(error)
        self._has_clock = False

    def _is_behind(self) -> bool:
        """Whether there is something to commit."""
        # SUBTLE! The next instance has no state for what was not scanned, and would begin behind it. Test:
        # tests/log/test_scan_and_follow.py
        return not self._rebuilding and (self._done != self._entry.offset or self._rebuilt_to > 0)

    def _commit(self) -> None:
        if not self._is_behind():
            return
        mine = self._entry
        # SUBTLE! Everything read from the first manifest is complete, whatever was cleaned since. But not beyond the
        # committed position: the next instance begins there, and would never see a deletion that only this one has
        # read. Test: tests/log/test_missed_deletions.py
        rebuilt_to = max(self._rebuilt_to, min(self._follower.first_to, self._done) if self._anew else 0)
        edit = CommitPosition(mine.name, self._done, mine.committed_at, mine.instance, rebuilt_to)
        self._entry = self._driver.run(self._files.manifest.commit(edit)).result
        self._rebuilt_to = 0

    def _warn(self, error: LithifyError) -> None:
        log.warning("position not committed", **self._names, error=str(error))

    @property
    def _names(self) -> dict[str, str]:
        return {"partition": self._files.name, "consumer": self.name}

    def close(self) -> None:
        """Commit, if commits are automatic, and end. Calling it again is harmless, and commits what an error prevented.

        After `scan_and_follow` it commits nothing until the state was read and a change was requested after that: it
        may be called because loading the state failed. Leaving the `with` block without an error says that it did not
        fail."""
        if not self._process.is_here:
            return  # what the parent process has read, the parent commits
        if not self._closed:
            self._end()
            self._done, self._came_back = self._position, True
        if self._rebuilding:
            log.warning(
                "position not committed: the scan was not read to its end, or no change was asked for after it",
                **self._names,
            )
        elif self._interval_ms is not None and self._came_back:
            self._commit()

    def _end(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an error, the next instance begins with the items handed out last: they may not have been processed."""
        if not self._process.is_here:
            return
        if error is None:
            if not self._closed:
                self._deal()
            self.close()
        elif not self._closed:
            self._end()
            if self._interval_ms is not None and self._came_back:
                try:
                    self._commit()
                except LithifyError as another:  # the caller should see the first error
                    self._warn(another)
