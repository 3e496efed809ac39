"""A producer's id in each partition to which it sends (KIP-98): its epoch there, and the sequence of its next batch.

The partitions that a topic has are opened at once. One that is added later is opened by whoever sends the first batch
there, within the time that this batch has, so that nobody else waits for it. Test: tests/log/test_growing_producer.py
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
    """One batch of a partition is under way at a time, so each stamp has one thread that uses it."""

    def __init__(self, driver: Driver, first: Partition, stamps: dict[int, ProducerStamp]) -> None:
        self._driver = driver
        self._first = first
        self._stamps = stamps

    def sequences(self, partitions: int) -> tuple[int, ...]:
        """Of each partition. One that is not open yet was added after the id was opened, and has nothing of it: whoever
        held the id before was replaced by then, and sends nothing to a partition that it has not opened."""
        return tuple(self._stamps[n].sequence if n in self._stamps else 0 for n in range(partitions))

    def of(self, partition: Partition, config: TopicConfig, *, deadline_ms: int, clock: Clock) -> ProducerStamp:
        """The stamp of the next batch. Where the id has to be opened first it is tried until `deadline_ms`. Raises
        Fenced where another instance has the id, and never CommitUnknown: nothing is appended by this."""
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
    """The first partition before any other, so that whoever held the id can look there whether it still does. `look`
    answers with all that there are.

    SUBTLE! They are looked for after that: whoever held the id may have sent to one that was added meanwhile. From now
    on it opens none. Test: tests/log/test_growing_producer.py
    """
    stamps = {first.number: first.open_producer(producer_id)}
    others = [partition for partition in look() if partition.number != first.number]
    if others:
        with ThreadPoolExecutor(min(OPENERS_MAX, len(others))) as pool:
            opened = list(pool.map(lambda partition: partition.open_producer(producer_id), others))
        stamps |= {partition.number: stamp for partition, stamp in zip(others, opened, strict=True)}
    return Stamps(driver, first, stamps)


def _opened_in_added(first: Partition, partition: Partition, stamp: ProducerStamp) -> ProducerStamp:
    """`stamp` is the one of the first partition. Raises Fenced."""
    # An instance that was replaced, and has not met that yet, fences its successor nowhere.
    first.check_producer(stamp)
    opened = partition.open_producer(stamp.id)
    # SUBTLE! It may have been replaced between the two. Then its successor, which has read here how many records there
    # are, is fenced, fails, and is opened again; but nothing of this one may come after what that one has read. Where
    # it has not been replaced by now, whoever replaces it opens this partition later, and fences it here.
    # Test: tests/log/test_growing_producer.py
    first.check_producer(stamp)
    return opened
