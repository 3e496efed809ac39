"""What a client is promised that takes time, or a store that answers nobody: played at the end of each history, where
nothing else goes wrong."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

from lithify.compactor.coordinator import Coordinator
from lithify.gc.collector import Collector
from lithify.log.follow import Gap, OffsetReset
from lithify.log.record import Record
from lithify.log.topic_consumer import TopicConsumer
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic, topic_lineage
from lithify.store.errors import CommitUnknown, Fenced, LithifyError, Unavailable
from lithify.store.port import Pause
from tests.sim.cast import Climate, Violation
from tests.sim.clients.groups import Caller
from tests.sim.clients.keepers import compact
from tests.sim.clients.senders import Sending, Source
from tests.sim.clients.site import LATER_MS, OUTAGES, TOPIC, Site
from tests.sim.clients.truth import KEYS, OPERATOR, Row, home_of
from tests.sim.clients.world import Process
from tests.sim.clients.writers import asks_after

__all__ = ["CALM"]

Main = Callable[[Process], None]
CALM_CLIMATE = Climate(page_keys=1_000, tick_ms=2)
FOR_EVER = ((0, 10**12),)
STEPS_OF_AN_OUTAGE = 400  # requests of one batch that is tried for a minute, with pauses that grow to 5 s


def _new(site: Site, value: bytes) -> Row:
    site.truth.known.add(value)
    return Row(KEYS[0], value)


def lingers(site: Site) -> Main:
    """A batch is sent once its time is over, though nobody flushes."""

    def main(process: Process) -> None:
        row = _new(site, b"lingers")
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
        row = _new(site, b"in an outage")
        producer = site.open(process).producer(config={"linger.ms": 0, "delivery.timeout.ms": 60_000})
        world = site.world
        world.climate = replace(world.climate, blackouts=FOR_EVER)
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
        world.climate = CALM_CLIMATE
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
        with patch("lithify.manifest.commit.CREATE_ATTEMPTS_MAX", 1):
            for index, (name, time_ms) in enumerate(((None, 300_000), ("weather", 300_000), *((None, 0),) * 6)):
                source = Source(f"weather {index}")
                threads = 1 if time_ms else 3  # they wait for room
                for _ in range(9):
                    source.add(site, KEYS[0], in_order=threads == 1)
                config: dict[str, str | int] = {"linger.ms": 0, "batch.records": 2, "delivery.timeout.ms": time_ms}
                producer = topic.producer(name, config if threads == 1 else config | {"buffer.memory": 700})
                site.world.climate = replace(CALM_CLIMATE, fault_share=0.35)
                with suppress(*OUTAGES):
                    parts = [list(range(first, 9, threads)) for first in range(threads)]
                    Sending(site, process, topic, producer, source).sends(*parts)
                site.world.climate = CALM_CLIMATE

    return main


def is_replaced(site: Site) -> Main:
    """An instance that another one replaced hears of it by the commits that it makes by itself."""

    def main(process: Process) -> None:
        topic = site.open(process)
        topic.append([Record(*_new(site, b"for who is replaced"))])
        opening = site.opens(process, "twice", "earliest")
        mine = topic.consumer("twice", auto_commit_interval_ms=500)
        site.groups.opened(opening)
        caller = Caller(site.groups, opening, mine.positions)
        site.opens(process, "twice", "earliest")
        other = topic.consumer("twice")
        try:
            for _ in range(8):
                for number, item in mine.poll():
                    caller.handed(number, item)
                process.driver.answer(Pause(2_000))
            raise Violation("an instance was replaced, and goes on")
        except Fenced:
            site.world.held("who was replaced hears of it")
        other.close()

    return main


def sleeps_through_a_collection(site: Site) -> Main:
    """Of two consumers one is at the log's end, and one between two stretches, when what they have open is compacted,
    and collected; the next manifests are, too."""

    def main(process: Process) -> None:
        topic = site.open(process)
        with patch("lithify.log.follow.STRETCH_RECORDS", 1), patch("lithify.gc.reachable.BOUNDARY_STEP_MIN", 2):
            at_the_end, caller = _opens(site, process, "at the end")
            _reads_on(caller, at_the_end)
            for index in range(8):
                topic.append([Record(*_new(site, b"asleep %d" % index))])
            between, other = _opens(site, process, "between")
            for number, item in between.poll(0, 1):
                other.handed(number, item)
            _collects(site, process)
            for consumer, by in ((at_the_end, caller), (between, other)):
                if b"asleep 7" not in _reads_on(by, consumer):
                    raise Violation(f"{by.name!r} sleeps on, though there is something to read")
                consumer.close()

    return main


def is_replaced_while_the_topic_grows(site: Site) -> Main:
    """The one that is stopped is the right one. And a name that has a position in some of the partitions that were
    added reads the others from their first record."""

    def main(process: Process) -> None:
        elsewhere = site.open(process)
        site.groups.whole.add("many")
        mine, _ = _opens(site, process, "many", "latest")
        _opens(site, process, "many", "latest")
        first, count = site.truth.partitions, site.truth.partitions + 2
        site.truth.grows(process.actor.name)
        elsewhere.alter(partitions=count)
        for key in KEYS:
            if home_of(key, count) >= first:
                site.truth.known.add(b"many " + key)
                elsewhere.append([Record(key, b"many " + key)])
        site.opens(process, "many", "latest")
        elsewhere.partition(first).consumer(
            "many", auto_offset_reset="earliest"
        ).close()  # it came no further, and died
        process.driver.answer(Pause(LATER_MS))
        try:
            mine.poll()
            mine.poll()  # the first one hands out what there is, and owes what it met
            raise Violation("an instance was replaced, and takes partitions that were added")
        except Fenced:
            site.world.held("who was replaced takes no partition")
        other, caller = _opens(site, process, "many", "latest")
        caller.took()
        _reads_on(caller, other)
        for log in site.truth.logs.values():
            place, added = ("many", log.number), log.number >= first
            if added and not all(site.groups.seen(place, log, at) for at in log.between(0, log.next_offset)):
                raise Violation(f"'many' has read {caller.next}, and not all of the added partition {log.number}")

    return main


def misses_a_deletion(site: Site) -> Main:
    """Of three consumers one has read a little of the manifest that it began with, one all before the deletion, and one
    comes later, when the tombstone is cleaned away."""

    def main(process: Process) -> None:
        topic = site.open(process)
        topic.alter({"delete.retention.ms": 0, "min.cleanable.dirty.ratio": 0, "l0.segments.tier": 2})
        key = KEYS[0]
        for index in range(3):
            topic.append([Record(*_new(site, b"to be deleted %d" % index))])
        (number,) = topic.append([Record(key, None)])
        deleted_at = site.truth.logs[number].next_offset - 1
        with patch("lithify.log.follow.STRETCH_RECORDS", 500), patch("lithify.log.follow.STRETCH_BYTES", 1 << 20):
            little, all_before = _opens(site, process, "little"), _opens(site, process, "all before")
            for (consumer, caller), last in ((little, 0), (all_before, deleted_at - 1)):
                _reads_up_to(caller, consumer, number, last)
                consumer.commit()
        _collects(site, process)
        if deleted_at in site.truth.logs[number].live:
            raise Violation(f"the tombstone at {deleted_at} of partition {number} is not cleaned away")
        consumer, caller = little
        _reads_up_to(caller, consumer, number, caller.next[number])
        consumer.commit()
        consumer, caller = _opens(site, process, "all before")
        _reads_on(caller, consumer)
        consumer.commit()

    return main


def resets_who_missed_it(site: Site) -> Main:
    """From the log's start the state is made anew, so the alarm is gone."""

    def main(process: Process) -> None:
        topic = site.open(process)
        for log in site.truth.logs.values():
            position = log.positions.get("all before")
            if position is not None and position.missed_to:
                part = topic.partition(log.number)
                log.delete_asked.add(log.floor + 1)  # at 0 no alarm would be there in any case
                part.delete_records(log.floor + 1)
                site.groups.asked["all before", log.number].append("earliest")
                part.reset_consumer("all before", "earliest")

    return main


