"""Those who read: members of a group, and state stores."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from lithify.log.follow import OffsetReset
from lithify.log.topic_consumer import TopicConsumer
from lithify.store.errors import Fenced, LithifyError
from tests.sim.cast import Violation
from tests.sim.clients.groups import Caller
from tests.sim.clients.site import TRANSIENT, Site
from tests.sim.clients.world import Process

__all__ = ["member", "state_store"]

Main = Callable[[Process], None]


class _Broke(Exception):
    """The caller itself failed over what it was handed."""


def member(site: Site, name: str, reset: OffsetReset) -> Main:
    """Reads all partitions, in one way or another; ends its instances in one way or another."""
    site.groups.whole.add(name)

    def main(process: Process) -> None:
        while True:
            site.rest(process)
            try:
                _one_instance(site, process, name, reset)
            except Fenced:
                site.world.counts["consumer fenced"] += 1
                site.rest(process, 4)
            except TRANSIENT:
                site.world.counts["consumer ended by an outage"] += 1
            except _Broke:
                site.world.counts["consumer ended by its caller"] += 1

    return main


def _one_instance(site: Site, process: Process, name: str, reset: OffsetReset) -> None:
    say = process.actor.say
    interval_ms = say.choice((None, 1, 500, 5_000))
    rounds, most, commits = say.choice((2, 6, 20)), say.choice((1, 2, 3, 500)), say.choice((0.2, 0.2, 0.2, 1.0))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3 * rounds

    topic = site.open(process)
    consumer = topic.consumer(
        name, auto_offset_reset=reset, auto_commit_interval_ms=interval_ms, poll_ms=site.rest_ms, stop=stop
    )
    caller = Caller(site.groups, name, consumer.positions)
    site.world.counts["consumer opened"] += 1
    with consumer:
        if say.random() < 0.25:
            _iterates(site, process, consumer, caller)
        else:
            for _ in range(rounds):
                _polls(site, process, consumer, caller, most, commits)
        if say.random() < 0.2:
            raise _Broke
        caller.came_back()
    if interval_ms is not None:
        _is_committed(site, name, consumer)


def _polls(site: Site, process: Process, consumer: TopicConsumer, caller: Caller, most: int, commits: float) -> None:
    say = process.actor.say
    caller.came_back()
    try:
        for number, item in consumer.poll(say.choice((0, 0, site.rest_ms)), most):
            caller.handed(number, item)
    except TRANSIENT:
        site.world.counts["poll met an outage"] += 1
    if say.random() < 0.5:
        site.rest(process)
    if say.random() < 0.1:
        raise _Broke
    if say.random() < commits:
        caller.came_back()
        consumer.commit()
        _is_committed(site, caller.name, consumer)


def _iterates(site: Site, process: Process, consumer: TopicConsumer, caller: Caller) -> None:
    say = process.actor.say
    with suppress(*TRANSIENT):
        for number, item in consumer:
            caller.handed(number, item)
            if say.random() < 0.3:
                site.rest(process, 0.5)
            if say.random() < 0.05:
                raise _Broke
            caller.came_back()


def _is_committed(site: Site, name: str, consumer: TopicConsumer) -> None:
    """What returned without an error has committed, whoever has the name by now."""
    for number, offset in consumer.positions.items():
        position = site.truth.shelves[number].positions.get(name)
        if position is None or position.offset < offset:
            raise Violation(f"{name!r} of partition {number} is at {offset}, has ended well, and {position} is there")


def state_store(site: Site, name: str | None) -> Main:
    """Rebuilds the state of a partition, and follows it."""

    def main(process: Process) -> None:
        while True:
            site.rest(process, 2)
            try:
                _one_state(site, process, name)
            except Fenced:
                site.world.counts["state store fenced"] += 1
            except TRANSIENT:
                site.world.counts["state store ended by an outage"] += 1
            except _Broke:
                site.world.counts["state store ended by its caller"] += 1

    return main


def _one_state(site: Site, process: Process, name: str | None) -> None:
    say = process.actor.say
    topic = site.open(process)
    number = say.randrange(topic.partitions)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 12

    both = topic.partition(number).scan_and_follow(
        name, auto_commit_interval_ms=say.choice((None, 1, 1_000)), poll_ms=site.rest_ms, stop=stop
    )
    end = both.next_offset
    caller = Caller(site.groups, name or "", {number: end})
    try:
        state = _loaded(site, process, both.state)
    except (LithifyError, _Broke):
        if both.consumer is not None and say.random() < 0.7:
            both.consumer.close()
        raise
    _is_the_state(site, number, end, state)
    caller.rebuilt(number, end)
    for item in both.changes:
        caller.handed(number, item)
        if say.random() < 0.2:
            site.rest(process)
        if say.random() < 0.05:
            break
        caller.came_back()
    else:
        caller.came_back()
        if both.consumer is not None:
            both.consumer.close()


def _loaded(site: Site, process: Process, state: pa.RecordBatchReader) -> dict[bytes, int]:
    """Read batch by batch or all at once; loading it may fail at any row. Where reading fails it may be asked again."""
    say = process.actor.say
    held: dict[bytes, int] = {}
    batches = iter(state.read_all().to_batches() if say.random() < 0.4 else _stubborn(site, process, state))
    fails = say.random() < 0.15
    for batch in batches:
        for row in batch.to_pylist():
            if fails and say.random() < 0.2:
                raise _Broke
            held[row["key"]] = row["offset"]
    return held


def _stubborn(site: Site, process: Process, state: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Asks again after an error, as Unavailable says; an end is an end."""
    asks = process.actor.say.choice((1, 1, 3))
    while True:
        try:
            yield state.read_next_batch()
        except StopIteration:
            return
        except TRANSIENT:
            asks -= 1
            if not asks:
                raise
            site.world.counts["state asked again after an outage"] += 1


def _is_the_state(site: Site, number: int, end: int, state: dict[bytes, int]) -> None:
    shelf = site.truth.shelves[number]
    site.world.counts["state compared"] += 1
    latest = {shelf.rows[offset].key: offset for offset in shelf.between(0, end)}
    for key, offset in latest.items():
        shown, gone = state.get(key), shelf.rows[offset].value is None
        if shown is None and not gone and not site.expires and offset >= shelf.deleted_to:
            raise Violation(f"the state of partition {number} before {end} has no {key!r}, written at {offset}")
        if shown is not None and (gone or shown != offset):
            raise Violation(f"the state of partition {number} before {end} has {key!r} of {shown}, not {offset}")
