"""An owner that has always something to do, and one who stands by: at each look of that one something is due, and no
lease passes in which the owner shows no life. It stays the owner, also after a pause, and where the clock of who stands
by steps back and is set right (P5, docs/rfcs/0014)."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace as replaced

from lithify.manifest.catalog import alter_topic, live_topic, topic_lineage
from lithify.manifest.config import TopicConfig
from lithify.store.port import Pause
from tests.sim import actors, services
from tests.sim.alone import alone
from tests.sim.cast import STORES_DIFFER_MS, Actor
from tests.sim.engine import Engine
from tests.sim.site import TOPIC, Site
from tests.sim.truth import Truth
from tests.sim.world import World

__all__ = ["working_together"]

ALWAYS_DUE = {
    "min.cleanable.dirty.ratio": "0",
    "min.compaction.lag.ms": "0",
    "compaction.throttle.bytes.per.second": "-1",
}
STEPS_MAX = 1_500
OWNER, STANDBY = "owner", "standby"
PASS_MS, APPENDED_MS, READING_MS = 4_000, 1_400, 200  # the first two four times as long at most
PAUSED_MS, SERVED_MS = 45_000, 12_000  # half as long at least; the first longer than a lease, as a rule
STEPS_SHARE = 0.5
STEPS_BACK_MS = 8_000  # with what passes between two looks of the owner less than a lease


def working_together(world: World, site: Site, truth: Truth, config: TopicConfig) -> None:
    dice, engine = random.Random(f"{world.seed}/working together"), world.engine
    assert isinstance(engine, Engine)
    if not config.compacted or truth.quarantined:
        return
    if truth.ledger.state is not None and truth.ledger.state.failures:
        world.counts["nobody works together: failures rest"] += 1  # what was given up is tried again a day later (P14)
        return
    alone(world, lambda actor: _set(ALWAYS_DUE), "admin at rest")
    happens = dice.choice(("nothing", "pauses", "pauses", "clock", "clock"))
    changes, site.topic_changes = site.topic_changes, happens == "pauses"
    engine.reading_ms, site.rest_ms = READING_MS, PASS_MS
    world.start("appends", actors.plain(replaced(site, appends=STEPS_MAX, rest_ms=APPENDED_MS)))
    world.start(OWNER, services.compactor(site, 0.0))
    for _ in range(STEPS_MAX // 50):
        world.run(50)
        if truth.ledger.state is not None and truth.ledger.state.owner_name == OWNER:
            break
    else:
        truth.fail("somebody is there, and does not begin (P5)")
    assert truth.head is not None
    epoch = truth.head.compactor_epoch
    world.start(STANDBY, services.compactor(site, 0.0, stands_by=True))
    if happens == "pauses":
        world.start("pauser", _pauses)
    clock = _clock_that_steps(world, dice) if happens == "clock" else iter(())
    for _ in range(STEPS_MAX // 25):
        world.run(25)
        if truth.head.compactor_epoch > epoch:
            truth.fail("an owner is at work whenever something is due, and is fenced (P5, RFC 0014)")
        next(clock, None)
    site.topic_changes = changes
    world.counts[f"worked beside a standby: {happens}"] += 1


async def _set(config: Mapping[str, str | None]) -> None:
    topic = await live_topic(topic_lineage(TOPIC), TOPIC)
    await alter_topic(topic_lineage(TOPIC), topic, {**config}, None)


async def _pauses(actor: Actor) -> None:
    while True:
        await Pause(SERVED_MS)
        await _set({"compaction.paused": "true"})
        await Pause(PAUSED_MS)
        await _set({"compaction.paused": None})


def _clock_that_steps(world: World, dice: random.Random) -> Iterator[None]:
    """The clock of who stands by, which writes nothing; the others' are right."""
    world.climate = replaced(world.climate, skew_ms=STORES_DIFFER_MS + 1)
    for actor in world.actors:
        actor.skew_ms = 0
    while True:
        for actor in world.actors:
            if actor.name == STANDBY and dice.random() < STEPS_SHARE:
                actor.skew_ms = -STEPS_BACK_MS - actor.skew_ms
        yield