def commits_in_bad_weather(site: Site) -> Main:
    """What is unknown the next commit settles; and closing commits nothing where only `commit` does."""

    def main(process: Process) -> None:
        topic = site.open(process)
        for index in range(8):
            topic.append([Record(*_new(site, b"committed in bad weather %d" % index))])
        consumer, caller = _opens(site, process, "weather")
        with patch("lithify.manifest.commit.CREATE_ATTEMPTS_MAX", 1):
            for _ in range(7):
                for number, item in consumer.poll(0, 1):
                    caller.handed(number, item)
                caller.came_back()
                site.world.climate = replace(CALM_CLIMATE, fault_share=0.35)
                with site.outages("commit met an outage"):
                    consumer.commit()
                site.world.climate = CALM_CLIMATE
        consumer.commit()
        committed = consumer.positions
        for number, item in consumer.poll(0, 1):
            caller.handed(number, item)
        consumer.close()
        for number, offset in committed.items():
            position = site.truth.logs[number].positions["weather"]
            if position.offset != offset:
                raise Violation(f"'weather' of partition {number} committed {offset}, was closed, and is at {position}")

    return main


def asks_late(site: Site) -> Main:
    """What became of appends that are unknown: at once, and once they are compacted."""

    def main(process: Process) -> None:
        topic = site.open(process)
        for index in range(10):
            row = _new(site, b"asked late %d" % index)
            with patch("lithify.manifest.commit.CREATE_ATTEMPTS_MAX", 1):
                site.world.climate = replace(CALM_CLIMATE, fault_share=0.5)
                try:
                    topic.append([Record(*row)])
                    continue
                except CommitUnknown as error:
                    unknown = error
                except Unavailable:
                    site.is_refused(row)
                    continue
                finally:
                    site.world.climate = CALM_CLIMATE
            number = home_of(row.key, site.truth.partitions)
            if row.value in site.truth.found_at:
                known: dict[int, Coordinator] = {}
                for _ in range(4):
                    compact(site, process, process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC)), number, known)
            asks_after(site, process, topic, number, unknown, [row])

    return main


