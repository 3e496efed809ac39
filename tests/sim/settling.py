"""How a partition comes to rest: compaction goes on until nothing is due, now and when all that ages has aged; then
collection, until nothing is left to collect. What it owes then, and what lies there, is judged (tests/sim/judge)."""

import random

from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.step import Step
from lithify.gc.collect import collect, sweep
from lithify.manifest.catalog import keep_bounds
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import LiftQuarantine
from lithify.store.port import Pause
from tests.sim.around import merges_around
from tests.sim.brought_back import all_comes_back
from tests.sim.cast import Actor, Violation
from tests.sim.damage import harm_a_segment, restore, rot_what_is_recorded
from tests.sim.engine import Engine
from tests.sim.hands import asks_by_hand, submit
from tests.sim.places import files_of
from tests.sim.site import Site
from tests.sim.truth import Truth

__all__ = ["Settler", "refuse", "settle"]

STEPS_UNTIL_IDLE_MAX = 200
STEPS_STOPPED = 3
PINS_EXPIRE_MS = 200_000
ALL_AGES_MS = 100_000  # longer than any lag, any time that tombstones stay, and any that records do, in these histories
PAUSE_MAX_MS = 600_000
GIVEN_UP_MS = 86_400_000 + PAUSE_MAX_MS  # RFC 0003: tried once more a day after the pause that the last failure began
AROUND_SHARE = 0.1
BROUGHT_BACK_SHARE = 0.5
PAUSED_SHARE, ASKED_SHARE, QUARANTINED_SHARE, ROT_SHARE = 0.2, 0.5, 0.15, 0.2


def refuse(wrong: str | None) -> None:
    if wrong is not None:
        raise Violation(wrong)


class Settler:
    def __init__(self, actor: Actor, site: Site, truth: Truth, config: TopicConfig) -> None:
        self.actor, self.site, self.truth = actor, site, truth
        self.goes_by(config)
        self.coordinator = Coordinator(files_of(truth.keys), "settler")

    def goes_by(self, config: TopicConfig) -> None:
        self.config = replace(config, compaction_paused=False)

    async def step(self, *, paused: bool = False) -> Step:
        return await self.step_by(replace(self.config, compaction_paused=paused))

    async def step_by(self, config: TopicConfig) -> Step:
        oracle = self.site.oracle
        oracle.begins(self.actor.author, paused=config.compaction_paused)
        oracle.may_take_over(self.actor.author, True)
        return await self.coordinator.step(config, take_over=True)

    async def while_stopped(self, *, paused: bool) -> None:
        """Nothing begins, however much is due."""
        for _ in range(STEPS_STOPPED):
            await self.step(paused=paused)
        self.site.world.counts["steps while stopped"] += STEPS_STOPPED

    async def until_idle(self) -> Step:
        for _ in range(STEPS_UNTIL_IDLE_MAX):
            step = await self.step()
            if step.outcome == "idle":
                break
            if step.outcome in ("waiting", "failed"):
                self.site.world.now_ms += 700_000
        else:
            self.truth.fail("compaction does not come to rest")
        return step


async def settle(actor: Actor, site: Site, truth: Truth) -> None:
    world, files = site.world, files_of(truth.keys)
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    world.now_ms += PINS_EXPIRE_MS + 2 * site.skew_ms
    if last.deleted:
        await files.manifest.commit(Seal())
    else:
        await _compact(Settler(actor, site, truth, parse(last.config)), files, last)
    for _ in range(4):
        await Pause(2 * site.grace_ms + 2_000)
        for passes in (collect, sweep):
            before = site.oracle.judge.stand(truth.keys.root)
            await passes(files, site.grace_ms)
            refuse(site.oracle.judge.left_by_a_pass(world.objects, truth.keys.root, before))


async def _compact(settler: Settler, files: PartitionFiles, last: TopicFile) -> None:
    world, truth, dice = settler.site.world, settler.truth, random.Random(f"{settler.site.world.seed}/judge at rest")
    if dice.random() < QUARANTINED_SHARE:
        await _meets_damage(settler)
    if truth.quarantined:
        await submit(files, await files.head())
        await settler.while_stopped(paused=False)
    restore(settler.site)
    await files.manifest.commit(LiftQuarantine())
    await keep_bounds(files, last)
    if dice.random() < PAUSED_SHARE:
        await settler.while_stopped(paused=True)
    rots = random.Random(f"{world.seed}/rots").random() < ROT_SHARE
    step = await (_until_idle_while_outputs_rot(settler) if rots else settler.until_idle())
    if "given up" in step.detail:
        world.counts["tried once more at rest"] += 1
        world.now_ms += GIVEN_UP_MS
        admitted = world.counts["job admitted"]
        step = await settler.until_idle()
        if world.counts["job admitted"] == admitted:
            truth.fail(f"what was given up is not tried once more after a day: {step.detail} (P14)")
    assert isinstance(world.engine, Engine)
    if world.engine.poison:
        return
    if "given up" in step.detail:
        truth.fail(f"what was given up in bad times is not done in good ones: {step.detail} (P14)")
    _owes_nothing(settler)
    if dice.random() < ASKED_SHARE:
        await asks_by_hand(files, dice)
        await settler.until_idle()
    for turn in range(2):  # what the first merges of them, it may stamp
        world.now_ms += ALL_AGES_MS
        await settler.until_idle()
        _owes_nothing(settler)
        if turn == 0 and _may_merge_around(settler) and random.Random(f"{world.seed}/around").random() < AROUND_SHARE:
            await merges_around(settler.actor, settler.site, files, settler.step_by)
    back = random.Random(f"{world.seed}/brought back")
    if truth.keys.partition == 0 and back.random() < BROUGHT_BACK_SHARE:
        await all_comes_back(settler.site, files, back, settler.goes_by, settler.until_idle)


def _may_merge_around(settler: Settler) -> bool:
    config, keys = settler.config, settler.site.keys
    only = config.compacted and not config.deleting
    return only and None not in keys[:2] and settler.truth.keys.partition == 0


async def _until_idle_while_outputs_rot(settler: Settler) -> Step:
    """What is recorded is damaged, a few times. Damage that the look before the commit does not see, which reads no
    whole object, is met by a later job; then it is mended as any other."""
    world = settler.site.world
    world.when_recorded = rot_what_is_recorded(settler.site, random.Random(f"{world.seed}/rot"))
    await settler.until_idle()
    world.when_recorded = None
    restore(settler.site)
    await files_of(settler.truth.keys).manifest.commit(LiftQuarantine())
    return await settler.until_idle()


async def _meets_damage(settler: Settler) -> None:
    """A segment is damaged, and a job reads it."""
    files = files_of(settler.truth.keys)
    harm_a_segment(settler.site, settler.actor)
    await submit(files, await files.head())
    for _ in range(STEPS_STOPPED):
        if not settler.truth.quarantined:
            await settler.step()


def _owes_nothing(settler: Settler) -> None:
    site, keys = settler.site, settler.truth.keys
    refuse(site.oracle.judge.owed(keys.root, keys.topic_id, site.world.now_ms))
    site.world.held("R3", "R4")
