"""The walk of a survey over all partitions, one at a time however many ask (docs/rfcs/0018, Survey and metrics)."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from lithify.admin.partitions import Failed
from lithify.admin.survey import Overview, PartitionSurvey, oldest_waiting, surveyed
from lithify.admin.topics import bounded
from lithify.gc.collector import GRACE_MS_MIN
from lithify.manifest.ages import young
from lithify.manifest.config import parse
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.store.apart import Fault, attempt
from lithify.store.driver import machine_ms
from lithify.store.errors import Corrupt, ErrorKind, InvalidRequest
from lithify.store.own_lock import OwnLock
from lithify.store.port import Now

__all__ = ["SURVEY_MS", "Surveyor"]

SURVEY_MS = 60_000  # how long a survey is good enough for the next who asks
THREADS = 16  # half of the connections that a store keeps
# After so many partitions in a row without an answer from the store the rest is not asked: each takes its time.
AWAY_MAX = 2 * THREADS
PROOF_MS = GRACE_MS_MIN - 60_000  # within this of a proof that a file is the newest, its successor is not collected


class Surveyor:
    """Makes surveys, and remembers the last one. Thread-safe. Costs two GETs for each partition that `known` keeps and
    that has not changed, about five more once in four minutes, one more where collection has made progress, and nothing
    while the last survey is younger than `fresh_ms`."""

    def __init__(self, known: KnownPartitions, fresh_ms: int = SURVEY_MS) -> None:
        self._known = known
        self._fresh_ms = fresh_ms
        self._lock = OwnLock()
        self._made = 0  # how many surveys have ended, well or not
        self._last: Overview | Fault | None = None
        self._began_ms = 0  # by the clock for spans, as the ages are
        self._proved_ms: dict[PartitionKeys, int] = {}  # when the heads of a partition were proved to be that
        self._replaced: dict[PartitionKeys, tuple[int, int]] = {}  # `oldest_waiting`, and when that was committed

    def overview(self) -> Overview:
        """The last survey if it is young, else a new one. Whoever asks meanwhile waits for it. Raises what the listing
        of topics raises; what cannot be read beyond that is among `failed`."""
        driver, made = self._known.driver, self._made
        with self._lock.mine():
            young_enough = young(self._began_ms, driver.monotonic_ms(), self._fresh_ms)
            # Whoever waited for a survey that failed has its answer: the store is not asked again for each of them.
            ended_meanwhile = isinstance(self._last, Fault) and self._made > made
            if not (isinstance(self._last, Overview) and young_enough) and not ended_meanwhile:
                self._began_ms = driver.monotonic_ms()
                self._last = attempt(self._survey)
                self._made += 1
            last, age_ms = self._last, driver.monotonic_ms() - self._began_ms
        if not isinstance(last, Overview):
            assert last is not None
            raise last.error()
        return msgspec.structs.replace(last, age_ms=age_ms)

    def _survey(self) -> Overview:
        driver = self._known.driver
        began_ms = driver.monotonic_ms()
        walk = _Walk(self._known, self._proved_ms, self._replaced)
        found = walk.all()
        self._proved_ms, self._replaced = walk.proved_ms, walk.replaced
        at_ms = driver.now_ms()
        took_ms = driver.monotonic_ms() - began_ms
        return Overview(
            at_ms=at_ms - took_ms,
            age_ms=took_ms,
            took_ms=took_ms,
            clock_skew_ms=machine_ms() - at_ms,
            partitions=tuple(each for each in found if isinstance(each, PartitionSurvey)),
            failed=tuple(each for each in found if isinstance(each, Failed)),
        )


class _Walk:
    """One survey."""

    def __init__(
        self,
        known: KnownPartitions,
        proved_ms: Mapping[PartitionKeys, int],
        replaced: Mapping[PartitionKeys, tuple[int, int]],
    ) -> None:
        self.proved_ms: dict[PartitionKeys, int] = {}
        self.replaced: dict[PartitionKeys, tuple[int, int]] = {}
        self._known = known
        self._proved_ms = proved_ms
        self._replaced = replaced
        self._away = 0  # partitions in a row without an answer from the store
        self._silent: Fault | None = None

    def all(self) -> Sequence[PartitionSurvey | Failed]:
        """In order of topics and partitions."""
        with ThreadPoolExecutor(THREADS) as pool:
            asked = pool.map(self._one, partitions_found(self._known))
            return [each for each in asked if each is not None]

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
            reading = Reading.of(bounded(manifest, found.topic), state, config, await Now())
            return surveyed(reading, await self._waits_since_ms(files, reading))

        return self._known.run(keys, read)

    async def _waits_since_ms(self, files: PartitionFiles, reading: Reading) -> int | None:
        """When the oldest waiting segment was replaced; if the manifest that did it is gone or damaged, when this
        process saw it first. Costs a GET, once for each such manifest."""
        number = oldest_waiting(reading.manifest)
        if number is None:
            return None
        known = self._replaced.get(files.keys)
        if known is None or known[0] != number:
            known = number, await _committed_at_ms(files, number) or reading.now_ms
        self.replaced[files.keys] = known
        return known[1]


async def _committed_at_ms(files: PartitionFiles, number: int) -> int | None:
    try:
        found = await files.manifest.read(number)
    except (Corrupt, InvalidRequest):  # it does not keep anything else from being told
        return None
    return None if found is None or found.value is None else found.value.committed_at_ms


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
