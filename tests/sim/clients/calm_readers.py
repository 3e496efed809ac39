"""What whoever reads is promised that takes time, or a store that answers nobody."""

from collections.abc import Callable, Collection
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
from lithify.store.errors import Fenced
from lithify.store.port import Pause
from tests.sim.cast import Violation
from tests.sim.clients.groups import Caller
from tests.sim.clients.keepers import compact
from tests.sim.clients.members import Broke
from tests.sim.clients.rest import CALM, DARK
from tests.sim.clients.site import LATER_MS, TOPIC, Site
from tests.sim.clients.truth import KEYS, partition_of_key
from tests.sim.clients.world import Process

__all__ = [
    "collects",
    "commits_in_bad_weather",
    "fails_over_a_record",
    "fails_to_load",
    "is_replaced",
    "is_replaced_while_the_topic_grows",
    "misses_a_deletion",
    "resets_who_missed_it",
    "sleeps_through_a_collection",
]

Main = Callable[[Process], None]
LONG_MS = 3_600_000  # nothing is committed before an instance ends


def is_replaced(site: Site) -> Main:
    """An instance that another one replaced hears of it by the commits that it makes by itself."""

    def main(process: Process) -> None:
        topic = site.open(process)
        topic.append([Record(*site.new(b"for who is replaced"))])
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
        number = partition_of_key(KEYS[0], site.truth.partitions)
        both = [_opens(site, process, name, of=[number]) for name in ("at the end", "between")]
        with patch("lithify.log.follow.STRETCH_RECORDS", 500):
            for consumer, caller in both:
                _reads_on(caller, consumer)
        with patch("lithify.log.follow.STRETCH_RECORDS", 1), patch("lithify.gc.reachable.BOUNDARY_STEP_MIN", 2):
            for index in range(8):
                topic.append([Record(*site.new(b"asleep %d" % index))])
            between, caller = both[1]
            for _, item in between.poll(0, 1):
                caller.handed(number, item)
            collects(site, process, number)
            for consumer, caller in both:
                if b"asleep 7" not in _reads_on(caller, consumer):
                    raise Violation(f"{caller.name!r} sleeps on, though there is something to read")
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
            if partition_of_key(key, count) >= first:
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
        number = partition_of_key(KEYS[0], site.truth.partitions)
        with patch("lithify.log.follow.STRETCH_RECORDS", 500), patch("lithify.log.follow.STRETCH_BYTES", 1 << 20):
            for index in range(3):
                topic.append([Record(*site.new(b"to be deleted %d" % index))])
            consumer, caller = _opens(site, process, "all before", of=[number])
            _reads_on(caller, consumer)
            consumer.commit()
            topic.append([Record(KEYS[0], None)])
            deleted_at = site.truth.logs[number].next_offset - 1
            little, by = _opens(site, process, "little", of=[number])
            _reads_one(by, little)
        collects(site, process, number)
        if deleted_at in site.truth.logs[number].live:
            raise Violation(f"the tombstone at {deleted_at} of partition {number} is not cleaned away")
        _reads_one(by, little)
        consumer, caller = _opens(site, process, "all before", of=[number])
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
            topic.append([Record(*site.new(b"committed in bad weather %d" % index))])
        consumer, caller = _opens(site, process, "weather")
        with patch("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", 1):
            for _ in range(7):
                for number, item in consumer.poll(0, 1):
                    caller.handed(number, item)
                caller.came_back()
                site.world.climate = replace(CALM, fault_share=0.35)
                with site.outages("commit met an outage"):
                    consumer.commit()
                site.world.climate = CALM
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


def fails_to_load(site: Site) -> Main:
    """A state that was read at once and not loaded, and one whose reading failed: neither position moves."""

    def main(process: Process) -> None:
        topic = site.open(process)
        topic.append([Record(*site.new(b"to be loaded"))])
        part = topic.partition(partition_of_key(KEYS[0], site.truth.partitions))
        for fails in (False, True):
            opening = site.opens(process, "loads", "earliest")
            both = part.scan_and_follow("loads", auto_commit_interval_ms=1)
            site.groups.opened(opening)
            assert both.consumer is not None
            if not fails:
                both.state.read_all()
            else:
                site.world.climate = DARK
                with site.outages():
                    both.state.read_all()
                site.world.climate = CALM
                with site.outages():
                    try:
                        both.state.read_next_batch()
                    except StopIteration:
                        raise Violation("the reading of a state failed, and ends as if that were all") from None
                    raise Violation("the reading of a state failed, and goes on")
            both.consumer.close()

    return main


def fails_over_a_record(site: Site) -> Main:
    """Its caller has dealt with the first record, and fails over the second: the next instance begins there."""

    def main(process: Process) -> None:
        topic, number = site.open(process), partition_of_key(KEYS[0], site.truth.partitions)
        topic.append([Record(*site.new(b"dealt with")), Record(*site.new(b"failed over"))])
        for _ in range(2):
            opening = site.opens(process, "failing", "earliest")
            consumer = topic.partition(number).consumer("failing", auto_commit_interval_ms=LONG_MS)
            site.groups.opened(opening)
            caller = Caller(site.groups, opening, {number: consumer.position})
            with suppress(Broke), consumer:
                for _ in range(2):
                    caller.came_back()
                    for item in consumer.poll(0, 1):
                        caller.handed(number, item)
                raise Broke

    return main


def _reads_one(caller: Caller, consumer: TopicConsumer) -> None:
    for number, item in consumer.poll(0, 1):
        caller.handed(number, item)
    caller.came_back()
    consumer.commit()


def _opens(
    site: Site, process: Process, name: str, reset: OffsetReset = "earliest", of: Collection[int] | None = None
) -> tuple[TopicConsumer, Caller]:
    opening = site.opens(process, name, reset)
    consumer = site.open(process).consumer(name, of, auto_offset_reset=reset, auto_commit_interval_ms=None)
    site.groups.opened(opening)
    return consumer, Caller(site.groups, opening, consumer.positions)


def collects(site: Site, process: Process, number: int) -> None:
    """All of that partition that is not needed any more, once everything is compacted."""
    topic = process.driver.run(live_topic(topic_lineage(TOPIC), TOPIC))
    known: dict[int, Coordinator] = {}
    compact(site, process, topic, number, known)  # it may have to wait until another one's claim is over
    process.driver.answer(Pause(10 * 60_000))
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
