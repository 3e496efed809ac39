"""Sending records one by one: gathered into batches, appended in the background, in order per partition.

With an id the producer is idempotent (KIP-98): each partition knows its epoch and sequence, and opening the same id
elsewhere fences this one.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from types import TracebackType
from typing import NamedTuple

from lithify.log.batches import RECORD_OVERHEAD_BYTES, Batch, Batches, Delivery, taken_bytes, wait_s
from lithify.log.delivering import deliver
from lithify.log.intake import timestamp_problem
from lithify.log.latest import Latest
from lithify.log.names import check_name
from lithify.log.own_process import OwnProcess
from lithify.log.partition import Partition
from lithify.log.producer_config import ProducerConfig
from lithify.log.producer_failure import Failure, noted_on, told_of_all
from lithify.log.producer_stamps import open_everywhere
from lithify.log.record import Headers, Record, record_bytes, record_problem
from lithify.manifest.config import TopicConfig
from lithify.manifest.words import counted
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Clock, Driver, monotonic_ms
from lithify.store.errors import CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import NewId
from lithify.store.short_repr import named_repr

__all__ = ["Delivery", "Producer"]

SENDERS_MAX = 8  # threads, and so simultaneous appends


class _Moment(NamedTuple):
    """What `append` goes by for a millisecond."""

    clock_ms: int
    now_ms: int  # by the store's clock
    config: TopicConfig


class Producer:
    """Sends records one by one, in batches. Made by `Topic.producer`.

    >>> topic = lithify.open("memory://example").create_topic("users")
    >>> with topic.producer(id="importer") as producer:
    ...     delivery = producer.append(b"ada", b"pro")
    >>> delivery.offset()
    0

    Use it in a `with` block, or `close` it: records still waiting when the process ends are lost. Thread-safe. In a
    forked process it raises InvalidRequest; open another one there.

    A producer fails as a whole: once a batch could not be appended it sends nothing else, and every further call
    raises. Open another one. So nothing is lost silently, and no record is appended to a partition after an earlier one
    failed. Each delivery reports the outcome of its own record; for a record that was never sent the error is never
    CommitUnknown.
    """

    def __init__(
        self,
        driver: Driver,
        topic: str,
        partitions: Sequence[Partition],
        topic_config: Latest[TopicConfig],
        config: ProducerConfig,
        producer_id: str | None,
        clock: Clock = monotonic_ms,
        known: Callable[[], Sequence[Partition]] | None = None,
        look: Callable[[], Sequence[Partition]] | None = None,
    ) -> None:
        """`partitions`: all of the topic's. `known` returns those known by now, without asking the store (None: the
        topic never grows); `look` asks the store first (None: `known`). `clock` measures lingering, in milliseconds.
        With an id this costs one commit per partition, and fences older holders everywhere before it returns."""
        if producer_id is not None:
            check_name(f"topic {topic}: a producer's id", producer_id)
        self._process = OwnProcess()
        self._driver = driver
        self._topic = topic
        self._known = known or (lambda: partitions)
        self._topic_config = topic_config
        self._config = config
        self._clock = clock
        self._told_ms = driver.now_ms(), clock()  # the store's clock, and ours at that time
        self._stamps = None
        if producer_id is not None:
            self._stamps = open_everywhere(driver, producer_id, partitions[0], look or self._known)
        self._partitions = list(self._known())
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._batches = Batches(config)
        self._keyless: Batch | None = None
        self._keyless_turn = int(driver.answer(NewId()), 16)
        self._waiting = deque[object]()  # for room in the buffer, in order of arrival
        self._failures: list[Failure] = []  # one per sender at most: nothing is sent after a failure
        self._closing = False
        self._closed = False  # nothing is in flight any more, and failures were reported
        self._moment: _Moment | None = None
        self._senders = self._start(min(SENDERS_MAX, len(self._partitions)))

    def __repr__(self) -> str:
        with self._lock:
            state = "closed" if self._closed else f"batches_waiting={len(self._batches)}"
            return named_repr(self, self._topic, counted(len(self._partitions), "partition"), state)

    def _start(self, senders: int) -> list[threading.Thread]:
        started: list[threading.Thread] = []
        for number in range(senders):
            sender = threading.Thread(target=self._send_until_closed, name=f"lithify-producer-{number}", daemon=True)
            try:
                sender.start()
            except RuntimeError:  # no more threads on this machine; those that run serve all partitions
                break
            started.append(sender)
        if not started:
            raise Unavailable(f"topic {self._topic}: no thread can be started to send records; end some, and try again")
        return started

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except LithifyError as failure:
            if error is None:
                raise
            # A caller who leaves the block because this producer refused a record, and keeps no delivery, would see
            # "retry" although there is an outcome to look up first.
            its_own = any(one.raised(error) for one in self._failures)
            if its_own and isinstance(failure, CommitUnknown) and not isinstance(error, CommitUnknown):
                raise failure from error
            noted_on(error, self._failures)

    @property
    def sequences(self) -> tuple[int, ...]:
        """By partition, how many records of this id are in the log, including those of all former instances; empty
        without an id. None of theirs can arrive any more. If an instance hands over the same records in the same order
        as the one before, it can skip so many in each partition, and nothing is stored twice. If a partition has
        forgotten the id (of about a thousand, the longest idle are forgotten first), it counts from 0 again."""
        return () if self._stamps is None else self._stamps.sequences(len(self._partitions))

    def append(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None, headers: Headers = ()
    ) -> Delivery:
        """Hand over one record; it is durable once the delivery is done, or after `flush`. Waits while the buffer is
        full, at most max.block.ms. If it raises, this record was not appended: InvalidRequest or Unavailable because of
        the record itself, or the kind of an earlier failure."""
        if self._process.pid != os.getpid():
            self._check_process()
        clock_ms = self._clock()
        moment = self._moment
        # What can be asked once a millisecond is not asked for each record: the time, the configuration, growth.
        if moment is None or moment.clock_ms != clock_ms:
            moment = self._look(clock_ms)
        if type(key) is bytes and type(value) is bytes and timestamp_ms is None and headers == ():
            record, size = Record(key, value, moment.now_ms), len(key) + len(value)
            if size > moment.config.max_message_bytes:
                raise self._too_large(size, moment.config)
            taken = size + RECORD_OVERHEAD_BYTES
        else:
            record = Record(key, value, moment.now_ms if timestamp_ms is None else timestamp_ms, headers)
            taken = self._check(record, moment.now_ms, moment.config)
            record = Record(record.key, record.value, record.timestamp_ms, tuple((n, v) for n, v in record.headers))
        with self._lock:
            if self._waiting or self._failures or self._closing or not self._batches.has_room(taken):
                self._wait_for_room(taken, clock_ms + self._config.max_block_ms)
                clock_ms = self._clock()
            batch, index = self._batches.add(self._place(key), record, taken, clock_ms)
            if key is None:
                self._keyless = batch
            # Wake a sender for a batch that is due, or for a new batch, whose lingering it will time.
            if index == 0 or batch.due_at_ms <= clock_ms:
                self._changed.notify_all()
            return Delivery(batch, index)

    def _look(self, clock_ms: int) -> "_Moment":
        """Raises NotFound if the topic was deleted."""
        now_ms = self._now_ms()
        moment = _Moment(clock_ms, now_ms, self._topic_config.get(self._config.max_block_ms))
        with self._lock:
            self._grow()
        self._moment = moment
        return moment

    def _now_ms(self) -> int:
        """The store's clock; if it cannot be read, its last reading plus the time since by this process's clock."""
        try:
            now_ms = self._driver.now_ms()
        except Unavailable:
            told_ms, then_ms = self._told_ms
            return told_ms + self._clock() - then_ms
        self._told_ms = now_ms, self._clock()
        return now_ms

    def _check(self, record: Record, now_ms: int, config: TopicConfig) -> int:
        """The buffer bytes that it takes. A fault found here refuses one record; found when its batch is sent, it would
        fail the producer."""
        problem = record_problem(record)
        if problem is None and record.key is None and config.compacted:
            problem = "has no key, which a compacted topic cannot keep: give it a key"
        problem = problem or timestamp_problem(record.timestamp_ms, config, now_ms)
        if problem is not None:
            raise InvalidRequest(f"topic {self._topic}: the record {problem}. It was not appended")
        size = record_bytes(record)
        if size > config.max_message_bytes:
            raise self._too_large(size, config)
        return taken_bytes(record, size)

    def _too_large(self, size: int, config: TopicConfig) -> InvalidRequest:
        limit = f"max.message.bytes ({config.max_message_bytes})"
        return InvalidRequest(f"topic {self._topic}: the record has {size} bytes, more than {limit}")

    def _grow(self) -> None:
        """Start using partitions that were added. It waits for nothing: the sender of a partition's first batch opens
        the id there. Batches already begun keep their partition. Requires: the lock is held."""
        known = self._known()
        if len(known) <= len(self._partitions):
            return
        self._partitions += known[len(self._partitions) :]
        more = min(SENDERS_MAX, len(self._partitions)) - len(self._senders)
        if more > 0:
            with contextlib.suppress(Unavailable):  # those that run serve all partitions
                self._senders += self._start(more)

    def _place(self, key: bytes | None) -> int:
        if key is not None:
            return partition_for_key(key, len(self._partitions))
        if self._keyless is None or not self._keyless.open:
            self._keyless_turn += 1  # keyless records fill one batch, then the next partition's (KIP-480)
        return self._keyless_turn % len(self._partitions)

    def _wait_for_room(self, size: int, deadline_ms: int) -> None:
        """First come, first served: small records do not overtake a large one that waits for room."""
        turn = object()
        self._waiting.append(turn)
        try:
            self._wait_in_line(turn, size, deadline_ms)
        finally:
            self._waiting.remove(turn)
            if self._waiting:
                self._changed.notify_all()

    def _wait_in_line(self, turn: object, size: int, deadline_ms: int) -> None:
        self._refuse_after_failure()
        while self._waiting[0] is not turn or not self._batches.has_room(size):
            now_ms = self._clock()
            if now_ms >= deadline_ms:
                raise Unavailable(
                    f"topic {self._topic}: buffer.memory is full of records that are not acknowledged yet. This record "
                    "was not appended; retry later"
                )
            # SUBTLE! Notify only if something changed. Otherwise two waiting threads would wake each other for ever,
            # and keep a processor busy. Test: tests/log/test_producer_waits.py
            if self._batches.hurry(now_ms):
                self._changed.notify_all()
            self._changed.wait(wait_s(deadline_ms - now_ms))
            self._refuse_after_failure()
        if self._closing:
            raise InvalidRequest(f"topic {self._topic}: the producer is closed; open another one")

    def _check_process(self) -> None:
        """SUBTLE! A forked child has no senders, and perhaps locks that nobody will release: it would wait for ever.
        Test: tests/log/test_producer_waits.py"""
        self._process.check(f"topic {self._topic}: the producer")

    def _refuse_after_failure(self) -> None:
        if self._failures:
            raise self._failures[0].refusal()

    def flush(self) -> None:
        """Wait until every record handed over so far is durable. Raises what prevented it."""
        self._check_process()
        with self._lock:
            under_way = [batch.outcome for batch in self._batches.all()]
            self._batches.hurry(self._clock())
            self._changed.notify_all()
        wait(under_way)
        with self._lock:
            if self._failures:
                raise told_of_all(self._failures)

    def close(self) -> None:
        """Flush, and end. Raises what prevented a record from being durable, in every thread that calls it before it
        has ended. Later calls do nothing, and neither do calls in a forked process: its parent sends the records."""
        if not self._process.is_here or self._closed:
            return
        with self._lock:
            self._closing = True
        try:
            self._end()
        except LithifyError:
            self._closed = True
            raise
        self._closed = True

    def _end(self) -> None:
        try:
            self.flush()
        finally:
            with self._lock:
                self._changed.notify_all()
            for sender in self._senders:
                sender.join()

    def _send_until_closed(self) -> None:
        batch: Batch | None = None
        try:
            while True:
                with self._lock:
                    batch = self._next()
                if batch is None:
                    return
                self._settle(batch, self._outcome(batch))
                batch = None
        except BaseException as error:  # noqa: BLE001 - raised in every waiting caller, or these wait for ever
            self._settle(batch, self._fault(batch, error))

    def _outcome(self, batch: Batch) -> range | Failure:
        try:
            return self._send(batch)
        except LithifyError as error:
            return Failure(error)

    def _fault(self, batch: Batch | None, error: BaseException) -> Failure:
        # Only the error's type: a foreign error's message may quote a record.
        ended = f"ended with {type(error).__name__}, a bug in lithify or a fault of this machine"
        if batch is None:
            return Failure(Unavailable(f"topic {self._topic}: a thread that sends records {ended}"))
        return Failure(
            CommitUnknown(
                f"{self._topic}/{batch.partition}: sending a batch {ended}. Whether it was appended is not known: look "
                "for its records before you send them again"
            )
        )

    def _next(self) -> Batch | None:
        """Wait for the next batch that is due; None: the producer has ended."""
        while True:
            now_ms = self._clock()
            batch = self._batches.take(now_ms)
            if batch is not None or (self._closing and not len(self._batches)):
                return batch
            due_in_ms = self._batches.due_in_ms(now_ms)
            self._changed.wait(None if due_in_ms is None else wait_s(due_in_ms))

    def _send(self, batch: Batch) -> range:
        partition, config = self._partitions[batch.partition], self._topic_config.known()
        deadline_ms = batch.due_at_ms + self._config.delivery_timeout_ms
        stamp = None
        if self._stamps is not None:
            stamp = self._stamps.of(partition, config, deadline_ms=deadline_ms, clock=self._clock)
        now_ms = self._now_ms()
        offsets = deliver(
            self._driver,
            partition,
            batch.records,
            config,
            stamp,
            now_ms=now_ms,
            deadline_ms=deadline_ms,
            clock=self._clock,
        )
        if self._stamps is not None:
            self._stamps.appended(batch.partition, len(offsets))
        return offsets

    def _settle(self, batch: Batch | None, result: range | Failure) -> None:
        with self._lock:
            if batch is not None:
                self._batches.settled(batch)
            unsent: list[Batch] = []
            if isinstance(result, Failure):
                self._failures.append(result)
                unsent = list(self._batches.unsent())
            self._changed.notify_all()
        if batch is not None:
            batch.outcome.set_result(result if isinstance(result, range) else result.told)
        for other in unsent:
            assert isinstance(result, Failure)
            other.outcome.set_result(result.refusal)
