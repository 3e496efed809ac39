"""Imports: a source's rows, sent in batches by processes that begin anew with other batches, and rival each other.
Every row is there once at the end (docs/rfcs/0011)."""

from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import EndTransaction, ForgetTransaction, TransactionStamp, find_transaction
from lithify.store.errors import AlreadyExists, CommitUnknown, InvalidRequest, NotFound, Unavailable
from lithify.store.port import Now, Pause
from tests.sim.actors import TRANSIENT, Life, records, send
from tests.sim.cast import Actor, Violation
from tests.sim.rows import Row
from tests.sim.site import Handle, Site

__all__ = ["Source", "importer"]

FORGET_SHARE = 0.02  # how often a person forgets the import's entry


class Source:
    """Its rows; all processes read the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []

    async def filled(self, site: Site, actor: Actor) -> list[Row]:
        while len(self.rows) < 2 * site.appends:
            self.rows += records(site, actor, f"{self.name}.{len(self.rows)}", await Now())
        return self.rows


def importer(site: Site, source: Source) -> Life:
    async def live(actor: Actor) -> None:
        while True:
            await Pause(site.rest(actor))
            try:
                rows = await source.filled(site, actor)
                handle = await site.open()
                files = PartitionFiles(handle.keys)
                if await _run(site, actor, source, handle, files, rows):
                    return
            except (*TRANSIENT, AlreadyExists, InvalidRequest):
                continue  # begun anew: it looks how far it is

    return live


async def _run(
    site: Site, actor: Actor, source: Source, handle: Handle, files: PartitionFiles, rows: list[Row]
) -> bool:
    say = actor.say
    if say.random() < FORGET_SHARE:
        await files.manifest.commit(ForgetTransaction(source.name))
    known = find_transaction(await files.head(), source.name)
    at = 0 if known is None else known.version
    while at < len(rows):
        await handle.fresh()
        count = min(say.choice((1, 1, 2, 3, 5)), len(rows) - at)
        part = [Row(index, *_rest(row)) for index, row in enumerate(rows[at : at + count])]
        stamp = TransactionStamp(source.name, at + count, at, last=at + count == len(rows) and say.random() < 0.5)
        try:
            offsets = await send(files, handle, part, transaction=stamp)
        except (CommitUnknown, Unavailable, NotFound):
            if say.random() < 0.5:
                raise
            continue  # the same process sends on, and perhaps cuts elsewhere
        forgotten = source.name in site.oracle.truth(handle.keys).applications.forgotten  # and sent again meanwhile
        if not forgotten:
            site.oracle.acknowledged(handle.keys, [row.token for row in part], offsets)
        at += count
        if say.random() < 0.5:
            await Pause(site.rest(actor))
    await files.manifest.commit(EndTransaction(source.name))
    there = site.oracle.truth(handle.keys).contents.at
    missing = [row.token for row in rows if row.token not in there]
    if missing:
        raise Violation(f"{actor.name} has sent all, and {missing[0]} is not there (P6)")
    site.world.counts["import ended"] += 1
    return True


def _rest(row: Row) -> tuple[str | None, str, bool, int]:
    return row.key, row.token, row.dead, row.timestamp_ms
