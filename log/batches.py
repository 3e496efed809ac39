"""Records gathered into batches until they are due. No threads and no clock in here; the producer's lock guards it."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from lithify.log.producer_config import ProducerConfig
from lithify.log.record import Record
from lithify.store.errors import InvalidRequest, LithifyError

__all__ = ["Batch", "Batches", "Delivery", "taken_bytes", "wait_s"]

RECORD_OVERHEAD_BYTES = 256  # of the Python objects around a small record
HEADER_OVERHEAD_BYTES = 160  # of those around each of its headers
_WAIT_MS_MAX = int(threading.TIMEOUT_MAX * 1000)  # some 292 years; a lock refuses to wait for longer


def taken_bytes(record: Record, record_bytes: int) -> int:
    """Of the buffer and of a batch, by a record that has so many bytes itself."""
    return record_bytes + RECORD_OVERHEAD_BYTES + HEADER_OVERHEAD_BYTES * len(record.headers)


def wait_s(wait_ms: int) -> float:
    """As locks take it."""
    return min(wait_ms, _WAIT_MS_MAX) / 1000


class Batch:
    """Records of one partition that will be appended together."""

    def __init__(self, partition: int, due_at_ms: int) -> None:
        self.partition = partition
        self.due_at_ms = due_at_ms  # delivery.timeout.ms counts from then
        self.records: list[Record] = []
        self.bytes = 0
        self.open = True  # more may be added
        self.pid = os.getpid()
        self.outcome: Future[range | Callable[[], LithifyError]] = Future()  # their offsets, or a new error each time


class Delivery:
    """A record on its way. `partition` is where it goes."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Whether the record was acknowledged, or has failed."""
        self._check_process()
        return self._batch.outcome.done()

    def offset(self, timeout_ms: int | None = None) -> int:
        """Wait until the record is durable; its offset. Raises what became of it instead: a LithifyError.

        TimeoutError, as a future's: after `timeout_ms` it is still on its way. Ask again; who appends it again has it
        twice."""
        self._check_process()
        try:
            outcome = self._batch.outcome.result(None if timeout_ms is None else wait_s(timeout_ms))
        except TimeoutError:
            # SUBTLE! None of our own errors: by each of these somebody appends the record again.
            # Test: tests/log/test_producer.py
            raise TimeoutError(
                f"the record is still on its way after {timeout_ms} ms; ask again, or flush, and do not append it again"
            ) from None
        if isinstance(outcome, range):
            return outcome[self._index]
        raise outcome()

    def _check_process(self) -> None:
        if self._batch.pid != os.getpid():
            raise InvalidRequest(
                f"what becomes of this record, only process {self._batch.pid} knows, which handed it over; ask there"
            )


class _Queue:
    """One partition's batches, oldest first; only the last may be open. While one is being sent it is not in here."""

    def __init__(self) -> None:
        self.waiting: deque[Batch] = deque()
        self.busy = False


class Batches:
    """Batches are sent in order, one at a time per partition."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._queues: dict[int, _Queue] = {}
        self._sending: dict[Batch, None] = {}  # in the order in which they were taken
        self.bytes = 0  # of all that is not settled

    def __len__(self) -> int:
        return len(self._sending) + sum(len(queue.waiting) for queue in self._queues.values())

    def has_room(self, more_bytes: int) -> bool:
        """For a record that takes so much (`taken_bytes`). One larger than the whole buffer goes alone."""
        return self.bytes == 0 or self.bytes + more_bytes <= self._config.buffer_memory

    def add(self, partition: int, record: Record, more_bytes: int, now_ms: int) -> tuple[Batch, int]:
        """Put the record into its partition's open batch; the batch, and the record's index in it."""
        queue = self._queues.setdefault(partition, _Queue())
        if not queue.waiting or not queue.waiting[-1].open:
            queue.waiting.append(Batch(partition, now_ms + self._config.linger_ms))
        batch = queue.waiting[-1]
        batch.records.append(record)
        batch.bytes += more_bytes
        self.bytes += more_bytes
        if len(batch.records) >= self._config.batch_records or batch.bytes >= self._config.batch_size:
            batch.open = False
            batch.due_at_ms = min(batch.due_at_ms, now_ms)
        return batch, len(batch.records) - 1

    def hurry(self, now_ms: int) -> bool:
        """Whatever waits is due now, however it would linger. It is joined by others until it is sent. Whether any was
        not due before."""
        lingered = False
        for queue in self._queues.values():
            for batch in queue.waiting:
                lingered = lingered or batch.due_at_ms > now_ms
                batch.due_at_ms = min(batch.due_at_ms, now_ms)
        return lingered

    def take(self, now_ms: int) -> Batch | None:
        """The batch that is due for longest, now being sent; None where none is."""
        due = [queue for queue in self._free() if queue.waiting[0].due_at_ms <= now_ms]
        if not due:
            return None
        queue = min(due, key=lambda queue: queue.waiting[0].due_at_ms)
        batch = queue.waiting.popleft()
        batch.open, queue.busy = False, True
        self._sending[batch] = None
        return batch

    def due_in_ms(self, now_ms: int) -> int | None:
        """How long until the next batch is due; None where nothing waits but behind what is being sent."""
        due = [queue.waiting[0].due_at_ms for queue in self._free()]
        return max(0, min(due) - now_ms) if due else None

    def _free(self) -> list[_Queue]:
        return [queue for queue in self._queues.values() if queue.waiting and not queue.busy]

    def settled(self, batch: Batch) -> None:
        """What was being sent is acknowledged, or has failed."""
        if batch in self._sending:
            del self._sending[batch]
            self._queues[batch.partition].busy = False
            self._let_go(batch)

    def _let_go(self, batch: Batch) -> None:
        self.bytes -= batch.bytes
        batch.records = []  # whoever keeps a delivery does not keep the records

    def unsent(self) -> Iterator[Batch]:
        """Take out every batch that is not being sent."""
        for queue in self._queues.values():
            while queue.waiting:
                batch = queue.waiting.popleft()
                batch.open = False
                self._let_go(batch)
                yield batch

    def all(self) -> list[Batch]:
        return [*self._sending, *(batch for queue in self._queues.values() for batch in queue.waiting)]
