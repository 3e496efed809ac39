"""Applications that send by an idempotent producer, crash, and go on by its sequences."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from lithify.log.batches import Delivery
from lithify.log.producer import Producer
from lithify.store.errors import CommitUnknown, Fenced, LithifyError
from tests.sim.cast import Violation
from tests.sim.clients.site import TRANSIENT, Site
from tests.sim.clients.truth import Row
from tests.sim.clients.world import Process

__all__ = ["Source", "sender", "usurper"]

Main = Callable[[Process], None]


@dataclass
class Source:
    """What there is to send, in order; and, by partition, what was handed over for it. No crash reaches this."""

    name: str
    rows: list[Row] = field(default_factory=list)
    handed: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, site: Site, key: bytes) -> None:
        row = Row(key, f"{self.name}.{len(self.rows)}".encode())
        assert row.value is not None
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
                if site.truth.lies.get(self.rows[index].value or b"", (-1, 0))[0] != number:
                    raise Violation(f"{self.rows[index]} is counted, and is not in partition {number}")
        for index, row in enumerate(self.rows):
            if index not in there and row.value in site.truth.lies:
                raise Violation(f"{row} is not counted, and is there")
        return [index for index in range(len(self.rows)) if index not in there]


def sender(site: Site, source: Source) -> Main:
    def main(process: Process) -> None:
        say = process.actor.say
        while True:
            site.rest(process)
            with suppress(*TRANSIENT, Fenced):
                config = {
                    "linger.ms": say.choice((0, 50, 1_000)),
                    "batch.records": say.choice((1, 2, 10_000)),
                    "delivery.timeout.ms": say.choice((0, 500, 120_000)),
                    "max.block.ms": say.choice((0, 60_000)),
                }
                producer = site.open(process).producer(source.name, config)
                site.world.counts["producer opened"] += 1
                left = source.left_out(site, producer.sequences)
                _sends(site, process, producer, source, left)
                return

    return main


def _sends(site: Site, process: Process, producer: Producer, source: Source, left: list[int]) -> None:
    say = process.actor.say
    deliveries: list[tuple[Row, Delivery]] = []
    failed: LithifyError | None = None
    try:
        with producer:
            for index in left:
                row = source.rows[index]
                delivery = producer.append(row.key, row.value)
                source.handed[delivery.partition].append(index)
                deliveries.append((row, delivery))
                if say.random() < 0.2:
                    site.rest(process)
                if say.random() < 0.1:
                    producer.flush()
    except LithifyError as error:
        failed = error
    for row, delivery in deliveries:
        _is_as_told(site, row, delivery)
    if failed is not None:
        raise failed


def _is_as_told(site: Site, row: Row, delivery: Delivery) -> None:
    try:
        offset = delivery.offset(0)
    except CommitUnknown:
        site.world.counts["delivery unknown"] += 1
    except TimeoutError as error:
        raise Violation(f"{row} is neither acknowledged nor refused by a producer that was closed") from error
    except LithifyError:
        _is_not_there(site, row)
    else:
        site.world.counts["delivery acknowledged"] += 1
        site.told(delivery.partition, offset, row)


def _is_not_there(site: Site, row: Row) -> None:
    site.world.counts["delivery refused"] += 1
    if row.value in site.truth.lies:
        raise Violation(f"{row} was refused, and is there")


def usurper(site: Site, source: Source) -> Main:
    """Takes the producer's id, and leaves."""

    def main(process: Process) -> None:
        while True:
            site.rest(process, 8)
            with suppress(*TRANSIENT, Fenced):
                site.open(process).producer(source.name).close()

    return main
