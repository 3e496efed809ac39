"""A topic: its configuration, its partitions, and reads and writes over all of them."""

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import structlog

from lithify.log.checkpoints import check_checkpoint_name
from lithify.log.cold_homes import check_cold_home
from lithify.log.consumer import AUTO_COMMIT_INTERVAL_MS, ConsumerConfig
from lithify.log.follow import POLL_MS, OffsetReset, check_reset
from lithify.log.frames import AS_NAMED, Columns
from lithify.log.info import Looked, PartitionFailure, PartitionInfo, TopicInfo, topic_info
from lithify.log.intake import Records, prepare
from lithify.log.latest import Latest
from lithify.log.opening import Opening
from lithify.log.partition import Partition
from lithify.log.placed import check_keys, get_placed
from lithify.log.positions import check_consumer_name
from lithify.log.producer import Producer
from lithify.log.producer_config import parse_producer_config
from lithify.log.record import Record
from lithify.log.retention_policy import RetentionPolicy, policy_of, with_retention
from lithify.log.topic_consumer import TopicConsumer, came_later
from lithify.log.topic_snapshot import TopicSnapshot, opened_topic, pinned_topic
from lithify.manifest.ages import young
from lithify.manifest.catalog import alter_topic, former_partitions, growths_of, live_topic, no_partition, partition_of
from lithify.manifest.commit import Lineage
from lithify.manifest.config import Setting, TopicConfig, parse, spell_changes
from lithify.manifest.model import TopicFile
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.manifest.retention import Retention, bounds_before
from lithify.manifest.words import counted
from lithify.segment.partitioner import rows_by_partition
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, NotFound
from lithify.store.own_lock import OwnLock
from lithify.store.port import NewId
from lithify.store.short_repr import named_repr

__all__ = ["CONFIG_FRESH_MS", "Topic"]

log = structlog.wrap_logger(logging.getLogger("lithify.log"))

CONFIG_FRESH_MS = 10_000  # by the store's clock


