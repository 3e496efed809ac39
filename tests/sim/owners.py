"""Scans and publishers of views, which pin beside users and under the same names, at bounds that are soon reached
(docs/rfcs/0016). They have dice of their own, so that histories without them are as they were."""

import random
from contextlib import ExitStack
from unittest.mock import patch

from lithify.log import checkpoints
from lithify.manifest.model import PINS_MAX, SCAN_TTL_MS_MAX, Checkpoint, Manifest, PinOwner
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint, RefreshCheckpoint
from lithify.store.errors import InvalidRequest, NotFound, SnapshotExpired
from lithify.store.port import NewId, Pause
from tests.sim.actors import TRANSIENT, Life, read_slowly
from tests.sim.cast import Actor, Violation
from tests.sim.places import files_of
from tests.sim.site import Site

__all__ = ["owners_of"]

OWNERS_SHARE = 0.08
SCANS, PUBLISHERS = (0, 1, 3), (0, 1, 2)
FEW: dict[PinOwner, tuple[int, ...]] = {"user": (256, 2), "scan": (512, 2, 1), "view": (3, 2, 1)}
LASTING_MS = (300, 3_000, 100_000)
TOO_LONG_MS = (None, SCAN_TTL_MS_MAX + 1)
KEPT = 2  # publications of a view, besides the one that is made


def owners_of(site: Site, seed: int, stack: ExitStack, *, always: bool = False) -> dict[str, Life]:
    dice = random.Random(f"{seed}/owners")
    if dice.random() >= OWNERS_SHARE and not always:
        return {}
    bounds = {owner: dice.choice(few) for owner, few in FEW.items()}
    stack.enter_context(patch.dict(PINS_MAX, bounds))
    site.oracle.judge.pins_max = bounds
    scans, publishers = dice.choice(SCANS), dice.choice(PUBLISHERS)
    found = {f"scan {index}": scan(site, index) for index in range(scans)}
    return found | {f"publisher {index}": publisher(site) for index in range(publishers or not scans)}


def _name(index: int, actor: Actor) -> str:
    """One that a user has, too."""
    return f"pin pinning reader {index} {actor.say.randrange(2)}"


async def _published(site: Site, actor: Actor, files: PartitionFiles) -> Checkpoint:
    ttl_ms, made_id = actor.say.choice((None, *LASTING_MS)), await NewId()
    site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
    made = await files.manifest.commit(CreateCheckpoint(made_id, f"view {made_id}", ttl_ms, owner="view"))
    site.world.counts["view pins"] += 1
    return made.result


def scan(site: Site, index: int) -> Life:
    """Pins, reads, refreshes, lets go; or forgets to, which is as if its process was killed."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(site.rest(actor))
            try:
                files = files_of((await site.open()).keys)
                manifest, pin = await _opened(site, actor, files, _name(index, actor))
                await read_slowly(site, actor, files, manifest)
                await _refreshed(site, actor, files, pin)
                await read_slowly(site, actor, files, manifest)
                if actor.say.random() < 0.6:
                    await files.manifest.commit(DeleteCheckpoint(pin.id))
            except (*TRANSIENT, SnapshotExpired):
                continue

    return live


async def _opened(site: Site, actor: Actor, files: PartitionFiles, name: str) -> tuple[Manifest, Checkpoint]:
    """Its pin of that name, whatever others call theirs."""
    ttl_ms = actor.say.choice(LASTING_MS)
    site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
    manifest, pin = await checkpoints.pin(files, name, ttl_ms, "scan")
    if pin.owner != "scan":
        raise Violation(f"{actor.name} is given {pin}, which is another owner's (P20)")
    site.world.counts["scan pins"] += 1
    return manifest, pin


async def _refreshed(site: Site, actor: Actor, files: PartitionFiles, pin: Checkpoint) -> None:
    if actor.say.random() < 0.3:
        too_long_ms = actor.say.choice(TOO_LONG_MS)
        site.oracle.judge.asks_to_pin(actor.name, too_long_ms)
        try:
            await files.manifest.commit(RefreshCheckpoint(pin.id, too_long_ms))
        except InvalidRequest:
            site.world.counts["a scan may not pin for so long"] += 1
        else:
            raise Violation(f"{actor.name} pins for {too_long_ms} ms (P20)")
    elif actor.say.random() < 0.7:
        ttl_ms = actor.say.choice(LASTING_MS)
        site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
        await files.manifest.commit(RefreshCheckpoint(pin.id, ttl_ms))


def publisher(site: Site) -> Life:
    """Pins what it publishes, writes, sees that the pin is still there, and lets go of publications before it; or is
    killed between."""

    async def live(actor: Actor) -> None:
        published: list[str] = []
        while True:
            await Pause(site.rest(actor))
            try:
                files = files_of((await site.open()).keys)
                pin = await _published(site, actor, files)
                await Pause(int(actor.say.random() * 2 * site.rest_ms))
                ttl_ms = actor.say.choice((None, 100_000))
                site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
                await files.manifest.commit(RefreshCheckpoint(pin.id, ttl_ms))
                published.append(pin.id)
                if len(published) > KEPT and actor.say.random() < 0.6:
                    await files.manifest.commit(DeleteCheckpoint(published.pop(0)))
            except NotFound:
                site.world.counts["a publication's pin is gone"] += 1
            except (*TRANSIENT, SnapshotExpired):
                continue

    return live
