"""What whoever sends is promised that takes time, or a store that answers nobody."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

from lithify.compactor.coordinator import Coordinator
from lithify.log.record import Record
from lithify.manifest.catalog import live_topic, topic_lineage
from lithify.store.errors import CommitUnknown, LithifyError, Unavailable
from lithify.store.port import Pause
from tests.sim.cast import Violation
from tests.sim.clients.keepers import compact
from tests.sim.clients.rest import CALM, DARK
from tests.sim.clients.senders import Sending, Source
from tests.sim.clients.site import OUTAGES, TOPIC, Site
from tests.sim.clients.truth import KEYS, partition_of_key
from tests.sim.clients.world import Process
from tests.sim.clients.writers import asks_after

__all__ = ["asks_late", "is_told_of_an_outage", "lingers", "sends_in_bad_weather"]

Main = Callable[[Process], None]
STEPS_OF_AN_OUTAGE = 400  # requests of one batch that is tried for a minute, with pauses that grow to 5 s


def lingers(site: Site) -> Main:
    """A batch is sent once its time is over, though nobody flushes."""

    def main(process: Process) -> None:
        row = site.new(b"lingers")
        producer = site.open(process).producer(config={"linger.ms": 500})
        process.driver.answer(Pause(2_000))
        delivery = producer.append(row.key, row.value)
        process.driver.answer(Pause(8_000))
        if not delivery.done():
            raise Violation(f"{row} lingers, and its time is over")
        site.is_as_told(delivery.partition, delivery.offset(0), row)
        producer.close()

    return main


def is_told_of_an_outage(site: Site) -> Main:
    """Within its time, and after few requests."""

    def main(process: Process) -> None:
        row = site.new(b"in an outage")
        producer = site.open(process).producer(config={"linger.ms": 0, "delivery.timeout.ms": 60_000})
        world = site.world
        world.climate = DARK
        step, began_ms = world.steps, world.now_ms
        delivery = producer.append(row.key, row.value)
        try:
            delivery.offset(90_000)
            raise Violation(f"{row} is acknowledged by a store that answers nobody")
        except LithifyError as error:
            unknown = isinstance(error, CommitUnknown)
        except TimeoutError as error:
            raise Violation(f"{row} is tried for ever") from error
        took_ms, asked = world.now_ms - began_ms, world.steps - step
        world.climate = CALM
        if not delivery.done() or took_ms < 50_000:
            raise Violation(f"{row} is told of an outage after {took_ms} ms, and asked for were 60,000")
        if asked > STEPS_OF_AN_OUTAGE:
            raise Violation(f"{row} is tried {asked} times in an outage of a minute")
        try:
            producer.close()
            raise Violation(f"{row} was not appended, and closing says nothing")
        except LithifyError:
            if not unknown:
                site.is_refused(row)

    return main


def sends_in_bad_weather(site: Site) -> Main:
    """Every third request fails, and each commit is tried once: what is unknown is settled before it is sent again, and
    whoever waits for room while a batch fails is refused."""

    def main(process: Process) -> None:
        topic = site.open(process)
        with patch("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", 1):
            for index, (name, time_ms) in enumerate(((None, 300_000), ("weather", 300_000), *((None, 0),) * 6)):
                source = Source(f"weather {index}")
                threads = 1 if time_ms else 3  # they wait for room
                for _ in range(9):
                    source.add(site, KEYS[0], in_order=threads == 1)
                config: dict[str, str | int] = {"linger.ms": 0, "batch.records": 2, "delivery.timeout.ms": time_ms}
                producer = topic.producer(name, config if threads == 1 else config | {"buffer.memory": 700})
                site.world.climate = replace(CALM, fault_share=0.35)
                with suppress(*OUTAGES):
                    parts = [list(range(first, 9, threads)) for first in range(threads)]
                    Sending(site, process, topic, producer, source).sends(*parts)
                site.world.climate = CALM

    return main


def asks_late(site: Site) -> Main:
    """What became of appends that are unknown: at once, and once they are compacted."""

    def main(process: Process) -> None:
        topic = site.open(process)
        for index in range(10):
            row = site.new(b"asked late %d" % index)
            with patch("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", 1):
                site.world.climate = replace(CALM, fault_share=0.5)
                try:
                    topic.append([Record(*row)])
                    continue
                except CommitUnknown as error:
                    unknown = error
                except Unavailable:
                    site.is_refused(row)
                    continue
                finally:
                    site.world.climate = CALM
            number = partition_of_key(row.key, site.truth.partitions)
            if row.value in site.truth.found_at:
                known: dict[int, Coordinator] = {}
                for _ in range(4):
                    compact(site, process, process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC)), number, known)
            asks_after(site, process, topic, number, unknown, [row])

    return main
