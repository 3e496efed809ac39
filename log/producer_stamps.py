"""A producer's id in each partition to which it sends (KIP-98): its epoch there, and the sequence of its next batch.

The topic's partitions are opened at once. In one that is added later, the sender of the first batch opens the id,
within that batch's time, so that nobody else waits for it. Test: tests/log/test_growing_producer.py
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lithify.log.delivering import PAUSE_MS_FIRST, PAUSE_MS_MAX, until
from lithify.log.partition import Partition
from lithify.manifest.config import TopicConfig
from lithify.manifest.producers import ProducerStamp
from lithify.store.driver import Clock, Driver
from lithify.store.errors import AccessDenied, CommitUnknown, Unavailable
from lithify.store.port import Pause

__all__ = ["Stamps", "open_everywhere"]

OPENERS_MAX = 8  # threads


class Stamps:
    """Only one batch of a partition is in flight, so each stamp is used by one thread."""

    def __init__(self, driver: Driver, first: Partition, stamps: dict[int, ProducerStamp]) -> None:
        self._driver = driver
        self._first = first
        self._stamps = stamps

    def sequences(self, partitions: int) -> tuple[int, ...]:
        """The sequence in each partition. One that is not open yet was added after the id was opened and has none of
        its records: former holders were replaced by then, and send nothing to a partition that they have not opened."""
        return tuple(self._stamps[n].sequence if n in self._stamps else 0 for n in range(partitions))

    def of(self, partition: Partition, config: TopicConfig, *, deadline_ms: int, clock: Clock) -> ProducerStamp:
        """The stamp of the next batch. If the id must be opened first, that is tried until `deadline_ms`. Raises Fenced
        if another instance has the id; never CommitUnknown, since this appends nothing."""
        known = self._stamps.get(partition.number)
        if known is None:
            known = self._stamps[partition.number] = self._opened(partition, config, deadline_ms, clock)
        return known

    def appended(self, partition: int, records: int) -> None:
        stamp = self._stamps[partition]
        self._stamps[partition] = replace(stamp, sequence=stamp.sequence + records)

    def _opened(self, partition: Partition, config: TopicConfig, deadline_ms: int, clock: Clock) -> ProducerStamp:
        where = f"{partition.topic}/{partition.number}"
        limited = until(self._driver, deadline_ms, clock, where)
        first, partition = self._first.lent(limited, config), partition.lent(limited, config)
        pause_ms = PAUSE_MS_FIRST
        while True:
            try:
                return _opened_in_added(first, partition, self._stamps[first.number])
            except AccessDenied:
                raise
            except (Unavailable, CommitUnknown) as error:
                if clock() >= deadline_ms:
                    raise Unavailable(
                        f"{where}: the producer's id cannot be opened in this partition, which was added to the topic "
                        f"({error}). Nothing was appended there"
                    ) from error
            self._driver.answer(Pause(max(min(pause_ms, deadline_ms - clock()), 0)))
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)


def open_everywhere(
    driver: Driver, producer_id: str, first: Partition, look: Callable[[], Sequence[Partition]]
) -> Stamps:
    """Open the first partition before the others, so that a former holder of the id can check there whether it still
    holds it. `look` returns all partitions.

    SUBTLE! Look for the other partitions only after that: the former holder may have sent to one that was added
    meanwhile. From now on it cannot open one. Test: tests/log/test_growing_producer.py
    """
    stamps = {first.number: first.open_producer(producer_id)}
    others = [partition for partition in look() if partition.number != first.number]
    if others:
        with ThreadPoolExecutor(min(OPENERS_MAX, len(others))) as pool:
            opened = list(pool.map(lambda partition: partition.open_producer(producer_id), others))
        stamps |= {partition.number: stamp for partition, stamp in zip(others, opened, strict=True)}
    return Stamps(driver, first, stamps)


def _opened_in_added(first: Partition, partition: Partition, stamp: ProducerStamp) -> ProducerStamp:
    """Open the id in an added partition. `stamp`: that of the first partition. Raises Fenced."""
    # An instance that was replaced, and does not know it yet, must not fence its successor.
    first.check_producer(stamp)
    opened = partition.open_producer(stamp.id)
    # SUBTLE! Check again. 1. We hold the id at the first check. 2. A successor opens it everywhere, and counts the
    # records here. 3. Our `open_producer` fences the successor here. It fails and is opened again, but we must append
    # nothing after what it counted. If we still hold the id now, any successor opens this partition later, and fences
    # us. Test: tests/log/test_growing_producer.py
    first.check_producer(stamp)
    return opened
