"""Nothing goes wrong any more, and one after the other comes: what they find is all there is."""

import random
from collections.abc import Callable

from lithify.store.port import Pause
from tests.sim.cast import Climate, Violation
from tests.sim.clients.groups import Caller
from tests.sim.clients.senders import sender
from tests.sim.clients.site import Site
from tests.sim.clients.truth import KEYS, home_of
from tests.sim.clients.world import ClientWorld, Process
from tests.sim.schedule import Uniform

__all__ = ["alone", "rest"]

STEPS_MAX = 20_000
LATER_MS = 2 * 10_000 + 5_000  # half of it passes at least, and all clients are to know of a growth within ten seconds


def alone(world: ClientWorld, main: Callable[[Process], None], name: str) -> None:
    """Runs one process in a world where nothing goes wrong."""
    world.climate = Climate(page_keys=1_000, tick_ms=2)
    world.scheduler = Uniform(random.Random(0))
    world.process(name, main)
    world.run(STEPS_MAX)
    if world.actors:
        raise Violation(f"{name} came to no end")


def rest(site: Site) -> None:
    for source in site.sources:
        alone(site.world, sender(site, source), f"last sender of {source.name}")
        missing = [row for row in source.rows if row.value not in site.truth.lies]
        if missing:
            raise Violation(f"{missing} were never sent")
    for name in sorted(site.groups.whole):
        alone(site.world, _last_member(site, name), f"last member of {name}")
    alone(site.world, _looks_up(site), "last reader")
    alone(site.world, _sees_growth(site), "last of all")
    alone(site.world, _looks_up(site), "last reader after growth")


def _last_member(site: Site, name: str) -> Callable[[Process], None]:
    def main(process: Process) -> None:
        topic = site.open(process)
        with topic.consumer(name) as consumer:
            caller = Caller(site.groups, name, consumer.positions)
            quiet = 0
            while quiet < 2:
                caller.came_back()
                found = consumer.poll(0, 7)
                for number, item in found:
                    caller.handed(number, item)
                quiet = 0 if found else quiet + 1
                if not found:
                    process.driver.answer(Pause(LATER_MS))
            caller.came_back()
        _has_caught_up(site, name)

    return main


def _sees_growth(site: Site) -> Callable[[Process], None]:
    """A producer and a consumer that are open while the topic grows."""
    site.groups.whole.add("late")

    def main(process: Process) -> None:
        topic, elsewhere = site.open(process), site.open(process)
        with topic.producer() as producer, topic.consumer("late", auto_offset_reset="latest") as consumer:
            caller = Caller(site.groups, "late", consumer.positions)
            elsewhere.alter(partitions=site.truth.partitions + 1)
            process.driver.answer(Pause(LATER_MS))
            for key in KEYS:
                value = b"late " + key
                site.truth.known.add(value)
                delivery = producer.append(key, value)
                if delivery.partition != home_of(key, site.truth.partitions):
                    raise Violation(f"{key!r} goes to partition {delivery.partition} of {site.truth.partitions}")
            producer.flush()
            while found := consumer.poll():
                for number, item in found:
                    caller.handed(number, item)
                caller.came_back()
        _has_caught_up(site, "late")

    return main


def _has_caught_up(site: Site, name: str) -> None:
    for shelf in map(site.truth.shelves.__getitem__, range(site.truth.partitions)):
        position = shelf.positions.get(name)
        place, end = (name, shelf.number), shelf.next_offset
        if position is None or not all(
            site.groups.seen(place, shelf, at) for at in shelf.between(position.offset, end)
        ):
            raise Violation(f"{name!r} is at {position} of partition {shelf.number} for good, which ends before {end}")


def _looks_up(site: Site) -> Callable[[Process], None]:
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
    number = home_of(key, truth.partitions)
    counts = [count for count, _ in truth.growths] + [truth.partitions]
    left_before = 0  # what lies before that offset of its home it left there
    was_here = False
    for (count, ends), after in zip(truth.growths, counts[1:], strict=True):
        was_here = was_here or home_of(key, count) == number
        if was_here and home_of(key, count) != number == home_of(key, after) and number < len(ends):
            left_before = ends[number] or 0  # it came back
    shelf = truth.shelves[number]
    mine = [at for at, row in shelf.rows.items() if row.key == key and at >= left_before]
    latest = max(mine, default=None)
    return None if latest is None or latest < shelf.deleted_to else shelf.rows[latest].value
