"""Imports: a source's rows, sent in batches by processes that begin anew with other batches, rival each other, and may
pass over the first rows. Every row is there once at the end (docs/rfcs/0011)."""

from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import (
    EndTransaction,
    ForgetTransaction,
    Reach,
    TransactionStamp,
    find_transaction,
    reach_of,
)
from lithify.store.errors import AlreadyExists, CommitUnknown, InvalidRequest, NotFound, Unavailable
from lithify.store.port import Now, Pause
from tests.sim.actors import TRANSIENT, Life, records, send
from tests.sim.cast import Actor, Violation
from tests.sim.places import files_of
from tests.sim.rows import Row
from tests.sim.site import Handle, Site

__all__ = ["Source", "importer"]

SOURCES_MAX = 6  # one after the other
FORGET_SHARE = 0.02  # how often a person forgets the import's entry


class Source:
    """Its rows; all processes read the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []
        self._following: Source | None = None

    @property
    def following(self) -> "Source":
        """What those who are done with this one import."""
        self._following = self._following or Source(f"{self.name}'")
        return self._following

    async def filled(self, site: Site, actor: Actor) -> list[Row]:
        while len(self.rows) < 2 * site.appends:
            self.rows += records(site, actor, f"{self.name}.{len(self.rows)}", await Now())
        return self.rows


def importer(site: Site, source: Source) -> Life:
    async def live(actor: Actor) -> None:
        mine = source
        for _ in range(SOURCES_MAX):
            mine = await _imported(actor, mine)

    async def _imported(actor: Actor, mine: Source) -> Source:
        while True:
            await Pause(site.rest(actor))
            try:
                rows = await mine.filled(site, actor)
                handle = await site.open()
                files = files_of(handle.keys)
                if await _run(site, actor, mine, handle, files, rows):
                    return mine.following
            except (*TRANSIENT, AlreadyExists, InvalidRequest):
                continue  # begun anew: it looks how far it is

    return live


async def _run(
    site: Site, actor: Actor, source: Source, handle: Handle, files: PartitionFiles, rows: list[Row]
) -> bool:
    """Whether all is in: a process may be told to pass over the first rows."""
    say = actor.say
    if say.random() < FORGET_SHARE:
        await files.manifest.commit(ForgetTransaction(source.name))
    known = find_transaction(await files.head(), source.name)
    reach = Reach() if known is None else reach_of(known)
    # Who finds that rows were passed over mostly sends them, beside others who do.
    at = skip = min(say.choice((0, 0, 0, 1) if reach.passed_over else (0, 0, 1, 2, 4, 6)), len(rows) - 1)
    while at < len(rows):
        await handle.fresh()
        count = min(say.choice((1, 1, 2, 3, 5)), len(rows) - at)
        part = _missing(rows, reach, at, count)
        ends = at + count == len(rows) and say.random() < 0.5
        stamp = TransactionStamp(source.name, at + count, reach, first=skip + 1, last=ends)
        if part:
            try:
                offsets = await send(files, handle, part, transaction=stamp)
            except (CommitUnknown, Unavailable, NotFound):
                if say.random() < 0.5:
                    raise
                continue  # the same process sends on, and perhaps cuts elsewhere
            forgotten = source.name in site.oracle.truth(handle.keys).applications.forgotten  # and sent again meanwhile
            if not forgotten:
                site.oracle.acknowledged(handle.keys, [row.token for row in part], offsets)
            reach = reach.after(stamp.first, stamp.version)
        at += count
        if say.random() < 0.5:
            await Pause(site.rest(actor))
    await files.manifest.commit(EndTransaction(source.name, reach))
    there = site.oracle.truth(handle.keys).contents.at
    missing = [row.token for row in rows[skip:] if row.token not in there]
    if missing:
        raise Violation(f"{actor.name} has sent all, and {missing[0]} is not there (P6)")
    site.world.counts["import ended" if not skip else "import ended but for what it passed over"] += 1
    return not skip


def _missing(rows: list[Row], reach: Reach, at: int, count: int) -> list[Row]:
    """Of so many rows after the first `at`."""
    numbers = range(at + 1, at + count + 1)
    holes = {number for each in reach.passed_over for number in range(each.first, each.last + 1)}
    missing = [number for number in numbers if number > reach.version or number in holes]
    return [Row(index, *_rest(rows[number - 1])) for index, number in enumerate(missing)]


def _rest(row: Row) -> tuple[str | None, str, bool, int]:
    return row.key, row.token, row.dead, row.timestamp_ms
