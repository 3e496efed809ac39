"""Collects records into batches until these are due. No threads and no clock in here; the producer's lock guards it."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from lithify.log.producer_config import ProducerConfig
from lithify.log.record import Record
from lithify.store.errors import InvalidRequest, LithifyError

__all__ = ["RECORD_OVERHEAD_BYTES", "Batch", "Batches", "Delivery", "taken_bytes", "wait_s"]

RECORD_OVERHEAD_BYTES = 256  # of the Python objects for a small record
HEADER_OVERHEAD_BYTES = 160  # of those for each header
_WAIT_MS_MAX = int(threading.TIMEOUT_MAX * 1000)  # some 292 years: locks refuse longer timeouts


def taken_bytes(record: Record, record_bytes: int) -> int:
    """Bytes of the buffer, and of a batch, that a record of `record_bytes` takes."""
    return record_bytes + RECORD_OVERHEAD_BYTES + HEADER_OVERHEAD_BYTES * len(record.headers)


def wait_s(wait_ms: int) -> float:
    """`wait_ms` as a timeout for locks, in seconds."""
    return min(wait_ms, _WAIT_MS_MAX) / 1000


class Batch:
    """Records of one partition that are appended together."""

    def __init__(self, partition: int, due_at_ms: int) -> None:
        self.partition = partition
        self.due_at_ms = due_at_ms  # delivery.timeout.ms counts from then
        self.records: list[Record] = []
        self.bytes = 0
        self.open = True  # more may be added
        self.pid = os.getpid()
        self.outcome: Future[range | Callable[[], LithifyError]] = Future()  # offsets; or makes a new error each time


class Delivery:
    """A record on its way to `partition`."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        state = "ended" if self._batch.outcome.done() else "on its way"
        return f"<Delivery to partition {self.partition}, {state}: offset() tells more>"

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        self._check_process()
        return self._batch.outcome.done()

    def offset(self, timeout_ms: int | None = None) -> int:
        """Wait until the record is durable; returns its offset. Raises a LithifyError if it was not appended, or may
        not be.

        Raises TimeoutError, as a future does, if the record is still on its way after `timeout_ms`. Call it again; do
        not append the record again, or it may be stored twice."""
        self._check_process()
        try:
            outcome = self._batch.outcome.result(None if timeout_ms is None else wait_s(timeout_ms))
        except TimeoutError:
            # SUBTLE! Not one of our own errors: for each of those, callers append the record again. Test:
            # tests/log/test_producer.py
            raise TimeoutError(
                f"the record is still on its way after {timeout_ms} ms; ask again, or flush, and do not append it again"
            ) from None
        if isinstance(outcome, range):
            return outcome[self._index]
        raise outcome()

    def _check_process(self) -> None:
        if self._batch.pid != os.getpid():
            raise InvalidRequest(
                f"only process {self._batch.pid}, which handed this record over, knows its outcome; ask there"
            )


class _Queue:
    """One partition's batches, oldest first; only the last may be open. The batch being sent is not in here."""

    def __init__(self) -> None:
        self.waiting: deque[Batch] = deque()
        self.busy = False


class Batches:
    """Batches are sent in order, one at a time per partition."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._batch_records, self._batch_size = config.batch_records, config.batch_size
        self._buffer_memory = config.buffer_memory
        self._queues: dict[int, _Queue] = {}
        self._sending: dict[Batch, None] = {}  # in the order in which they were taken
        self.bytes = 0  # of everything not settled yet

    def __len__(self) -> int:
        return len(self._sending) + sum(len(queue.waiting) for queue in self._queues.values())

    def has_room(self, more_bytes: int) -> bool:
        """Whether a record of `more_bytes` (`taken_bytes`) fits. One larger than the whole buffer is accepted alone."""
        return self.bytes == 0 or self.bytes + more_bytes <= self._buffer_memory

    def add(self, partition: int, record: Record, more_bytes: int, now_ms: int) -> tuple[Batch, int]:
        """Add the record to its partition's open batch; returns the batch, and the record's index in it."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue()
        if not queue.waiting or not queue.waiting[-1].open:
            queue.waiting.append(Batch(partition, now_ms + self._config.linger_ms))
        batch = queue.waiting[-1]
        batch.records.append(record)
        batch.bytes += more_bytes
        self.bytes += more_bytes
        count = len(batch.records)
        if count >= self._batch_records or batch.bytes >= self._batch_size:
            batch.open = False
            batch.due_at_ms = min(batch.due_at_ms, now_ms)
        return batch, count - 1

    def hurry(self, now_ms: int) -> bool:
        """Make all waiting batches due now, whatever they would linger. Records can still join them until they are
        sent. Returns whether any was not due before."""
        lingered = False
        for queue in self._queues.values():
            for batch in queue.waiting:
                lingered = lingered or batch.due_at_ms > now_ms
                batch.due_at_ms = min(batch.due_at_ms, now_ms)
        return lingered

    def take(self, now_ms: int) -> Batch | None:
        """The batch that has been due longest, marked as being sent; None: none is due."""
        due = [queue for queue in self._free() if queue.waiting[0].due_at_ms <= now_ms]
        if not due:
            return None
        queue = min(due, key=lambda queue: queue.waiting[0].due_at_ms)
        batch = queue.waiting.popleft()
        batch.open, queue.busy = False, True
        self._sending[batch] = None
        return batch

    def due_in_ms(self, now_ms: int) -> int | None:
        """How long until the next batch is due; None: nothing waits, except behind batches that are being sent."""
        due = [queue.waiting[0].due_at_ms for queue in self._free()]
        return max(0, min(due) - now_ms) if due else None

    def _free(self) -> list[_Queue]:
        return [queue for queue in self._queues.values() if queue.waiting and not queue.busy]

    def settled(self, batch: Batch) -> None:
        """The batch that was being sent was acknowledged or has failed."""
        if batch in self._sending:
            del self._sending[batch]
            self._queues[batch.partition].busy = False
            self._let_go(batch)

    def _let_go(self, batch: Batch) -> None:
        self.bytes -= batch.bytes
        batch.records = []  # so that a delivery that is kept does not keep the records

    def unsent(self) -> Iterator[Batch]:
        """Remove and yield every batch that is not being sent."""
        for queue in self._queues.values():
            while queue.waiting:
                batch = queue.waiting.popleft()
                batch.open = False
                self._let_go(batch)
                yield batch

    def all(self) -> list[Batch]:
        return [*self._sending, *(batch for queue in self._queues.values() for batch in queue.waiting)]
