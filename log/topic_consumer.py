"""A named consumer of a whole topic: one position per partition, read in turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from lithify.log.beside import Beside, beside_or_alone
from lithify.log.consumer import RECORDS_MAX, Consumer, ConsumerConfig, check_poll
from lithify.log.follow import Gap
from lithify.log.own_process import OwnProcess
from lithify.log.partition import Partition
from lithify.log.patience import Patience
from lithify.log.record import Record
from lithify.log.sort_places import SortPlaces
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.manifest.words import counted
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.short_repr import shortened

__all__ = ["TopicConsumer", "came_later"]


class Growing(Protocol):
    """A topic, as its consumers need it."""

    def partitions_now(self) -> int: ...
    def partition(self, number: int) -> Partition: ...
    def key_places(self) -> KeyPlaces: ...


def came_later(topic: Growing, name: str, parts: Sequence[Partition]) -> frozenset[int]:
    """The ones of `parts` that were added after consumer `name` first read the topic: while it had a position in a
    partition that existed before. Costs nothing if the topic never grew."""
    counts = topic.key_places().counts
    added = [part.number for part in parts if part.number >= counts[0]]
    if not added:
        return frozenset()
    reads = [n for n in range(counts[-1]) if any(known.name == name for known in topic.partition(n).consumers())]
    first = min(reads, default=counts[-1])
    return frozenset(n for n in added if first < max(count for count in counts if count <= n))


class TopicConsumer:
    """A consumer of several partitions. Made by `Topic.consumer`. Iterate over it, or `poll` it, for pairs of a
    partition's number and a record or gap. One thread at a time.

    >>> topic = lithify.open("memory://example").create_topic("users", partitions=2)
    >>> _ = topic.append([lithify.Record(b"ada", b"free"), lithify.Record(b"bela", b"team")])
    >>> with topic.consumer("billing") as consumer:
    ...     sorted(record.key for _, record in consumer.poll(timeout_ms=0))
    [b'ada', b'bela']

    Offsets are in order within each partition. Each partition's position is committed separately, as by `Consumer`. An
    error does not end it: called again, it continues with everything that the partitions have.
    """

    def __init__(
        self, driver: Driver, consumers: Mapping[int, Consumer], config: ConsumerConfig, growing: "Growing | None"
    ) -> None:
        """`growing`: the topic, if these are all its partitions and later ones should be included; None: only these."""
        self._process = OwnProcess()
        self._driver = driver
        self._beside = Beside(driver)
        self._empty: set[Consumer] = set()  # those that were looked at before their turn, and had nothing
        self._places = SortPlaces()
        self._consumers = {number: consumer.share(self._places) for number, consumer in consumers.items()}
        self._config = config
        self._growing = growing
        self._poll_ms = config.poll_ms
        self._stop = config.stop
        self._numbers = sorted(consumers)
        self._turn = 0  # index of the partition to ask first
        self._owed = False  # a check for more partitions failed, and this was not reported
        self._within: int | None = None  # the partition of whose stretch the iteration hands out the rest
        self._closed = False

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        parts = counted(len(self._numbers), "partition")
        return f"{type(self).__name__}({shortened(self._name, 60)!r}, {parts}{closed})"

    @property
    def _name(self) -> str:
        return self._consumers[self._numbers[0]].name

    @property
    def positions(self) -> dict[int, int]:
        """By partition: the offset from which the next record is read."""
        return {number: consumer.position for number, consumer in self._consumers.items()}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, Record | Gap]:
        """The next item; waits for it. Ends when `stop` says so, or after `close`."""
        found = self._rest_of_a_stretch()
        while not found:
            if self._is_over():
                raise StopIteration
            found = self.poll(self._poll_ms, max_records=1)
        self._within, _ = found[0]
        return found[0]

    def _rest_of_a_stretch(self) -> list[tuple[int, Record | Gap]]:
        """The next item of the same stretch: looking at the other partitions between two items would cost GETs. If this
        raises, the next call continues with those."""
        self._beside.settle()
        number, self._within = self._within, None
        if number is None or not self._consumers[number].waiting:
            return []
        return [(number, item) for item in self._consumers[number].poll(0, 1)]

    def _is_over(self) -> bool:
        return self._closed or (self._stop is not None and self._stop())

    def poll(self, timeout_ms: int = 0, max_records: int = RECORDS_MAX) -> list[tuple[int, Record | Gap]]:
        """Up to `max_records` items; if there are none, looks again until `timeout_ms` have passed. It looks at each
        partition at least once, however long the store takes to answer."""
        check_poll(timeout_ms, max_records)
        self._process.check(f"this instance of consumer {self._name!r}")
        if self._closed:
            raise InvalidRequest(f"consumer {self._name!r} is closed; open another one")
        patience, first = Patience(self._driver, timeout_ms), True
        while not self._closed:
            found = self._poll_each(max_records, None if first else patience)
            if found or patience.is_over or self._is_over():
                return found
            patience.wait(self._poll_ms)
            first = False
        return []

    def _poll_each(self, max_records: int, patience: Patience | None) -> list[tuple[int, Record | Gap]]:
        """Items from all partitions in turn.

        SUBTLE! First everything that may fail, then the handing out. An item taken from one partition, and dropped
        because another one fails, would be committed as processed: its consumer cannot tell the difference. Test:
        tests/log/test_topic_consumer.py
        """
        found: list[tuple[int, Record | Gap]] = []
        for number in self._look_at_all(max_records, patience):
            found += [(number, item) for item in self._consumers[number].hand_out(max_records - len(found))]
        return found

    def _look_at_all(self, wanted: int, patience: Patience | None) -> list[int]:
        """As `_look_at_each`. If nothing was found, but some waited for a place to sort in, they have it now. Ask them
        again: an empty answer would say that there was nothing."""
        while True:
            refused = self._places.refused
            ready = self._look_at_each(wanted, patience)
            if ready or self._places.refused == refused or (patience is not None and patience.is_over):
                return ready

    def _look_at_each(self, wanted: int, patience: Patience | None) -> list[int]:
        """The partitions with items to hand out: enough for `wanted`, or as far as `patience` allows.

        If one fails, those before it hand out theirs now, and the next call begins with it: so the caller gets
        everything from the others, and the error.
        """
        self._beside.settle()
        failure = self._look_for_more()
        if failure is not None and self._owed:
            self._owed = False
            raise failure
        ready: list[int] = []
        waiting = 0
        for number, look in self._looks(wanted):
            try:
                items = look()
            except LithifyError:
                self._consumers[number].let_go()  # or a partition that is refused for ever would hold a place for ever
                if ready:
                    break
                self._pass_turn()
                raise
            self._pass_turn()
            if items:
                ready.append(number)
                waiting += items
            if waiting >= wanted or (patience is not None and patience.is_over):
                break
        if not ready:  # the time is over: what was found before its turn is at hand
            ready = [number for number in self._numbers if self._consumers[number].waiting]
        if failure is not None and not ready:
            raise failure
        self._owed = failure is not None
        return ready

    def _looks(self, wanted: int) -> Iterator[tuple[int, Callable[[], int]]]:
        """Pairs of a partition and a call that looks at it: from the one whose turn it is, until `wanted` items wait.
        What a look finds stays with its partition until it is handed out."""
        asking: list[tuple[int, Consumer]] = []
        waiting = 0
        for number in self._numbers[self._turn :] + self._numbers[: self._turn]:
            if waiting < wanted:
                asking.append((number, self._consumers[number]))
                waiting += self._consumers[number].waiting
        if self._is_over():  # nothing more is read
            yield from ((number, consumer.look) for number, consumer in asking)
            return
        # While others have something, one that had nothing is not asked once more when its turn comes.
        empty = self._empty.copy() if waiting else set[Consumer]()

        def look_beside(consumer: Consumer) -> int:
            return 0 if consumer in empty and not consumer.waiting else consumer.look_beside()

        for number, look in beside_or_alone(self._driver.store, asking, Consumer.look, look_beside, self._asked):
            self._empty.discard(self._consumers[number])
            yield number, look

    def _asked(self, ask: Callable[[Consumer], int], consumers: Sequence[Consumer]) -> Sequence[int | Exception]:
        outcomes = self._beside.each(ask, consumers)
        empty = {consumer for consumer, outcome in zip(consumers, outcomes, strict=True) if outcome == 0}
        self._empty = self._empty.difference(consumers) | empty
        return outcomes

    def _look_for_more(self) -> LithifyError | None:
        """Open partitions that were added since, from their first record. Returns the error that prevented it."""
        if self._growing is None:
            return None
        first = self._consumers[self._numbers[0]]
        name = first.name
        try:
            for number in range(len(self._numbers), self._growing.partitions_now()):
                part = self._growing.partition(number)
                opening = part.opening(name, self._config, added=True, holds=first.holds)
                self._consumers[number] = opening.take().share(self._places)
                self._numbers.append(number)
        except LithifyError as error:
            return error
        return None

    def _pass_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._numbers)

    def commit(self) -> None:
        """As `Consumer.commit`, for every partition, even if one of them raises."""
        self._each(lambda consumer: consumer.commit())

    def close(self) -> None:
        """As `Consumer.close`, for every partition, even if one of them raises."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._each(lambda consumer: consumer.__exit__(kind, error, trace))

    def _each(self, do: Callable[[Consumer], object]) -> None:
        """Of all partitions, even if one raises: the others' positions are committed anyway."""
        self._beside.settle()
        failed: list[LithifyError] = []
        for _, call in beside_or_alone(self._driver.store, self._consumers.items(), do, do, self._beside.each):
            try:
                call()
            except LithifyError as refused:
                failed.append(refused)
        if failed:
            raise failed[0]