def fails_to_load(site: Site) -> Main:
    """A state that was read at once and not loaded, and one whose reading failed: neither position moves."""

    def main(process: Process) -> None:
        part = site.open(process).partition(home_of(KEYS[0], site.truth.partitions))
        for fails in (False, True):
            opening = site.opens(process, "loads", "earliest")
            both = part.scan_and_follow("loads", auto_commit_interval_ms=1)
            site.groups.opened(opening)
            assert both.consumer is not None
            if not fails:
                both.state.read_all()
            else:
                site.world.climate = replace(CALM_CLIMATE, blackouts=FOR_EVER)
                with site.outages():
                    both.state.read_all()
                site.world.climate = CALM_CLIMATE
                with site.outages():
                    try:
                        both.state.read_next_batch()
                    except StopIteration:
                        raise Violation("the reading of a state failed, and ends as if that were all") from None
                    raise Violation("the reading of a state failed, and goes on")
            both.consumer.close()

    return main


def _reads_up_to(caller: Caller, consumer: TopicConsumer, number: int, last: int) -> None:
    """Of that partition; of the others what comes before."""
    while True:
        found = consumer.poll(0, 1)
        for each, item in found:
            caller.handed(each, item)
        caller.came_back()
        if not found or caller.next.get(number, 0) > last:
            return


def _opens(site: Site, process: Process, name: str, reset: OffsetReset = "earliest") -> tuple[TopicConsumer, Caller]:
    opening = site.opens(process, name, reset)
    consumer = site.open(process).consumer(name, auto_offset_reset=reset, auto_commit_interval_ms=None)
    site.groups.opened(opening)
    return consumer, Caller(site.groups, opening, consumer.positions)


def _collects(site: Site, process: Process) -> None:
    """All that is not needed any more, once everything is compacted."""
    topic = process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC))
    known: dict[int, Coordinator] = {}
    for number in range(topic.partitions):
        for _ in range(6):
            compact(site, process, topic, number, known)
    collector = Collector(Warehouse(process.driver), grace_ms=1_000)
    for _ in range(4):
        process.driver.answer(Pause(10_000))
        collector.run_once()


def _reads_on(caller: Caller, consumer: TopicConsumer) -> set[bytes | None]:
    """Until there is nothing, however often it looks: every second look asks for the boundary."""
    handed = set[bytes | None]()
    quiet = 0
    while quiet < 4:
        caller.came_back()
        found = consumer.poll(0, 500)
        quiet = 0 if found else quiet + 1
        for number, item in found:
            caller.handed(number, item)
            handed.add(None if isinstance(item, Gap) else item.value)
    return handed


CALM = {
    "who lingers": lingers,
    "who sends in an outage": is_told_of_an_outage,
    "who sends in bad weather": sends_in_bad_weather,
    "who is replaced": is_replaced,
    "who sleeps through a collection": sleeps_through_a_collection,
    "who is replaced while the topic grows": is_replaced_while_the_topic_grows,
    "who misses a deletion": misses_a_deletion,
    OPERATOR: resets_who_missed_it,
    "who commits in bad weather": commits_in_bad_weather,
    "who asks late": asks_late,
    "who fails to load": fails_to_load,
}
