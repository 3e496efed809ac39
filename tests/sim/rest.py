"""The end of a history: two compactors at once, then nobody but one who settles what is left; and all must be well."""

import random
from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

from lithify.compactor.policy import Wait, decide
from lithify.manifest.config import TopicConfig, parse
from lithify.store.port import Pause
from tests.sim import actors, services
from tests.sim.cast import Actor, Climate, Violation
from tests.sim.daemon import daemon
from tests.sim.damage import restore
from tests.sim.engine import Engine
from tests.sim.files import restore_files
from tests.sim.fullness import free_a_full_store
from tests.sim.schedule import Uniform
from tests.sim.settling import refuse, settle
from tests.sim.site import TOPIC, Site
from tests.sim.truth import Truth
from tests.sim.world import World

__all__ = ["alone", "rest"]

STEPS_OF_REST_MAX = 6_000
TOGETHER_SHARE = 0.25  # of histories that end with two compactors at once
TOGETHER_STEPS_MAX = 1_000
PASS_MS, READING_MS = 8_000, 20_000  # what they rest between passes; and the footer of one object takes, at most
SERVED_SHARE = 0.5  # of these two are services
SERVED_STEPS_MAX, SERVED_APPENDS = 1_200, 20
SERVED_PASS_MS, APPENDED_MS = 4_000, 6_000  # four times as long at most, and so within a lease
SERVED_SLOW_MS = 2_000
CLAIMS_MAX = 2
FENCED_MAX = 3  # in a row, with no job done, recorded or ended between


def rest(world: World, site: Site) -> None:
    """Everybody is gone and the store is well: what is left must come to rest, and be whole."""
    world.end_all()
    restore(site)
    restore_files(site)
    for truth in [*site.oracle.truths.values()]:
        if truth.head is None:
            continue
        if not site.oracle.announced(truth.keys):
            continue
        _together(world, site, truth)
        alone(world, lambda actor, truth=truth: free_a_full_store(actor, site, truth), "freeing", full=True)
        alone(world, lambda actor, truth=truth: settle(actor, site, truth), "settler")
        others = site.oracle.others
        names = [key for key in world.objects if key.startswith(truth.keys.segments) and key not in others]
        truth.check_at_rest(lambda names=names, truth=truth: [truth.keys.segment_id(name) or "" for name in names])
        refuse(site.oracle.judge.left_over(world.objects, truth.keys.root, others, world.now_ms))
    if site.topic_changes:
        alone(world, lambda actor: _sweep(site), "sweeper")
        _check_what_nobody_announced(site)
    refuse(site.oracle.judge.unaccounted(world.objects, TOPIC, site.oracle.others))


async def _sweep(site: Site) -> None:
    for _ in range(2):
        await Pause(2 * site.grace_ms + 2_000)
        await services.sweep_what_nobody_announced(site)


def _check_what_nobody_announced(site: Site) -> None:
    """Nothing of it is left, but what the next growth of the topic takes."""
    newest = site.oracle.topics[-1]
    for keys in (truth.keys for truth in site.oracle.truths.values() if not site.oracle.announced(truth.keys)):
        waits = not newest.deleted and keys.topic_id == newest.topic_id
        left = [key for key in site.world.objects if key.startswith(keys.root)]
        if left and not waits:
            raise Violation(f"{left[0]} was left behind: no version of the topic names its partition (P21)")
        site.world.held("P21")


def _together(world: World, site: Site, truth: Truth) -> None:
    """Two compactors, neither told to take over: while one plans or verifies, the other waits for it (P5)."""
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    config, engine, dice = parse(last.config), world.engine, random.Random(f"{world.seed}/together")
    assert isinstance(engine, Engine)
    if engine.poison:
        return  # between two attempts of a job that fails always, whoever comes may take it
    if truth.keys.partition:
        return  # its compactors keep to partition 0
    if dice.random() > TOGETHER_SHARE or config.compaction_paused or truth.head is None or truth.head.sealed:
        return
    calm, world.scheduler = Climate(page_keys=1_000, tick_ms=2), Uniform(dice)
    climate, world.climate = world.climate, calm
    resting, site.rest_ms, reading, engine.reading_ms = site.rest_ms, PASS_MS, engine.reading_ms, READING_MS
    if dice.random() < SERVED_SHARE:
        _services_together(world, site, truth)
    else:
        _compactors_together(world, site, truth, config)
    world.held("P5")
    world.end_all()
    world.climate, site.rest_ms, engine.reading_ms = climate, resting, reading


def _compactors_together(world: World, site: Site, truth: Truth, config: TopicConfig) -> None:
    before, done = world.counts["fenced"], _done(truth)
    for number in range(2):
        world.start(f"daemon {number}", services.compactor(site, 0.0))
    for _ in range(TOGETHER_STEPS_MAX // 50):
        world.run(50)
        assert truth.head is not None
        if isinstance(decide(truth.head, truth.ledger.state, config, world.now_ms), Wait):
            break
        if done != (done := _done(truth)):
            before = world.counts["fenced"]  # who was idle loses the partition to who does the next thing: no harm
        if world.counts["fenced"] - before > FENCED_MAX:
            truth.fail("two compactors fence each other again and again (P5)")
    world.counts["compactors together"] += 1


def _services_together(world: World, site: Site, truth: Truth) -> None:
    """Two that stand by from their start, and records that come now and then: whoever claims first keeps the partition,
    also while nothing is due. At the beginning both may find that its owner is gone."""
    assert truth.head is not None
    before, site.rest_ms = truth.head.compactor_epoch, SERVED_PASS_MS
    appending = replaced(site, appends=SERVED_APPENDS, rest_ms=APPENDED_MS)
    appends = f"appends {world.counts['services together']}"  # of several partitions, each its own
    world.start(appends, actors.plain(appending))
    for number in range(2):
        world.start(f"service {number}", daemon(site, 0.0, None, 1.0, SERVED_SLOW_MS))
    for _ in range(SERVED_STEPS_MAX // 50):
        world.run(50)
        if truth.head.compactor_epoch - before > CLAIMS_MAX:
            truth.fail("two services fence each other, although the owner comes within every lease (P5)")
        if not any(actor.name == appends for actor in world.actors):
            break
    world.counts["services together"] += 1


def _done(truth: Truth) -> tuple[object, ...]:
    """What changes where the compactors of a partition come forward."""
    assert truth.head is not None
    jobs, history = (), ()
    if truth.ledger.state is not None:
        jobs, history = truth.ledger.state.jobs, truth.ledger.state.history
    ended, recorded = [job.id for job in history], [(job.id, len(job.done)) for job in jobs]
    return truth.head.log_start_offset, len(truth.head.retired), ended, recorded


def alone(world: World, live: Callable[[Actor], Any], name: str, *, full: bool = False) -> None:
    """Runs one actor, and the workers it starts, in a world where nothing goes wrong, but that it may be `full`."""
    climate, scheduler, trace = world.climate, world.scheduler, world.trace
    spells = ((0, 2**63),) if full else ()
    world.climate = Climate(page_keys=1_000, tick_ms=2, full_spells=spells)
    world.scheduler = Uniform(random.Random(0))
    before = len(world.actors)
    assert before == 0, "nobody else is there"
    world.start(name, live)
    world.run(STEPS_OF_REST_MAX)
    if world.actors:
        raise Violation(f"{name} came to no end: {[actor.name for actor in world.actors]}")
    world.climate, world.scheduler, world.trace = climate, scheduler, trace
