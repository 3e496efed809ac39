"""Those who append without a producer, and ask what became of what is unknown."""

from collections.abc import Callable
from functools import partial

from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.store.errors import CommitUnknown, Unavailable
from tests.sim.cast import Violation
from tests.sim.clients.site import Site
from tests.sim.clients.truth import KEYS, Row
from tests.sim.clients.world import Process

__all__ = ["appends_one", "asks_after", "writer"]

Main = Callable[[Process], None]


def writer(site: Site, appends: int) -> Main:
    """Each append is of one key, and so of one partition."""
    left = appends

    def main(process: Process) -> None:
        nonlocal left
        say = process.actor.say
        topic = None
        while left > 0:
            site.rest(process)
            with site.outages():
                topic = topic if topic is not None and say.random() < 0.7 else site.open(process)
                left -= 1
                _append(site, process, topic, f"{process.actor.name}.{left}")

    return main


def _append(site: Site, process: Process, topic: Topic, value: str) -> None:
    appends_one(site, process, topic, value)()


def appends_one(site: Site, process: Process, topic: Topic, value: str) -> Callable[[], None]:
    """What appends it, on whichever thread: what it holds is chosen now."""
    say = process.actor.say
    key, tombstones = say.choice(KEYS), say.choice((0.1, 0.5))
    values = [f"{value}.{n}".encode() for n in range(say.choice((1, 1, 2, 4)))]
    rows = [Row(key, None if say.random() < tombstones else each) for each in values]
    with_values = [row for row in rows if row.value is not None]
    site.truth.known.update(row.value for row in with_values if row.value is not None)
    return partial(_appends, site, process, topic, key, rows)


def _appends(site: Site, process: Process, topic: Topic, key: bytes, rows: list[Row]) -> None:
    with_values = [row for row in rows if row.value is not None]
    since_ms, slept_ms = site.world.now_ms, process.actor.slept_ms
    try:
        (told,) = topic.append([Record(row.key, row.value) for row in rows]).items()
    except CommitUnknown as unknown:
        number = int(unknown.token.partition(":")[0].rpartition("/")[2])
        asks_after(site, process, topic, number, unknown, with_values)
        raise
    except Unavailable:
        for row in with_values:
            site.is_refused(row)
        raise
    number, offsets = told
    site.world.counts["append acknowledged"] += 1
    site.is_its_partition(process, key, number, since_ms, slept_ms)
    for offset, row in zip(offsets, rows, strict=True):
        site.is_as_told(number, offset, row)


def asks_after(
    site: Site, process: Process, topic: Topic, number: int, unknown: CommitUnknown, rows: list[Row]
) -> None:
    """Of an append that is unknown: where its rows are, or that they never come. Who asks without settling may have to
    ask again."""
    say = process.actor.say
    if not unknown.token:
        raise Violation(f"{rows} are unknown, and there is no token to ask by")
    if say.random() < 0.5:
        site.rest(process, 3)
    try:
        found = topic.partition(number).outcome(unknown.token, settle=say.random() < 0.6)
    except CommitUnknown:
        site.world.counts["token: not known yet"] += 1
        return
    except Unavailable:
        return
    site.world.held("what a token tells")
    site.world.counts[f"token: {'not appended' if found is None else 'appended'}"] += 1
    for row in rows:
        if found is None:
            site.is_refused(row)
            continue
        where, offset = site.truth.found_at.get(row.value or b"", (-1, -1))
        if where != number or offset not in found:
            raise Violation(f"{row} is told to be in partition {number} at {found}, and is at {offset} of {where}")