class Topic:
    """A handle of one topic. Thread-safe. Made by `Warehouse.create_topic` and `Warehouse.topic`.

    >>> topic = lithify.open("memory://example").create_topic("users", config={"cleanup.policy": "compact"})
    >>> topic.append([lithify.Record(b"ada", b"free"), lithify.Record(b"bela", b"team")])
    {0: range(0, 2)}
    >>> topic.append([lithify.Record(b"ada", b"pro")])
    {0: range(2, 3)}
    >>> topic.get(b"ada").value
    b'pro'
    >>> topic.scan().read_all().select(["key", "offset"]).to_pylist()
    [{'key': b'ada', 'offset': 2}, {'key': b'bela', 'offset': 1}]

    Its configuration is read when it is opened, altered or described, and again before use once it is older than
    CONFIG_FRESH_MS, so changes by another process are seen at most that much later. Once the topic is deleted its
    handles raise NotFound, even if a new topic has the same name.
    """

    def __init__(self, driver: Driver, lineage: Lineage[TopicFile], topic: TopicFile, asked_ms: int) -> None:
        """`asked_ms`: the store's clock before `topic` was requested."""
        self._driver = driver
        self._lineage = lineage
        self._lock = OwnLock()
        self._handing_out = OwnLock()
        self._set(topic, asked_ms)
        self._partitions: dict[int, Partition] = {}
        self._listed: tuple[int, list[Partition]] = 0, []
        self._key_places: tuple[int, KeyPlaces] | None = None  # with the version they were computed for
        self._sticky = itertools.count(int(driver.answer(NewId()), 16))  # the partitions for keyless appends, in turn

    def __repr__(self) -> str:
        return named_repr(self, self.name, counted(self.partitions, "partition"))

    @property
    def name(self) -> str:
        return self._topic.topic

    @property
    def topic_id(self) -> str:
        """Of this topic alone: another one that is created under its name later has another id."""
        return self._topic.topic_id

    @property
    def partitions(self) -> int:
        return self._topic.partitions

    def former_partitions(self) -> tuple[int, ...]:
        """The partition counts before it grew, the latest first. Older records are where these put their keys."""
        return self._driver.run(former_partitions(self._lineage, self._topic))

    @property
    def config(self) -> dict[str, str]:
        """The values that were set; the rest have their defaults."""
        return dict(self._topic.config)

    @property
    def parsed_config(self) -> TopicConfig:
        return self._parsed

    @property
    def retention_policy(self) -> RetentionPolicy:
        """The bounds in the configuration; all None if nothing is deleted by age or size."""
        return policy_of(self._parsed)

    @property
    def cold_segments_read(self) -> int:
        """As `Partition.cold_segments_read`, of all its partitions' handles."""
        with self._handing_out.mine():
            return sum(part.cold_segments_read for part in self._partitions.values())

    def partitions_now(self) -> int:
        """The number of partitions, at most CONFIG_FRESH_MS old. Raises NotFound."""
        self._fresh_config()
        return self.partitions

    def partition(self, number: int) -> Partition:
        """A handle of one partition, the same each time. Raises NotFound."""
        if type(number) is not int or not (0 <= number < self.partitions or 0 <= number < self.partitions_now()):
            raise no_partition(self._topic, number)
        # SUBTLE! This lock is its own, and is never held while the store is asked: a producer's `append` comes here,
        # and must not wait. Test: tests/log/test_growing_producer.py
        with self._handing_out.mine():
            found = self._partitions.get(number)
            if found is None:
                keys = partition_of(self._topic, number)
                found = self._partitions[number] = Partition(self._driver, keys, self._fresh_config, self._unbounded)
            return found

    def alter(
        self,
        config: Mapping[str, Setting | None] | None = None,
        partitions: int | None = None,
        *,
        retention: RetentionPolicy | None = None,
    ) -> None:
        """Change configuration values (None: back to the default), or grow the number of partitions. Growing moves keys
        to other partitions but leaves their records, which `scan` and `get` then no longer show (RFC 0013). `retention`
        replaces all bounds, and adds delete to cleanup.policy. Raises InvalidRequest, NotFound."""
        if partitions is not None and type(partitions) is not int:
            raise InvalidRequest(f"topic {self.name}: partitions must be an integer")
        with self._lock.mine():
            if retention is not None:
                self._read()
            policy = self._topic.config.get("cleanup.policy", "")
            changes = spell_changes(with_retention(config or {}, retention, policy))
            check_cold_home(changes, self._driver.homes)
            asked_ms = self._driver.now_ms()
            self._set(self._driver.run(alter_topic(self._lineage, self._topic, changes, partitions)), asked_ms)

    def delete_records(self, before_offsets: Mapping[int, int]) -> dict[int, int]:
        """Move the log start of each named partition up to an offset by hand (KIP-107; -1: to the end); returns the log
        start offsets. As `Partition.delete_records`. If it fails for one, the others are moved all the same."""
        parts = [self.partition(number) for number in before_offsets]  # a number that does not exist is refused first
        moved = self._driver.all_of(lambda part: part.delete_records(before_offsets[part.number]), parts)
        return dict(zip(before_offsets, moved, strict=True))

    def describe(self) -> TopicInfo:
        """The topic and its partitions; those that cannot be read are listed under `failures`. Raises NotFound."""
        known = self.partitions
        topic, *looked = self._driver.each(self._looked_at, (None, *range(known)))
        if isinstance(topic, Exception):
            raise topic
        looked += self._driver.each(self._looked_at, range(known, self.partitions))  # it has grown
        found = [(number, attempt(partial(self._described, number, each))) for number, each in enumerate(looked)]
        return topic_info(
            self._topic,
            tuple(info for _, info in found if not isinstance(info, Fault)),
            tuple(PartitionFailure(n, it) for n, it in found if isinstance(it, Fault)),
        )

    def _looked_at(self, number: int | None) -> Looked | None:
        """A partition as it is now; None: the configuration."""
        if number is not None:
            return self.partition(number).look()
        with self._lock.mine():
            self._read()
        return None

    def _described(self, number: int, looked: Looked | Exception | None) -> PartitionInfo:
        if isinstance(looked, Exception):
            raise looked
        assert looked is not None
        return self.partition(number).described(looked)

    def _read(self) -> TopicFile:
        """Read the configuration. Requires: the lock is held. One GET if nothing has changed."""
        asked_ms = self._driver.now_ms()
        topic = self._driver.run(live_topic(self._lineage, self.name))
        if topic.topic_id != self._topic.topic_id:
            raise NotFound(f"topic {self.name} was deleted, and another one has its name: open it again")
        self._set(topic, asked_ms)
        return topic

    def _set(self, topic: TopicFile, asked_ms: int) -> None:
        # SUBTLE! It is as old as the question: the process may have slept before the reply. Test:
        # tests/log/test_freshness.py
        self._topic, self._parsed, self._read_at_ms = topic, parse(topic.config), asked_ms

    def _fresh_config(self) -> TopicConfig:
        """The configuration, read again if it is older than CONFIG_FRESH_MS. Raises NotFound."""
        if not self._is_fresh():
            with self._lock.mine():
                if not self._is_fresh():  # another thread may have read it meanwhile
                    self._read()
        return self._parsed

    def _unbounded(self) -> Retention:
        self._fresh_config()
        return bounds_before(self._topic)

    def _is_fresh(self) -> bool:
        return young(self._read_at_ms, self._driver.now_ms(), CONFIG_FRESH_MS)

    def append(
        self, records: Records, *, key: str | None = None, value: str | None = None, timestamp: str | None = None
    ) -> dict[int, range]:
        """Append records, dicts, or a table, each to the partition of its key; returns the offsets in each partition.
        `key`, `value` and `timestamp` name columns, as in `Partition.append`.

        Keys go where Kafka's default partitioner puts them; all keyless records of one append go to one partition,
        those of the next append to another. Each partition's part is atomic, the whole is not: the parts are appended
        side by side, and if some fail, the notes of the error say which, and what was appended. Raises as
        `Partition.append`, CommitUnknown if that is so of any part; if any record is invalid, nothing is appended.
        """
        table = self.prepare(records, columns=Columns(key, value, timestamp))
        partitions = self.partitions
        parts = list(rows_by_partition(table, partitions, next(self._sticky) % partitions))
        outcomes = self._driver.each(lambda part: self.partition(part[0]).append_prepared(part[1]), parts)
        found = {number: outcome for (number, _), outcome in zip(parts, outcomes, strict=True)}
        done = {number: outcome for number, outcome in found.items() if not isinstance(outcome, Exception)}
        failed = {number: outcome for number, outcome in found.items() if isinstance(outcome, Exception)}
        if failed:
            raise _worst(failed, done)
        return done

    def prepare(self, records: Records, *, columns: Columns = AS_NAMED, first: int = 0) -> pa.Table:
        """A table for `append_prepared`. Refusals count rows from `first`. Raises InvalidRequest, NotFound."""
        return prepare(records, self._fresh_config(), self._driver.now_ms(), self.name, columns=columns, first=first)

    def producer(self, id: str | None = None, config: Mapping[str, str | int] | None = None) -> Producer:  # noqa: A002
        """Send records one by one, in batches. With an `id` it is idempotent, and fences former holders of the id.

        `config`: linger.ms (1000), batch.records (10000), batch.size (8 MiB), buffer.memory (64 MiB), max.block.ms
        (60000), delivery.timeout.ms (120000).
        """
        self._fresh_config()
        settings = parse_producer_config(config or {})
        clock = self._driver.monotonic_ms
        latest = Latest(self.name, lambda: self._parsed, self._is_fresh, self._fresh_config, clock)
        return Producer(
            self._driver, self.name, self._all(), latest, settings, id, clock, known=self._all, look=self._look
        )

    def _look(self) -> list[Partition]:
        with self._lock.mine():
            self._read()
        return self._all()

    def _all(self) -> list[Partition]:
        """All partitions known so far; asks nothing of the store."""
        if self._listed[0] != self.partitions:
            count = self.partitions
            self._listed = count, [self.partition(number) for number in range(count)]
        return self._listed[1]

    def consumer(
        self,
        name: str,
        partitions: Collection[int] | None = None,
        *,
        auto_offset_reset: OffsetReset = "earliest",
        auto_commit_interval_ms: int | None = AUTO_COMMIT_INTERVAL_MS,
        poll_ms: int = POLL_MS,
        stop: Callable[[], bool] | None = None,
    ) -> TopicConsumer:
        """As `Partition.consumer`, for several partitions in turn, each with its own position under this name. Several
        processes can share a topic if each is given different partitions.

        Without `partitions` it reads all partitions. Those added later are included within ten seconds, each from its
        first record, even if this consumer was not running when the topic grew.
        """
        numbers = range(self.partitions_now()) if partitions is None else self._chosen(partitions)
        name = check_consumer_name(name)
        config = ConsumerConfig(check_reset(auto_offset_reset), auto_commit_interval_ms, poll_ms, stop)
        parts = [self.partition(number) for number in numbers]
        later = came_later(self, name, parts)
        openings = [part.opening(name, config, added=part.number in later) for part in parts]
        self._driver.all_of(Opening.look, openings)  # check all before taking any
        taken = self._driver.all_of(Opening.take, openings)
        consumers = {part.number: consumer for part, consumer in zip(parts, taken, strict=True)}
        return TopicConsumer(self._driver, consumers, config, None if partitions is not None else self)

    def _chosen(self, partitions: object) -> list[int]:
        numbers: list[Any] = list(partitions) if isinstance(partitions, Iterable) else []
        if not numbers or not all(type(number) is int for number in numbers):
            raise InvalidRequest(f"{self.name}: partitions must be a list of at least one number, such as [0, 2]")
        return sorted(set(numbers))

    def read(self) -> Iterator[Record]:
        """Every stored record, one partition after the other, each in offset order, as `Partition.read`."""
        return self.snapshot().read()

    def offsets_for_timestamp(self, timestamp_ms: int) -> dict[int, int | None]:
        """`Partition.offset_for_timestamp` of each partition, by number."""
        return dict(enumerate(self.snapshot().of_each(lambda found: found.offset_for_timestamp(timestamp_ms))))

    def scan(
        self,
        tombstones: bool = False,
        *,
        low: bytes | None = None,
        high: bytes | None = None,
        columns: Iterable[str] | None = None,
    ) -> pa.RecordBatchReader:
        """The latest record of each key of all partitions, one partition after the other, each in key order. Records
        that keys left behind when the topic grew are not included; `partition(n).scan()` shows them (docs/rfcs/0013).
        `low`, `high`, `columns` as in `Partition.scan`.
        """
        return self.snapshot().scan(tombstones, low=low, high=high, columns=columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """As `scan`, for whatever reads Arrow: `polars.DataFrame(topic)`, or DuckDB's `from topic`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def snapshot(self, ttl: int | timedelta | None = None, *, manifests: Sequence[int] | None = None) -> TopicSnapshot:
        """A snapshot of each partition (side by side if the store is far; not of one instant): the newest, or those
        `manifests`, a number for each. `ttl` as in `Partition.snapshot`: it keeps them readable."""
        self._fresh_config()
        return opened_topic(self.name, self.key_places(), self.partition, ttl, manifests, self._driver.each)

    def pinned(self, name: str) -> TopicSnapshot:
        """What the checkpoint `name` of each partition pins. If it was made before the topic grew, it shows the topic
        as it was: without the added partitions, and with keys in their former places. Raises NotFound if partitions do
        not have it that existed when the others were pinned."""
        self._fresh_config()
        places = self.key_places()
        parts = [self.partition(number) for number in range(places.partitions)]
        return pinned_topic(self.name, places, parts, check_checkpoint_name(name), self._driver.each)

    def get(self, key: bytes | str, *, max_staleness_ms: int = 0) -> Record | None:
        """The latest record of `key`; None: there is none, or it was deleted. Looks in the key's present partition, as
        `scan` does. `max_staleness_ms` as in `Partition.get_many`."""
        return self.get_many((key,), max_staleness_ms=max_staleness_ms)[0]

    def get_many(self, keys: Iterable[bytes | str], *, max_staleness_ms: int = 0) -> list[Record | None]:
        """As `get`, for each of `keys`, in their order; those in one partition from one manifest. Partitions of a far
        store are asked side by side."""
        wanted = check_keys(keys, self.name)
        self._fresh_config()
        return get_placed(
            self.key_places(),
            wanted,
            lambda number, mine, room: self.partition(number).get_many_beside(mine, max_staleness_ms, room),
            self._driver.store,
        )

    def key_places(self) -> KeyPlaces:
        """Where keys live, and where they lived before the topic grew."""
        topic, known = self._topic, self._key_places
        if known is None or known[0] != topic.id:
            growths = self._driver.run(growths_of(self._lineage, topic))
            known = self._key_places = topic.id, KeyPlaces(growths, topic.partitions)
        return known[1]


def _worst(failed: Mapping[int, Exception], done: Mapping[int, range]) -> Exception:
    """The failure to raise, which tells of the others: one whose outcome is unknown, else the first."""
    error = next((error for error in failed.values() if isinstance(error, CommitUnknown)), next(iter(failed.values())))
    for number, other in failed.items():
        if other is not error:
            token = f", with token {other.token}" if isinstance(other, CommitUnknown) else ""
            error.add_note(f"partition {number} failed, too: {other}{token}")
    error.add_note(f"appended, by partition: {dict(done) or 'nothing'}")
    return error
