"""Those who get keys from a head of a moment ago, and hold it for long: nothing is older than they allowed, and what is
gone beneath them is looked for again (docs/rfcs/0025)."""

from collections.abc import Callable

from lithify.log.record import Record
from lithify.store.errors import CommitUnknown, SnapshotExpired, Unavailable
from tests.sim.cast import Violation
from tests.sim.clients.site import CLOCKS_ERR_MS, Site
from tests.sim.clients.truth import KEYS, Log, Row, partition_of_key
from tests.sim.clients.world import Process

__all__ = ["getter"]

Main = Callable[[Process], None]
STALENESS_MS = (0, 1_000, 60_000, 3_600_000)


def getter(site: Site) -> Main:
    def main(process: Process) -> None:
        say = process.actor.say
        with site.outages():
            topic = site.open(process)
            part, own = topic.partition(0), [key for key in KEYS if partition_of_key(key, topic.partitions) == 0]
            log = site.truth.logs[0]
            known = [(site.world.now_ms, log.next_offset)]  # that so much was there at that time, for all to see
            mine = 0  # the end of what this handle has appended
            while True:
                site.rest(process)
                known.append((site.world.now_ms, log.next_offset))
                staleness_ms = say.choice(STALENESS_MS)
                late_ms = staleness_ms and staleness_ms + CLOCKS_ERR_MS + process.actor.slept_ms
                least = max(end for since, end in known if since <= known[0][0] or since <= known[-1][0] - late_ms)
                wanted = [say.choice(KEYS) for _ in range(say.choice((1, 3)))]
                try:
                    found = part.get_many(wanted, max_staleness_ms=staleness_ms)
                except Unavailable:
                    continue
                except SnapshotExpired as gone:
                    raise Violation(f"a get with a staleness of {staleness_ms} ms was told: {gone}") from gone
                for key, record in zip(wanted, found, strict=True):
                    _is_recent(site, log, key, record, max(least, mine))
                if own and say.random() < 0.3:
                    row = Row(say.choice(own), f"{process.actor.name}.{site.world.steps}".encode())
                    mine = _append(site, part.append, row, mine)

    return main


def _append(site: Site, append: Callable[[list[Record]], range], row: Row, mine: int) -> int:
    assert row.value is not None
    site.truth.known.add(row.value)
    try:
        return append([Record(row.key, row.value)]).stop
    except CommitUnknown:
        return mine
    except Unavailable:
        site.is_refused(row)
        return mine


def _is_recent(site: Site, log: Log, key: bytes, record: Record | None, least: int) -> None:
    """It is the latest of its key, or was so after `least` was the log's end."""
    site.world.held("how old a get may be")
    ours = [offset for offset in log.between(0, log.next_offset) if log.rows[offset].key == key]
    must = max((offset for offset in ours if offset < least), default=None)
    if record is None:
        gone = must is None or any(log.rows[offset].value is None for offset in ours if offset >= must)
        if not gone and not site.expires and must is not None and must >= log.deleted_to:
            raise Violation(f"a get of {key!r} finds nothing, and {must} was there")
        return
    shown = record.offset
    assert shown is not None
    if log.rows.get(shown) != Row(key, record.value):
        raise Violation(f"a get of {key!r} finds {record}, where there is {log.rows.get(shown)}")
    if must is not None and shown < must:
        raise Violation(f"a get of {key!r} finds {shown}, and {must} was there")
