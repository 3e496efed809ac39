"""`lithify read` that continues: following a topic, and reading it as a named consumer."""

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from lithify.admin.daemon import leave_on_signals
from lithify.cli.invocation import Invocation
from lithify.cli.outages import Outage
from lithify.cli.output import tell_cold
from lithify.cli.records.lines import record_line
from lithify.cli.terminal import plain_json, warn
from lithify.log.beside import beside_or_alone
from lithify.log.consumer import RECORDS_MAX
from lithify.log.follow import POLL_MS, Follower, Gap
from lithify.log.record import Record
from lithify.log.sort_places import SortPlaces
from lithify.store.errors import OffsetOutOfRange
from lithify.store.port import Pause

if TYPE_CHECKING:
    from lithify.log.follow import OffsetReset
    from lithify.log.snapshot import Snapshot
    from lithify.log.topic import Topic

__all__ = ["consume", "tail"]


def tail(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    start: "Callable[[Snapshot], int] | None",
    reset: "OffsetReset",
    limit: int | None,
) -> None:
    """Write what there is from `start` on (None: `reset` says where), and what comes, from all partitions in turn, to
    a signal or `limit` records. Once reading has begun, an outage is waited out."""
    leave = threading.Event()
    lines = _Lines(invocation, topic, limit)
    with leave_on_signals(leave.set):
        opened = invocation.warehouse().topic(topic)
        numbers = range(opened.partitions) if partition is None else [partition]
        places = SortPlaces()
        parts = {n: opened.partition(n) for n in numbers}
        driver = invocation.warehouse().driver
        starts = dict.fromkeys(numbers) if start is None else _begun(start, opened, numbers)
        opening = driver.all_of(lambda n: parts[n].follower(starts[n], reset), numbers)
        followers = {n: follower.share(places) for n, follower in zip(numbers, opening, strict=True)}
        outage, cold = Outage("reading", topic), _ColdReads(opened)
        while not leave.is_set() and lines.left > 0:
            found, refused = False, places.refused
            for number, take in beside_or_alone(driver.store, followers.items(), Follower.take, Follower.take_beside):
                with outage.outlasted(number):  # for this partition only: the others continue meanwhile
                    stretch = take()
                    if stretch is not None:
                        lines.write((number, item) for item in stretch.items)
                        found = True
            with outage.outlasted():
                for number in range(len(followers), opened.partitions_now()) if partition is None else ():
                    followers[number] = opened.partition(number).follower(0, reset, added=True).share(places)
            if not found and places.refused == refused:  # readers that waited for a place to sort in have it now
                cold.tell()
                driver.answer(Pause(POLL_MS))
        cold.tell()


def _begun(start: "Callable[[Snapshot], int]", topic: "Topic", numbers: Sequence[int]) -> "dict[int, int | None]":
    """Where to begin in each partition. An offset that is gone is a follower's matter; one that is not there yet is a
    mistake, as without --follow."""

    def begun(snapshot: "Snapshot") -> int:
        offset = start(snapshot)
        if offset > snapshot.next_offset:
            inside = f"from {snapshot.log_start_offset} to {snapshot.next_offset}"
            raise OffsetOutOfRange(f"offset {offset} is beyond the end of the log; read {inside}")
        return offset

    if len(numbers) == 1:
        return {number: begun(topic.partition(number).snapshot()) for number in numbers}
    return dict(enumerate(topic.snapshot().of_each(begun)))  # it may have grown: those are not read yet


def consume(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    name: str,
    reset: "OffsetReset",
    limit: int | None,
    *,
    follow: bool,
) -> None:
    """As `tail`, from the positions of consumer `name`; a position is committed once the records before it were
    written. Without `follow` it ends at the end of the log."""
    leave = threading.Event()
    lines = _Lines(invocation, topic, limit)
    with leave_on_signals(leave.set):
        opened = invocation.warehouse().topic(topic)
        numbers = None if partition is None else [partition]
        with opened.consumer(name, numbers, auto_offset_reset=reset, stop=leave.is_set) as consumer:
            outage, cold = Outage("reading", topic), _ColdReads(opened)
            while not leave.is_set() and lines.left > 0:
                found: list[tuple[int, Record | Gap]] = []
                with outage.outlasted() if follow else nullcontext():
                    found = consumer.poll(0, max_records=min(lines.left, RECORDS_MAX))
                if not found and not follow:
                    break
                if not found:
                    cold.tell()
                    invocation.warehouse().driver.answer(Pause(POLL_MS))
                lines.write(found)
            cold.tell()


class _ColdReads:
    """Says once that cold homes were read: when all that was there has been written, or at the end."""

    def __init__(self, topic: "Topic") -> None:
        self._topic = topic
        self._told = False

    def tell(self) -> None:
        if not self._told:
            segments = self._topic.cold_segments_read
            tell_cold(self._topic.name, segments)
            self._told = segments > 0


class _Lines:
    """Standard output, flushed before more is requested: what was handed on is never read again."""

    def __init__(self, invocation: Invocation, topic: str, limit: int | None) -> None:
        self.left = sys.maxsize if limit is None else limit
        self._as_json = invocation.output.as_json
        self._topic = topic

    def write(self, items: Iterable[tuple[int, Record | Gap]]) -> None:
        out = sys.stdout.buffer
        for number, item in items:
            if isinstance(item, Gap):
                self._tell(number, item)
            elif self.left > 0:
                self.left -= 1
                out.write(record_line(item, number))
        out.flush()

    def _tell(self, number: int, gap: Gap) -> None:
        if self._as_json:
            body = {"partition": number} | msgspec.structs.asdict(gap)
            sys.stdout.buffer.write(plain_json(msgspec.json.encode({"gap": body})) + b"\n")
            return
        lost = f"{self._topic}/{number}: offsets {gap.start_offset} to {gap.end_offset - 1} were lost"
        warn(f"warning: {lost}: {gap.reason}")
