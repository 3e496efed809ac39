"""After the faults end, one client of each kind runs alone, and must find everything that is left."""

import random
from collections.abc import Callable
from dataclasses import replace

from lithify.store.port import Pause
from tests.sim.cast import Climate, Violation
from tests.sim.clients.groups import Caller
from tests.sim.clients.members import is_committed
from tests.sim.clients.senders import sender
from tests.sim.clients.site import LATER_MS, Site
from tests.sim.clients.truth import KEYS, partition_of_key
from tests.sim.clients.world import ClientWorld, Process
from tests.sim.schedule import Uniform

__all__ = ["CALM", "DARK", "alone", "rest"]

STEPS_MAX = 6_000  # the longest takes a third of it
CALM = Climate(page_keys=1_000, tick_ms=2)  # nothing goes wrong
DARK = replace(CALM, blackouts=((0, 10**12),))
MEMBERS_SHARE, READER_SHARE, GROWTH_SHARE = 0.5, 0.2, 0.5  # of histories
Main = Callable[[Process], None]


def alone(world: ClientWorld, main: Main, name: str) -> None:
    """Runs one process in a world where nothing goes wrong."""
    world.climate = CALM
    world.scheduler = Uniform(random.Random(0))
    world.process(name, main)
    world.run(STEPS_MAX)
    if world.actors:
        raise Violation(f"{name} came to no end")


def rest(site: Site, dice: random.Random) -> None:
    """Who comes at the end, one after the other: all applications, and of the others some."""
    for source in site.sources:
        alone(site.world, sender(site, source), f"last sender of {source.name}")
        missing = [row for row in source.rows if row.value not in site.truth.found_at]
        if missing:
            raise Violation(f"{missing} were never sent")
    if dice.random() < MEMBERS_SHARE:
        for name in sorted(site.groups.whole):
            alone(site.world, _last_member(site, name), f"last member of {name}")
    if dice.random() < READER_SHARE:
        alone(site.world, _looks_up(site), "last reader")
    if dice.random() < GROWTH_SHARE:
        alone(site.world, _sees_growth(site), "last of all")
        alone(site.world, _looks_up(site), "last reader after growth")


def _last_member(site: Site, name: str) -> Main:
    def main(process: Process) -> None:
        opening = site.opens(process, name, "earliest")
        with site.open(process).consumer(name) as consumer:
            site.groups.opened(opening)
            caller = Caller(site.groups, opening, consumer.positions)
            caller.took()
            turns = _Turns(site, caller)
            quiet, most = 0, process.actor.say.choice((1, 2, 3))
            while quiet < 2:
                caller.came_back()
                found = consumer.poll(0, most)
                if len(found) > most:
                    raise Violation(f"{name!r} asks for {most}, and is handed {len(found)}")
                for number, item in found:
                    caller.handed(number, item)
                if found:
                    turns.polled({number for number, _ in found})
                quiet = 0 if found else quiet + 1
                if not found:
                    process.driver.answer(Pause(LATER_MS))
            caller.came_back()
            is_committed(site, name, consumer)  # by its interval, which is over
        _has_caught_up(site, name)

    return main


class _Turns:
    """Each partition that has something to read is read within so many polls as there are partitions, or soon after."""

    def __init__(self, site: Site, caller: Caller) -> None:
        self._site, self._caller = site, caller
        self._passed_over: dict[int, int] = {}

    def polled(self, numbers: set[int]) -> None:
        for log in self._site.truth.logs.values():
            begins = self._caller.next.get(log.number, 0)
            if log.number in numbers or log.keeps is not None or not any(at >= begins for at in log.live):
                self._passed_over.pop(log.number, None)
                continue
            times = self._passed_over[log.number] = self._passed_over.get(log.number, 0) + 1
            if times > 2 * len(self._site.truth.logs):
                raise Violation(f"{self._caller.name!r} is handed nothing of partition {log.number}, which has more")
        self._site.world.held("partitions take turns")


def _sees_growth(site: Site) -> Main:
    """A producer and a consumer that are open while the topic grows."""
    site.groups.whole.add("late")

    def main(process: Process) -> None:
        topic, elsewhere = site.open(process), site.open(process)
        opening = site.opens(process, "late", "latest")
        with (
            topic.producer() as producer,
            topic.consumer("late", auto_offset_reset="latest", auto_commit_interval_ms=500) as consumer,
        ):
            site.groups.opened(opening)
            caller = Caller(site.groups, opening, consumer.positions)
            caller.took()
            site.truth.grows(process.actor.name)
            elsewhere.alter(partitions=site.truth.partitions + 1)
            process.driver.answer(Pause(LATER_MS))
            # The others have come back to where they once were, perhaps, or are away.
            for key in process.actor.say.sample(KEYS, len(KEYS) // 2):
                value = b"late " + key
                site.truth.known.add(value)
                delivery = producer.append(key, value)
                if delivery.partition != partition_of_key(key, site.truth.partitions):
                    raise Violation(f"{key!r} goes to partition {delivery.partition} of {site.truth.partitions}")
            producer.flush()
            while found := consumer.poll():
                for number, item in found:
                    caller.handed(number, item)
                caller.came_back()
            process.driver.answer(Pause(4_000))
            consumer.poll()
            is_committed(site, "late", consumer)
        _has_caught_up(site, "late")

    return main


def _has_caught_up(site: Site, name: str) -> None:
    for log in map(site.truth.logs.__getitem__, range(site.truth.partitions)):
        position = log.positions.get(name)
        place, end = (name, log.number), log.next_offset
        if position is None or not all(site.groups.seen(place, log, at) for at in log.between(position.offset, end)):
            raise Violation(f"{name!r} is at {position} of partition {log.number} for good, which ends before {end}")


def _looks_up(site: Site) -> Main:
    """`get` and `scan` say of each key what its home has of it, but for what it left there when the topic grew."""

    def main(process: Process) -> None:
        topic = site.open(process)
        scanned = {row["key"]: row["value"] for batch in topic.scan() for row in batch.to_pylist()}
        for key in KEYS:
            found = topic.get(key)
            got = None if found is None else found.value
            expected = _expected(site, key)
            if got != scanned.get(key):
                raise Violation(f"{key!r}: get answers {got}, and scan {scanned.get(key)}")
            if got != expected and not (got is None and site.expires):
                raise Violation(f"{key!r}: get answers {got}, and {expected} was written last")

    return main


def _expected(site: Site, key: bytes) -> bytes | None:
    truth = site.truth
    number = partition_of_key(key, truth.partitions)
    counts = [count for count, _ in truth.growths] + [truth.partitions]
    left_before = 0  # what lies before that offset of its home it left there
    was_here = False
    for (count, ends), after in zip(truth.growths, counts[1:], strict=True):
        was_here = was_here or partition_of_key(key, count) == number
        if was_here and partition_of_key(key, count) != number == partition_of_key(key, after) and number < len(ends):
            left_before = ends[number] or 0  # it came back
    log = truth.logs[number]
    mine = [at for at, row in log.rows.items() if row.key == key and at >= left_before]
    latest = max(mine, default=None)
    return None if latest is None or latest < log.deleted_to else log.rows[latest].value
