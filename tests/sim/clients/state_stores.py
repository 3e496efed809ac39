"""State stores: each rebuilds the state of a partition by a scan, and follows what comes after it."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from lithify.store.errors import Fenced, LithifyError, SnapshotExpired
from tests.sim.cast import Violation
from tests.sim.clients.groups import Caller, Opening
from tests.sim.clients.members import Broke
from tests.sim.clients.site import OUTAGES, Enough, Site
from tests.sim.clients.world import Process

__all__ = ["state_store"]

Main = Callable[[Process], None]


def state_store(site: Site, name: str | None) -> Main:
    def main(process: Process) -> None:
        while True:
            site.rest(process, 2)
            # Whatever becomes of its changes, a new name begins where everything is still to be read.
            opening = site.opens(
                process, name or "", process.actor.say.choice(("earliest", "latest")), begins="earliest"
            )
            with site.outages("state store ended by an outage"):
                try:
                    _one_state(site, process, name, opening)
                except Fenced:
                    site.fenced(opening)
                except Broke:
                    site.world.counts["state store ended by its caller"] += 1

    return main


def _one_state(site: Site, process: Process, name: str | None, opening: Opening) -> None:
    say = process.actor.say
    topic = site.open(process)
    number = say.randrange(topic.partitions)
    both = topic.partition(number).scan_and_follow(
        name,
        auto_offset_reset=opening.reset,
        auto_commit_interval_ms=say.choice((None, 1, 1_000)),
        poll_ms=site.rest_ms,
        stop=Enough(12),
    )
    site.groups.opened(opening)
    end = both.next_offset
    caller = Caller(site.groups, opening, {number: end})
    try:
        state = _loaded(site, process, both.state)
    except (LithifyError, Broke) as error:
        if both.consumer is not None and say.random() < 0.7:
            both.consumer.close()
        if isinstance(error, SnapshotExpired):
            site.world.counts["state expired"] += 1  # it was read for longer than the grace period
            return
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
                raise Broke
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
        except OUTAGES:
            asks -= 1
            if not asks:
                raise
            site.world.counts["state asked again after an outage"] += 1


def _is_the_state(site: Site, number: int, end: int, state: dict[bytes, int]) -> None:
    log = site.truth.logs[number]
    site.world.counts["state compared"] += 1
    latest = {log.rows[offset].key: offset for offset in log.between(0, end)}
    for key, offset in latest.items():
        shown, gone = state.get(key), log.rows[offset].value is None
        if shown is None and not gone and not site.expires and offset >= log.deleted_to:
            raise Violation(f"the state of partition {number} before {end} has no {key!r}, written at {offset}")
        if shown is not None and (gone or shown != offset):
            raise Violation(f"the state of partition {number} before {end} has {key!r} of {shown}, not {offset}")
