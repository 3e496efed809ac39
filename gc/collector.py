"""The collector: one pass over every partition of every topic, including deleted topics."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from lithify.events.changes import changes_to
from lithify.events.event_log import guarded, log_event
from lithify.events.notices import Collected, CollectionEnded, Freed
from lithify.events.troubles import Troubles
from lithify.events.types import Sink
from lithify.gc.collect import Pass, collect, collect_deleted, sweep
from lithify.gc.lives import Lives
from lithify.gc.objects import has_segments
from lithify.gc.reachable import Garbage
from lithify.gc.temporaries import remove_stale_temporaries
from lithify.gc.unannounced import sweep_unannounced
from lithify.gc.when import goes_at
from lithify.manifest.catalog import partition_keys
from lithify.manifest.ended import Known, Marks
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.rests import BOUNDARY_MS, Rest, Rests
from lithify.manifest.words import counted
from lithify.store.apart import Ending, Fault, attempt, ending_of
from lithify.store.driver import Driver
from lithify.store.errors import ErrorKind, InvalidRequest
from lithify.store.many import AT_ONCE, many
from lithify.store.short_repr import named_repr, short_repr
from lithify.store.stirred import Stirred
from lithify.store.urls import shown

__all__ = ["GRACE_MS", "GRACE_MS_MIN", "Collector", "GcReport", "PartitionGc"]

SWEEPS_AT_ONCE = 4  # each holds a listing of its partition
INTERVAL_MS = 600_000
REST_MS = 3_600_000  # of a service
GRACE_MS = 3_600_000  # how long a superseded manifest stays readable (P17)
# A writer builds on a head that it saw up to FRESH_MS ago, and may take minutes to learn whether its commit succeeded;
# the next number must not die in that time. Test: tests/protocol/test_p17_grace.py
GRACE_MS_MIN = 300_000

log = structlog.wrap_logger(logging.getLogger("lithify.gc"))


class WarehouseLike(Protocol):
    """What a collector needs of a warehouse."""

    @property
    def driver(self) -> Driver: ...


@dataclass(frozen=True, slots=True)
class _Resting:
    """A partition in which a pass found nothing to do."""

    rest: Rest
    until_ms: int  # then something falls due
    boundary: int


@dataclass(frozen=True, slots=True)
class _Opened:
    """A topic in a pass. `todo`: partitions, and whether they are of a deleted life."""

    name: str
    marks: Marks
    lives: Lives
    todo: list[tuple[PartitionKeys, bool]]
    done: "list[PartitionGc]"
    whole: bool  # all lives are known
    read: bool = True


class PartitionGc(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's part of a pass. `fault`: why it was left as it is."""

    topic: str
    topic_id: str
    partition: int | None  # None: the topic, whose files cannot be read
    deleted: tuple[Garbage, ...] = ()
    kept: tuple[Garbage, ...] = ()
    boundary: int = 0
    waiting: int = 0  # retired segments that wait for the grace period
    # From when on a collection may delete the first of these, in ms since 1970 by the store's clock; None: none waits,
    # or it is not known. Told to whoever asks for a pass, not by a service.
    next_ms: int | None = None
    checkpoints_expired: int = 0
    fault: Fault | None = None

    __repr__ = short_repr


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass deleted, or would delete in a dry run; each object with its reason."""

    dry_run: bool
    swept: bool
    partitions: tuple[PartitionGc, ...]
    # What killed processes left half written, files or uploads to a bucket; a sweep removes them.
    temporaries: int = 0
    fault: Fault | None = None  # why they could not be removed

    @property
    def deleted(self) -> tuple[Garbage, ...]:
        return tuple(garbage for partition in self.partitions for garbage in partition.deleted)

    @property
    def bytes_deleted(self) -> int:
        return sum(garbage.bytes for garbage in self.deleted)

    @property
    def ending(self) -> Ending:
        return ending_of((*(partition.fault for partition in self.partitions), self.fault))

    def __repr__(self) -> str:
        deleted = f"{counted(len(self.deleted), 'object')} of {self.bytes_deleted} bytes"
        dry = ", dry_run=True" if self.dry_run else ""
        return f"GcReport({counted(len(self.partitions), 'partition')}, {deleted}{dry})"


class Collector:
    """Collects garbage: deletes objects that no retained manifest, checkpoint or job refers to.

    >>> warehouse = lithify.open("memory://example")
    >>> report = lithify.Collector(warehouse).run_once(dry_run=True)
    >>> len(report.deleted), report.bytes_deleted
    (0, 0)

    `grace_ms`: how long a manifest stays readable after it was superseded. `rest_ms`: how much later a pass may notice
    what happened in a partition in which there was nothing to do; the longer that was so, the fewer of the passes,
    `interval_ms` apart, look there (docs/rfcs/0026). What this process does there, the next pass sees. 0 (the
    default; `lithify compactor run` has an hour): every pass looks at every partition. `events`: a function that is
    called with each event (docs/rfcs/0015); by default events are logged.

    Any number of collectors may run, in any number of processes (P19). Use a grace period below GRACE_MS_MIN, as in
    tests, only if nobody else uses the warehouse at that time: no data is lost, but readers may get SnapshotExpired,
    and writers CommitUnknown for appends whose outcome can no longer be known.
    """

    def __init__(
        self,
        warehouse: WarehouseLike,
        *,
        grace_ms: int = GRACE_MS,
        interval_ms: int = INTERVAL_MS,
        rest_ms: int = 0,
        events: Sink = log_event,
    ) -> None:
        if grace_ms < 0:
            raise InvalidRequest(f"grace_ms is {grace_ms}; it must be at least 0")
        if 0 < grace_ms < GRACE_MS_MIN:
            log.warning(
                "the grace period is short: running writers may get CommitUnknown, and running readers SnapshotExpired",
                grace_ms=grace_ms,
                grace_ms_min=GRACE_MS_MIN,
            )
        self._driver = warehouse.driver
        self._grace_ms = grace_ms
        self._topics: dict[str, Lives] = {}
        self._partitions: dict[PartitionKeys, PartitionFiles] = {}
        self._resting: dict[PartitionKeys, _Resting] = {}
        self._rests = Rests(rest_ms, interval_ms, BOUNDARY_MS)
        self._stirred = Stirred(warehouse.driver.store.url, warehouse.driver.store.endpoint_url)
        self._known = Known()
        self._events = guarded(events)
        self._troubles = Troubles(self._events)

    def __repr__(self) -> str:
        return named_repr(self, shown(self._driver.store.url), f"grace_ms={self._grace_ms}")

    def run_once(self, dry_run: bool = False, sweep: bool = False) -> GcReport:
        """One pass: collect what was replaced at least a grace period ago.

        `sweep` also lists every object and deletes those that nothing can name. `dry_run` deletes and commits nothing.
        A failure in one partition stops no other. A deleted topic that is empty costs a pass nothing and is in no
        report; a sweep checks it for orphans.
        """
        partitions: list[PartitionGc] = []
        awake, resting = self._driver.run(self._known.topics(anew=sweep, says=not dry_run))
        for name in resting if sweep else ():
            left = attempt(lambda name=name: self._driver.run(has_segments(name)))
            self._troubles.tell("topic skipped", left, name)
            if isinstance(left, Fault):
                partitions.append(_unread(name, left))
            elif left:
                awake[name] = Marks()
            else:
                partitions += self._unannounced(name, Lives(name, 0), dry_run)
        stirred = frozenset(self._stirred.taken())  # what this process writes from here on, the next pass sees
        self._resting = {keys: each for keys, each in self._resting.items() if keys.root not in stirred}
        partitions += self._topics_of(awake, dry_run, sweep)
        self._forget(awake)
        self._troubles.keep({*awake, *resting})
        report = GcReport(dry_run=dry_run, swept=sweep, partitions=tuple(partitions))
        report = self._clean(report) if sweep else report
        if not dry_run:
            self._events(_ended(report))
        return report

    def with_times(self, report: GcReport) -> GcReport:
        """The report of a pass of this collector, with `next_ms`. Costs a few reads where something waits."""
        return msgspec.structs.replace(report, partitions=tuple(many(self._timed, report.partitions)))

    def _timed(self, part: PartitionGc) -> PartitionGc:
        if not part.waiting or part.fault is not None or part.partition is None:
            return part
        files = PartitionFiles(PartitionKeys(part.topic, part.topic_id, part.partition), homes=self._driver.homes.names)
        found = attempt(lambda: self._driver.run(goes_at(files, self._grace_ms)))
        return part if isinstance(found, Fault) else msgspec.structs.replace(part, next_ms=found)

    def _clean(self, report: GcReport) -> GcReport:
        """Sweep what no topic owns."""
        found = remove_stale_temporaries(self._driver.homes, dry_run=report.dry_run)
        self._troubles.tell("stale temporaries stay", found.fault)
        return msgspec.structs.replace(report, temporaries=found.removed, fault=found.fault)

    def _topics_of(self, awake: Mapping[str, Marks], dry_run: bool, sweeping: bool) -> list[PartitionGc]:
        """All topics, many at a time: first what they are, then their partitions, then what is over."""
        at_once = SWEEPS_AT_ONCE if sweeping else AT_ONCE
        opened = many(lambda each: self._opened(*each, sweeping), awake.items(), at_once)

        def collected(work: "tuple[_Opened, PartitionKeys, bool]") -> PartitionGc:
            topic, keys, deleted = work
            return self._collected(keys, deleted, topic.lives, dry_run, sweeping)

        todo = [(topic, *each) for topic in opened for each in topic.todo]
        for (topic, *_), done in zip(todo, many(collected, todo, at_once), strict=True):
            topic.done.append(done)
        ended = many(lambda topic: [*topic.done, *self._ended(topic, dry_run, sweeping)], opened, at_once)
        return [each for done in ended for each in done]

    def _opened(self, name: str, marks: Marks, sweeping: bool) -> "_Opened":
        # A sweep also looks at finished partitions, so it begins with the first life.
        lives = Lives(name, 0) if sweeping else self._topics.setdefault(name, Lives(name, marks.over))
        known = attempt(lambda: self._driver.run(lives.refresh()))
        self._troubles.tell("topic skipped", known, name)
        if isinstance(known, Fault):
            return _Opened(name, marks, lives, [], [_unread(name, known)], whole=False, read=False)
        damaged = None if lives.damage is None else Fault.of(lives.damage)
        self._troubles.tell("an older version of a topic cannot be read", damaged, name)
        todo = [(keys, topic.deleted) for topic in known for keys in partition_keys(topic)]
        todo = [(keys, deleted) for keys, deleted in todo if not lives.is_finished(keys)]
        return _Opened(name, marks, lives, todo, [_unread(name, damaged)] if damaged else [], whole=not damaged)

    def _ended(self, topic: "_Opened", dry_run: bool, sweeping: bool) -> list[PartitionGc]:
        if not topic.read:
            return []
        lives, name = topic.lives, topic.name
        said = attempt(lambda: self._driver.run(lives.say_what_is_over(topic.marks))) if not dry_run else None
        self._troubles.tell("end of a topic not noted", said, name)
        return self._unannounced(name, lives, dry_run) if sweeping and topic.whole else []

    def _unannounced(self, name: str, lives: Lives, dry_run: bool) -> list[PartitionGc]:
        found = attempt(lambda: self._driver.run(sweep_unannounced(name, self._grace_ms, dry_run=dry_run)))
        self._troubles.tell("unannounced partitions not swept", found, name)
        if isinstance(found, Fault):
            return [_unread(name, found)]
        return [
            self._collected(each.keys, True, lives, dry_run, sweeping=True)
            if each.used
            else self._run(each.keys, lives, dry_run, each.result)
            for each in found
        ]

    def _forget(self, awake: Iterable[str]) -> None:
        """Forget topics that are over, or whose folder is gone."""
        kept = set(awake)
        self._topics = {name: lives for name, lives in self._topics.items() if name in kept}
        self._resting = {keys: each for keys, each in self._resting.items() if keys.topic in kept}
        self._partitions = {
            keys: files
            for keys, files in self._partitions.items()
            if keys.topic in kept and not ((lives := self._topics.get(keys.topic)) and lives.is_finished(keys))
        }

    def _collected(
        self, keys: PartitionKeys, deleted: bool, lives: Lives, dry_run: bool, sweeping: bool
    ) -> PartitionGc:
        return self._run(keys, lives, dry_run, lambda: self._collect(keys, deleted, dry_run, sweeping))

    def _run(self, keys: PartitionKeys, lives: Lives, dry_run: bool, work: Callable[[], Pass]) -> PartitionGc:
        blank = PartitionGc(topic=keys.topic, topic_id=keys.topic_id, partition=keys.partition)
        done = attempt(work)
        stuck = None if isinstance(done, Fault) else _stuck(done)
        self._troubles.tell("partition not collected", done, keys.topic, keys.partition, keys.topic_id)
        if isinstance(done, Fault):
            self._partitions.pop(keys, None)  # the next pass trusts nothing that this one has read
            self._resting.pop(keys, None)
            return msgspec.structs.replace(blank, fault=done)
        if done.finished and not dry_run:
            lives.finished(keys)
        self._troubles.tell("objects could not be deleted", stuck, keys.topic, keys.partition, keys.topic_id)
        if done.deleted and not dry_run:
            self._events(
                Collected(
                    topic=keys.topic,
                    partition=keys.partition,
                    topic_id=keys.topic_id,
                    objects=len(done.deleted),
                    bytes=sum(garbage.bytes for garbage in done.deleted),
                    boundary=done.boundary,
                    freed=_freed(done.deleted),
                )
            )
        return msgspec.structs.replace(
            blank,
            deleted=done.deleted,
            kept=(*done.refused, *done.kept),
            fault=stuck,
            boundary=done.boundary,
            waiting=done.waiting,
            checkpoints_expired=done.checkpoints_expired,
        )

    def _collect(self, keys: PartitionKeys, deleted: bool, dry_run: bool, sweeping: bool) -> Pass:
        resting = None if deleted or dry_run or sweeping else self._resting.get(keys)
        if resting is not None and self._still_rests(keys, resting):
            return Pass(boundary=resting.boundary)
        self._resting.pop(keys, None)
        # It is known to rest since before anything was read: what comes meanwhile is asked for.
        began_ms = self._driver.now_ms()
        files = self._partitions.setdefault(
            keys, PartitionFiles(keys, changes_to(self._events), self._driver.homes.names)
        )
        does = collect_deleted if deleted else collect
        done = self._driver.run(does(files, self._grace_ms, dry_run=dry_run))
        if sweeping and not (done.finished and not self._driver.run(has_segments(keys.root))):
            done = done.then(self._driver.run(sweep(files, self._grace_ms, dry_run=dry_run)))
        if done.rests_until_ms is not None and not dry_run:
            rest = self._rests.begin(keys.root, began_ms)
            self._resting[keys] = _Resting(rest, done.rests_until_ms, done.boundary)
        return done

    def _still_rests(self, keys: PartitionKeys, resting: _Resting) -> bool:
        """Whether there is nothing to do, as far as is known or asked now."""
        now_ms = self._driver.now_ms()
        asks = resting.rest.asks(now_ms)
        if now_ms >= resting.until_ms or self._driver.run(self._partitions[keys].moved(asks)):
            return False
        resting.rest.asked(asks, now_ms)
        return True


def _ended(report: GcReport) -> CollectionEnded:
    return CollectionEnded(
        swept=report.swept,
        objects=len(report.deleted),
        bytes=report.bytes_deleted,
        waiting=sum(partition.waiting for partition in report.partitions),
        failed=sum(partition.fault is not None for partition in report.partitions),
    )


def _freed(deleted: Iterable[Garbage]) -> tuple[Freed, ...]:
    sums: dict[str, Freed] = {}
    for each in deleted:
        before = sums.get(each.cause, Freed(each.cause, 0, 0))
        sums[each.cause] = Freed(each.cause, before.objects + 1, before.bytes + each.bytes)
    return tuple(sums.values())


def _stuck(done: Pass) -> Fault | None:
    """What the store refused to delete, according to the pass; everything else is deleted."""
    if not done.refused:
        return None
    first, more = done.refused[0], len(done.refused) - 1
    others = f"and {counted(more, 'other object')} " if more else ""
    text = f"{first.key} {others}could not be deleted: {first.reason}"
    return Fault(ErrorKind.UNAVAILABLE, text, first.key, retryable=True)


def _unread(topic: str, fault: Fault) -> PartitionGc:
    return PartitionGc(topic=topic, topic_id="", partition=None, fault=fault)
