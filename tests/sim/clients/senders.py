"""Applications that send by a producer: those with an id crash, and go on by its sequences; those without one send from
two threads, and ask by its token what became of what is unknown."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from lithify.log.batches import Delivery
from lithify.log.producer import Producer
from lithify.log.topic import Topic
from lithify.store.errors import CommitUnknown, Fenced, LithifyError
from tests.sim.cast import Violation
from tests.sim.clients.site import Site
from tests.sim.clients.threads import Thread
from tests.sim.clients.truth import KEYS, Row
from tests.sim.clients.world import Process
from tests.sim.clients.writers import asks_after

__all__ = ["Sending", "Source", "loose_sender", "sender", "usurper"]

Main = Callable[[Process], None]


@dataclass
class Source:
    """What there is to send, in order; and, by partition, what was handed over for it. No crash reaches this."""

    name: str
    rows: list[Row] = field(default_factory=list)
    handed: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, site: Site, key: bytes, *, in_order: bool = True) -> None:
        row = Row(key, f"{self.name}.{len(self.rows)}".encode())
        assert row.value is not None
        if in_order:
            site.truth.ordered[row.value] = self.name, len(self.rows)
        site.truth.known.add(row.value)
        self.rows.append(row)

    def left_out(self, site: Site, sequences: tuple[int, ...]) -> list[int]:
        """What is still to be sent, by what the log holds of the producer."""
        there: set[int] = set()
        for number, sequence in enumerate(sequences):
            if len(self.handed[number]) < sequence:
                raise Violation(f"{self.name} has {sequence} in partition {number}, and handed over fewer")
            self.handed[number] = self.handed[number][:sequence]
            there |= set(self.handed[number])
            for index in self.handed[number]:
                if site.truth.found_at.get(self.rows[index].value or b"", (-1, 0))[0] != number:
                    raise Violation(f"{self.rows[index]} is counted, and is not in partition {number}")
        for index, row in enumerate(self.rows):
            if index not in there and row.value in site.truth.found_at:
                raise Violation(f"{row} is not counted, and is there")
        return [index for index in range(len(self.rows)) if index not in there]


def sender(site: Site, source: Source) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process)
            step = site.world.steps
            with site.outages():
                try:
                    topic = site.open(process)
                    producer = topic.producer(source.name, _config(process))
                    site.world.counts["producer opened"] += 1
                    left = source.left_out(site, producer.sequences)
                    Sending(site, process, topic, producer, source).sends(left)
                    return
                except Fenced:
                    _was_replaced(site, source.name, step)

    return main


def _config(process: Process) -> dict[str, str | int]:
    say = process.actor.say
    return {
        "linger.ms": say.choice((0, 50, 1_000)),
        "batch.records": say.choice((1, 2, 10_000)),
        "delivery.timeout.ms": say.choice((0, 500, 120_000)),
        "max.block.ms": say.choice((0, 60_000)),
        "buffer.memory": say.choice((700, 64 << 20)),  # of two records, or of all
    }


def _was_replaced(site: Site, name: str, step: int) -> None:
    """Some partition has had two openings since: this one's, and a later one."""
    if not any(len([at for at in log.fenced[name] if at >= step]) > 1 for log in site.truth.logs.values()):
        raise Violation(f"producer {name!r} is fenced, and no later one was opened")
    site.world.counts["producer fenced"] += 1


