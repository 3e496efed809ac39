"""A topic as it was: a snapshot of each partition, and where keys lived then (docs/rfcs/0013)."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
import structlog
from msgspec.structs import replace

from lithify.log.beside import AskAlone, beside_or_alone
from lithify.log.partition import Partition
from lithify.log.placed import check_keys, get_placed
from lithify.log.planning import Wanted, held_together, target_of, wanted
from lithify.log.record import Record, whole_records
from lithify.log.small_partitions import PartitionRead, in_order
from lithify.log.snapshot import Snapshot
from lithify.log.whole import Batches, Whole
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.manifest.words import counted
from lithify.segment.read_batches import schema_of
from lithify.segment.read_task import ReadTask, View
from lithify.segment.room import Room
from lithify.segment.schema import RECORDS
from lithify.store.errors import InvalidRequest, LithifyError, NotFound
from lithify.store.port import Store
from lithify.store.short_repr import named_repr
from lithify.store.side_by_side import results

__all__ = ["TopicSnapshot", "opened_topic", "pinned_topic", "starts_within"]

NAMED_MAX = 16  # partitions without a checkpoint, in a message

log = structlog.wrap_logger(logging.getLogger("lithify.log"))


A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A snapshot of each partition of a topic. Thread-safe; readable as long as those are. Made by `Topic.snapshot` and
    `Topic.pinned`. `read` reads the whole log; `partitions[0].read()` that of one partition.

    >>> topic = lithify.open("memory://example").create_topic("users", partitions=2)
    >>> _ = topic.append([lithify.Record(b"ada", b"free"), lithify.Record(b"bela", b"team")])
    >>> for number in range(topic.partitions):
    ...     _ = topic.partition(number).snapshot(pin="tuesday")
    >>> _ = topic.append([lithify.Record(b"ada", b"pro")])
    >>> topic.pinned("tuesday").get(b"ada").value
    b'free'
    """

    topic: str
    partitions: tuple[Snapshot, ...]  # those that the topic had, by number
    places: KeyPlaces

    def __repr__(self) -> str:
        offsets = sum(each.next_offset - each.log_start_offset for each in self.partitions)
        return named_repr(self, self.topic, counted(len(self.partitions), "partition"), counted(offsets, "offset"))

    @property
    def cold_segments_read(self) -> int:
        """As `Snapshot.cold_segments_read`, of all partitions."""
        return sum(snapshot.cold_segments_read for snapshot in self.partitions)

    def scan(
        self,
        tombstones: bool = False,
        *,
        low: bytes | None = None,
        high: bytes | None = None,
        columns: Iterable[str] | None = None,
    ) -> pa.RecordBatchReader:
        """As `Topic.scan`."""
        asked = wanted(self.topic, low=low, high=high, columns=columns, tombstones=tombstones)
        reads = [
            PartitionRead.of(whole.segments, partial(snapshot.batches, whole, self._left_out))
            for snapshot, whole in zip(self.partitions, self._wholes(asked), strict=True)
        ]
        batches = Whole(in_order(reads, self._store), self.topic)
        return pa.RecordBatchReader.from_batches(schema_of(asked.columns), batches)

    def read(self) -> Iterator[Record]:
        """As `Topic.read`."""
        reads = [PartitionRead.of(each.segments, lambda each=each: each.log().rows) for each in self.partitions]
        return whole_records(Batches(RECORDS, Whole(in_order(reads, self._store), self.topic)), self.topic)

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
        """As `Snapshot.plan`, for all partitions. View "latest" leaves out what `scan` leaves out; "log" has every
        record of each partition. The offsets are those of each partition; those that end before `start_offset` have
        nothing, unless all do. `tasks` counts those of all together."""
        asked = wanted(
            self.topic,
            view=view,
            low=low,
            high=high,
            start_offset=start_offset,
            end_offset=end_offset,
            columns=columns,
            tombstones=tombstones,
            ordered=ordered,
        )
        wholes = self._wholes(asked)
        target = target_of(self.topic, tasks, target_bytes, wholes)
        wholes_of = zip(self.partitions, wholes, strict=True)
        return held_together([task for snapshot, whole in wholes_of for task in snapshot.cut(whole, target)])

    def renew(self) -> None:
        """As `Snapshot.renew`, of each partition. If it fails for one, the others are renewed all the same; the first
        error is raised at the end."""
        results(self._store.side_by_side([snapshot.renew for snapshot in self.partitions]))

    def release(self) -> None:
        """As `Snapshot.release`, of each partition. If that fails for one, the others are released all the same; the
        first error is raised at the end."""
        results(self._store.side_by_side([snapshot.release for snapshot in self.partitions]))

    def of_each(self, ask: Callable[[Snapshot], T]) -> list[T]:
        """What `ask` says of each partition. Those of a far store are asked side by side, by its threads, unless they
        have segments in another home. Raises the first failure."""

        def beside(snapshot: Snapshot) -> T:
            if snapshot.homes:
                raise AskAlone
            return ask(snapshot)

        return [call() for _, call in beside_or_alone(self._store, enumerate(self.partitions), ask, beside)]

    def _wholes(self, asked: Wanted) -> list[ReadTask]:
        """A task for all of each partition."""
        places = self.places if self.places.growths and asked.view == "latest" else None
        starts = starts_within(asked.start_offset, self.partitions)
        return [
            snapshot.task(replace(asked, start_offset=start), places)
            for snapshot, start in zip(self.partitions, starts, strict=True)
        ]

    def get(self, key: bytes | str) -> Record | None:
        """As `Topic.get`."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[bytes | str]) -> list[Record | None]:
        """As `Topic.get_many`."""
        wanted = check_keys(keys, self.topic)

        def asked(number: int, mine: list[bytes], room: Room | None) -> list[Record | None]:
            return self.partitions[number].get_many_beside(mine, room, here_only=room is not None)

        return get_placed(self.places, wanted, asked, self._store)

    @property
    def _store(self) -> Store:
        return self.partitions[0].store

    def _left_out(self, partition: int, records: int) -> None:
        where = f"{self.topic}/{partition}"
        log.warning("a scan leaves out what keys left behind when the topic grew", partition=where, records=records)


class Each(Protocol):
    """As `Driver.each`."""

    def __call__(self, work: Callable[[A], T], items: Iterable[A], /) -> Sequence[T | Exception]: ...


def pinned_topic(topic: str, places: KeyPlaces, parts: Sequence[Partition], name: str, each: Each) -> TopicSnapshot:
    """What checkpoint `name` pins. If only partitions added later lack it, the result is the topic before it grew.
    Requires: `parts` are all that `places` counts. Raises NotFound, naming the partitions without it."""
    found: dict[int, Snapshot] = {}
    missing: dict[int, NotFound] = {}
    for part, outcome in zip(parts, each(lambda part: part.pinned(name), parts), strict=True):
        if isinstance(outcome, NotFound):
            missing[part.number] = outcome
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            found[part.number] = outcome
    if not found:
        raise missing[0]
    then = places if not missing else _places_before(places, found)
    expired = [n for n in missing if any(known.name == name for known in parts[n].checkpoints())]
    if then is None or expired:
        raise NotFound(_without(topic, name, expired or list(missing), "has expired" if expired else "is missing"))
    return TopicSnapshot(topic, tuple(found[number] for number in range(then.partitions)), then)


def opened_topic(
    topic: str,
    places: KeyPlaces,
    part: Callable[[int], Partition],
    ttl: int | timedelta | None,
    manifests: Sequence[int] | None,
    each: Each,
) -> TopicSnapshot:
    """A snapshot of each partition: the newest, or the `manifests` by number. If fewer are given than the topic has
    partitions, it is the topic when it had so many. Pins that were made are let go if another cannot be made."""
    then = places
    if manifests is not None:
        at = [growth.partitions for growth in places.growths]
        if len(manifests) in at:
            then = KeyPlaces(places.growths[: at.index(len(manifests))], len(manifests))
        elif len(manifests) != places.partitions:
            raise InvalidRequest(
                f"{topic}: {len(manifests)} manifests were given; give one for each of its {places.partitions} "
                "partitions, in their order"
            )

    def opened(number: int) -> Snapshot:
        return part(number).snapshot(ttl=ttl, manifest=None if manifests is None else manifests[number])

    outcomes = each(opened, range(then.partitions))
    found = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    failed = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
    if failed is not None:
        for snapshot in found if manifests is None else ():
            with contextlib.suppress(LithifyError):  # it expires
                snapshot.release()
        raise failed
    return TopicSnapshot(topic, tuple(found), then)


def _places_before(places: KeyPlaces, found: Mapping[int, Snapshot]) -> KeyPlaces | None:
    """Where keys lived when these partitions were the only ones, and were pinned. None: that never was, or is unknown.

    SUBTLE! It is not enough that as many partitions as a former count have the checkpoint: somebody may have pinned
    just these when the others had records already. Then their snapshots end beyond the ends noted at the growth; or
    nothing was appended to them since, and they show what the topic held when it grew. Test:
    tests/log/test_topic_snapshots.py
    """
    at = next((index for index, growth in enumerate(places.growths) if growth.partitions == len(found)), None)
    if at is None:
        return None
    count, ends = len(found), places.growths[at].ends
    for number in range(count):
        end = ends[number] if number < len(ends) else None
        if number not in found or end is None or found[number].next_offset > end:
            return None
    return KeyPlaces(places.growths[:at], count)


def _without(topic: str, name: str, numbers: Sequence[int], what: str) -> str:
    named = ", ".join(str(number) for number in numbers[:NAMED_MAX])
    more = f" and {len(numbers) - NAMED_MAX} more" if len(numbers) > NAMED_MAX else ""
    partitions = "partition" if len(numbers) == 1 else "partitions"
    return (
        f"{topic}: checkpoint {name!r} {what} in {partitions} {named}{more}, so the whole topic cannot be read at it; "
        "read the partitions that have it one by one ('lithify checkpoint list' shows them)"
    )


def starts_within(start: int, snapshots: Sequence[Snapshot]) -> list[int]:
    """Where to start in each: in a log that ends before `start` at its end, unless that is so of all of them."""
    if all(snapshot.next_offset < start for snapshot in snapshots):
        return [start] * len(snapshots)
    return [min(start, snapshot.next_offset) for snapshot in snapshots]
