"""Who holds several checkpoints at once, within each other: some for ever, some not for long, refreshed, and let go in
any order, with time for collections between."""

from typing import NamedTuple

from lithify.log import checkpoints
from lithify.manifest.model import Checkpoint
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import RefreshCheckpoint
from lithify.store.errors import SnapshotExpired
from lithify.store.port import Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor
from tests.sim.places import files_of
from tests.sim.site import Site

__all__ = ["holder"]

HELD_MAX = 4
LIFETIMES_MS = (None, None, 300, 3_000, 100_000)
LONG = 6  # times as long as others rest, at most: what was replaced is handed over meanwhile


class _Held(NamedTuple):
    files: PartitionFiles
    checkpoint: Checkpoint


def holder(site: Site) -> Life:
    """It forgets what it held when it crashes: that stays, or expires."""

    async def live(actor: Actor) -> None:
        say, held = actor.say, list[_Held]()
        while True:
            await Pause(int(1 + say.random() * LONG) * site.rest(actor) // 2)
            try:
                draw = say.random()
                if len(held) < HELD_MAX and (not held or draw < 0.4):
                    held.append(await _pin(site, actor))
                    continue
                one = held.pop(say.randrange(len(held)))
                if draw < 0.7:
                    await one.files.manifest.commit(_refresh(site, actor, one.checkpoint))
                    held.append(one)
                else:
                    await checkpoints.delete(one.files, one.checkpoint.name)
            except (*TRANSIENT, SnapshotExpired):
                continue

    return live


async def _pin(site: Site, actor: Actor) -> _Held:
    files = files_of((await site.open()).keys)
    lasts_ms, name = actor.say.choice(LIFETIMES_MS), f"held {actor.name} {actor.say.randrange(100)}"
    site.oracle.judge.asks_to_pin(actor.name, lasts_ms)
    _, checkpoint = await checkpoints.pin(files, name, lasts_ms)
    return _Held(files, checkpoint)


def _refresh(site: Site, actor: Actor, checkpoint: Checkpoint) -> RefreshCheckpoint:
    """Whether or not it has expired: that is for the commit to say."""
    lasts_ms = actor.say.choice(LIFETIMES_MS)
    site.oracle.judge.asks_to_pin(actor.name, lasts_ms)
    return RefreshCheckpoint(checkpoint.id, lasts_ms)