class Sending:
    """By one producer, from one thread or several."""

    def __init__(self, site: Site, process: Process, topic: Topic, producer: Producer, source: Source) -> None:
        self._site, self._process, self._topic, self._source = site, process, topic, source
        self._producer = producer
        self._deliveries: list[tuple[Row, Delivery]] = []  # in the order in which they were handed over

    def sends(self, *parts: list[int]) -> None:
        """Each of the parts by a thread. Raises what the producer failed by."""
        failed: LithifyError | None = None
        threads = [Thread(lambda part=part: self._hands_over_in_peace(part), "application") for part in parts[1:]]
        for thread in threads:
            thread.start()
        try:
            with self._producer:
                try:
                    self._hands_over(parts[0])
                finally:
                    for thread in threads:
                        thread.join()
        except LithifyError as error:
            failed = error
        self._producer.close()  # once more: it does nothing
        self._is_in_order()
        for row, delivery in self._deliveries:
            self._is_as_told(row, delivery)
        if failed is not None:
            raise failed

    def _hands_over_in_peace(self, part: list[int]) -> None:
        try:
            self._hands_over(part)
        except LithifyError:
            self._site.world.counts["a thread beside was refused"] += 1

    def _hands_over(self, part: list[int]) -> None:
        say = self._process.actor.say
        for index in part:
            row = self._source.rows[index]
            step = self._site.world.steps
            delivery = self._producer.append(row.key, row.value)
            if self._site.world.steps > step:
                self._site.world.counts["append of a producer waited"] += 1
            self._site.truth.refused.discard(row.value or b"")
            self._source.handed[delivery.partition].append(index)
            self._deliveries.append((row, delivery))
            if say.random() < 0.2:
                self._site.rest(self._process)
            if say.random() < 0.1:
                self._flushes()

    def _flushes(self) -> None:
        handed_over = list(self._deliveries)
        self._producer.flush()
        for row, delivery in handed_over:
            if not delivery.done() or row.value not in self._site.truth.found_at:
                raise Violation(f"{row} was flushed, and is not there")
        self._site.world.held("what was flushed")

    def _is_in_order(self) -> None:
        """Of each partition: what was handed over later is there later, and nothing after what is not."""
        last: dict[int, tuple[Row, int]] = {}
        missing: dict[int, Row] = {}
        for row, delivery in self._deliveries:
            number = delivery.partition
            where, offset = self._site.truth.found_at.get(row.value or b"", (-1, -1))
            if where < 0:
                missing.setdefault(number, row)
                continue
            before, at = last.get(number, (row, -1))
            if where != number or at >= offset:
                raise Violation(f"{row} is at {offset} of partition {where}, and {before} at {at} of {number}")
            if number in missing:
                raise Violation(f"{row} is in partition {number}, and {missing[number]} from before is not")
            last[number] = row, offset

    def _is_as_told(self, row: Row, delivery: Delivery) -> None:
        site = self._site
        if not delivery.done():
            raise Violation(f"{row} is neither acknowledged nor refused by a producer that was closed")
        try:
            offset = delivery.offset(0)
        except CommitUnknown as unknown:
            site.world.counts["delivery unknown"] += 1
            asks_after(site, self._process, self._topic, delivery.partition, unknown, [row])
        except LithifyError:
            site.world.counts["delivery refused"] += 1
            site.is_refused(row)
        else:
            site.world.counts["delivery acknowledged"] += 1
            site.is_as_told(delivery.partition, offset, row)


def loose_sender(site: Site, appends: int) -> Main:
    """Without an id, so that nothing that is unknown may be sent again; its records come once at most all the same."""
    left = appends
    sources = 0

    def main(process: Process) -> None:
        nonlocal left, sources
        say = process.actor.say
        while left > 0:
            site.rest(process)
            source = Source(f"{process.actor.name}.{sources}")
            sources += 1
            with site.outages():
                topic = site.open(process)
                producer = topic.producer(config=_config(process))
                count = say.choice((2, 4, 8))
                left -= count
                threads = say.choice((1, 2, 3))
                for _ in range(count):
                    source.add(site, say.choice(KEYS[: say.choice((1, 3, 6))]), in_order=threads == 1)
                rows = list(range(count))
                Sending(site, process, topic, producer, source).sends(*(rows[n::threads] for n in range(threads)))

    return main


def usurper(site: Site, source: Source) -> Main:
    """Takes the producer's id, and leaves."""

    def main(process: Process) -> None:
        while True:
            site.rest(process, 4)
            step = site.world.steps
            with site.outages():
                try:
                    site.open(process).producer(source.name).close()
                except Fenced:
                    _was_replaced(site, source.name, step)

    return main
