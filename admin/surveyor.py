"""The walk of a survey over all partitions, one at a time however many ask (docs/rfcs/0018, Survey and metrics)."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from lithify.admin.append_times import AppendTime, append_time, committed_at_ms
from lithify.admin.home_watch import HomeState, HomeWatch
from lithify.admin.partitions import Failed
from lithify.admin.survey import Overview, PartitionSurvey, oldest_waiting, surveyed
from lithify.admin.topics import bounded
from lithify.gc.collector import GRACE_MS_MIN
from lithify.manifest.ages import young
from lithify.manifest.config import parse
from lithify.manifest.debt import assess
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.store.apart import Fault, attempt
from lithify.store.driver import machine_ms
from lithify.store.errors import ErrorKind, InvalidRequest
from lithify.store.own_lock import OwnLock
from lithify.store.port import Now

__all__ = ["SURVEY_MS", "WAIT_MS_MAX", "Surveyor"]

SURVEY_MS = 60_000  # how long a survey is good enough for the next who asks
WAIT_MS_MAX = 25_000  # a request has 30 s
THREADS = 16  # half of the connections that a store keeps
# After so many partitions in a row without an answer from the store the rest is not asked: each takes its time.
AWAY_MAX = 2 * THREADS
PROOF_MS = GRACE_MS_MIN - 60_000  # within this of a proof that a file is the newest, its successor is not collected


class Surveyor:
    """Makes surveys, and remembers the last one. Thread-safe. Costs two GETs for each partition that `known` keeps and
    that has not changed, about five more once in four minutes, one more where collection has made progress or old
    records are due, and nothing while the last survey is younger than `fresh_ms`."""

    def __init__(self, known: KnownPartitions, fresh_ms: int = SURVEY_MS) -> None:
        self._known = known
        self._homes = HomeWatch(known.driver.homes)
        self._fresh_ms = fresh_ms
        self._lock = OwnLock()
        self._beginning = OwnLock()
        self._made = 0  # how many surveys have ended, well or not
        self._last: _Ended | None = None
        self._walk: _Walk | None = None  # the one under way, or the last
        self._thread: threading.Thread | None = None  # that makes a survey for whoever does not wait for all of it
        self._proved_ms: dict[PartitionKeys, int] = {}  # when the heads of a partition were proved to be that
        self._replaced: dict[PartitionKeys, tuple[int, int]] = {}  # `oldest_waiting`, and when that was committed
        self._appended: dict[PartitionKeys, AppendTime] = {}

    def overview(self, wait_ms: int | None = None) -> Overview:
        """The last survey if it is young, else a new one. Whoever asks meanwhile waits for it; with `wait_ms` for no
        longer than that, and then gets what the last one came to, or if there is none what the first one has found so
        far. Raises what the listing of topics raises; what cannot be read beyond that is among `failed`;
        InvalidRequest."""
        if wait_ms is None:
            return self._aged(self._whole())
        if not 0 <= wait_ms <= WAIT_MS_MAX:
            raise InvalidRequest(f"wait_ms is {wait_ms}: give 0 to {WAIT_MS_MAX}, or leave it out to wait for all")
        thread = self._under_way()
        if thread is not None:
            thread.join(wait_ms / 1000)
        return self._so_far() if self._last is None else self._aged(self._last)

    def _under_way(self) -> threading.Thread | None:
        """The thread that makes a survey; None: the last one is young enough. Whatever it ends with is kept."""
        with self._beginning.mine():
            if self._thread is not None and self._thread.is_alive():
                return self._thread
            if self._is_young(self._last):
                return None
            self._thread = threading.Thread(target=self._whole, name="lithify-survey", daemon=True)
            self._thread.start()
            return self._thread

    def _whole(self) -> "_Ended":
        driver, made = self._known.driver, self._made
        with self._lock.mine():
            last = self._last
            # Whoever waited for a survey that failed has its answer: the store is not asked again for each of them.
            ended_meanwhile = last is not None and isinstance(last.came_to, Fault) and self._made > made
            if last is None or not (self._is_young(last) or ended_meanwhile):
                began_ms = driver.monotonic_ms()
                last = self._last = _Ended(began_ms, attempt(lambda: self._survey(began_ms)))
                self._made += 1
            return last

    def _is_young(self, last: "_Ended | None") -> bool:
        if last is None or isinstance(last.came_to, Fault):
            return False
        return young(last.began_ms, self._known.driver.monotonic_ms(), self._fresh_ms)

    def _aged(self, last: "_Ended") -> Overview:
        if isinstance(last.came_to, Fault):
            raise last.came_to.error()
        return msgspec.structs.replace(last.came_to, age_ms=self._known.driver.monotonic_ms() - last.began_ms)

    def _survey(self, began_ms: int) -> Overview:
        walk = self._walk = _Walk(self._known, self._proved_ms, self._replaced, self._appended, began_ms)
        walk.all()
        walk.homes = self._homes.look(walk.owners)
        self._proved_ms, self._replaced, self._appended = walk.proved_ms, walk.replaced, walk.appended
        return walk.overview(self._known.driver.now_ms(), whole=True)

    def _so_far(self) -> Overview:
        """Of the survey under way. Asks nothing of the store, which may be what hangs, and takes this machine's clock
        for its."""
        walk = self._walk or _Walk(self._known, {}, {}, {}, self._known.driver.monotonic_ms())
        return walk.overview(machine_ms(), whole=False)


class _Ended(NamedTuple):
    """A survey."""

    began_ms: int  # by the clock for spans, as the ages are
    came_to: Overview | Fault


class _Walk:
    """One survey."""

    def __init__(
        self,
        known: KnownPartitions,
        proved_ms: Mapping[PartitionKeys, int],
        replaced: Mapping[PartitionKeys, tuple[int, int]],
        appended: Mapping[PartitionKeys, AppendTime],
        began_ms: int,
    ) -> None:
        self.proved_ms: dict[PartitionKeys, int] = {}
        self.replaced: dict[PartitionKeys, tuple[int, int]] = {}
        self.appended: dict[PartitionKeys, AppendTime] = {}
        self.owners: dict[str, str] = {}  # by home, the key of a file that says whose it is
        self.homes: tuple[HomeState, ...] = ()
        self._known = known
        self._proved_ms = proved_ms
        self._replaced = replaced
        self._appended = appended
        self._away = 0  # partitions in a row without an answer from the store
        self._silent: Fault | None = None
        self._began_ms = began_ms
        self._found: list[PartitionSurvey | Failed] = []  # so far, in any order

    def all(self) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._look, partitions_found(self._known)))  # raises what one of them raises

    def overview(self, now_ms: int, *, whole: bool) -> Overview:
        """What was found, in order of topics and partitions. `now_ms`: by the store's clock."""
        found = sorted([*self._found], key=lambda each: (each.topic, each.partition or 0))
        took_ms = self._known.driver.monotonic_ms() - self._began_ms
        return Overview(
            at_ms=now_ms - took_ms,
            age_ms=took_ms,
            took_ms=took_ms,
            clock_skew_ms=machine_ms() - now_ms,
            whole=whole,
            partitions=tuple(each for each in found if isinstance(each, PartitionSurvey)),
            failed=tuple(each for each in found if isinstance(each, Failed)),
            homes=self.homes,
        )

    def _look(self, found: FoundPartition | UnreadTopic) -> None:
        one = self._one(found)
        if one is not None:
            self._found.append(one)

    def _one(self, found: FoundPartition | UnreadTopic) -> PartitionSurvey | Failed | None:
        """None: the topic was deleted meanwhile."""
        if isinstance(found, UnreadTopic):
            return Failed(topic=found.topic, partition=None, fault=found.fault)
        outcome = self._silent or attempt(lambda: self._read(found))
        if not isinstance(outcome, Fault):
            self._away = 0
            return outcome
        if outcome.kind is ErrorKind.NOT_FOUND and self._is_gone(found):
            return None
        self._away += outcome.retryable
        if self._away >= AWAY_MAX:
            self._silent = outcome
        return Failed(topic=found.keys.topic, partition=found.keys.partition, fault=outcome)

    def _is_gone(self, found: FoundPartition) -> bool:
        topic = attempt(lambda: self._known.topic(found.keys.topic))
        if isinstance(topic, Fault):
            return topic.kind is ErrorKind.NOT_FOUND
        return topic.topic_id != found.keys.topic_id

    def _read(self, found: FoundPartition) -> PartitionSurvey:
        config, keys = parse(found.topic.config), found.keys
        now_ms = self._known.driver.monotonic_ms()
        proved_ms = self._proved_ms.get(keys, 0)
        proved = keys in self._proved_ms and young(proved_ms, now_ms, PROOF_MS)

        async def read(files: PartitionFiles) -> PartitionSurvey:
            heads = await _unmoved(files) if proved else None
            self.proved_ms[keys] = now_ms if heads is None else proved_ms
            manifest, state = heads or (await files.live_head(), await files.compactor_state())
            self.owners.update(dict.fromkeys(manifest.homes, keys.owner))
            reading = Reading.of(bounded(manifest, found.topic), state, config, await Now())
            debt = assess(reading)
            added = await append_time(files, found.topic, reading, debt, self._appended.get(keys))
            if added is not None:
                self.appended[keys] = added
            return surveyed(reading, debt, await self._waits_since_ms(files, reading), added.at_ms if added else 0)

        return self._known.run(keys, read)

    async def _waits_since_ms(self, files: PartitionFiles, reading: Reading) -> int | None:
        """When the oldest waiting segment was replaced; if the manifest that did it is gone or damaged, when this
        process saw it first. Costs a GET, once for each such manifest."""
        number = oldest_waiting(reading.manifest)
        if number is None:
            return None
        known = self._replaced.get(files.keys)
        if known is None or known[0] != number:
            known = number, await committed_at_ms(files, number) or reading.now_ms
        self.replaced[files.keys] = known
        return known[1]


async def _unmoved(files: PartitionFiles) -> tuple[Manifest, CompactorState | None] | None:
    """The heads, if nothing came after them; else None.

    SUBTLE! An absent N+1 does not prove that N is the newest: N+1 may have been collected (P3). But not within the
    grace period after N was proved to be the newest, and after such a proof this is asked only for a shorter time.
    Test: tests/admin/test_survey.py
    """
    manifest = files.manifest.seen.value
    if manifest is None or manifest.sealed or await files.manifest.moved() or await files.compactor.moved():
        return None
    return manifest, files.compactor.seen.value
