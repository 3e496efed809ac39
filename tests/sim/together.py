"""Compactors of one partition at the end of a history, in a store that is well: two that do not fence each other, and
one that stands by until the owner is gone, and no longer (P5, docs/rfcs/0014)."""

import random
from dataclasses import replace as replaced

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.policy import Wait, decide
from lithify.manifest.catalog import alter_topic, live_topic, topic_lineage
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.reading import Reading
from tests.sim import actors, services
from tests.sim.alone import alone
from tests.sim.brought_back import STAYS
from tests.sim.cast import Actor, Climate
from tests.sim.daemon import daemon
from tests.sim.engine import Engine
from tests.sim.judge.leases import replaced_by_ms
from tests.sim.places import files_of
from tests.sim.schedule import Uniform
from tests.sim.site import TOPIC, Site
from tests.sim.truth import Truth
from tests.sim.working import working_together
from tests.sim.world import World

__all__ = ["together"]

TOGETHER_STEPS_MAX = 1_000
PASS_MS, READING_MS = 8_000, 20_000  # what they rest between passes; and the footer of one object takes, at most
SERVED_STEPS_MAX, SERVED_APPENDS = 1_200, 20
SERVED_PASS_MS, APPENDED_MS = 4_000, 6_000  # four times as long at most, and so within a lease
SERVED_SLOW_MS = 2_000
CLAIMS_MAX = 2
FENCED_MAX = 3  # in a row, with no job done, recorded or ended between
ROUND_MS = 4 * SERVED_PASS_MS + 1_000  # at most
SHARES = (0.09, 0.08, 0.06, 0.02, 0.08, 0.03, 0.64)  # of histories that end with each scene
RETIRING_APPENDS, RETIRING_MS, RETIRED_MS = 170, 1_400, 7_000
# Nothing else is due; where records are deleted, they must not stay hot for longer than that.
RETIRING = {"cleanup.policy": "delete", "retention.records": "3", "compaction.paused": "true"} | STAYS


def together(world: World, site: Site, truth: Truth) -> None:
    """One of the scenes, in some histories."""
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    config, engine, dice = parse(last.config), world.engine, random.Random(f"{world.seed}/together")
    assert isinstance(engine, Engine)
    if engine.poison:
        return  # between two attempts of a job that fails always, whoever comes may take it
    if truth.keys.partition:
        return  # its compactors keep to partition 0
    scene = dice.choices(SCENES, SHARES)[0]
    if scene is None or truth.head is None or truth.head.sealed:
        return
    if last.deleted:
        return  # its name may be another's by now
    if scene is _retiring_together:
        alone(world, lambda actor: _only_retention(site), "admin at rest")
    elif config.compaction_paused:
        return
    calm, world.scheduler = Climate(page_keys=1_000, tick_ms=2), Uniform(dice)
    climate, world.climate = world.climate, calm
    resting, site.rest_ms, reading, engine.reading_ms = site.rest_ms, PASS_MS, engine.reading_ms, READING_MS
    scene(world, site, truth, config)
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
        if isinstance(decide(Reading.of(truth.head, truth.ledger.state, config, world.now_ms)), Wait):
            break
        if done != (done := _done(truth)):
            before = world.counts["fenced"]  # who was idle loses the partition to who does the next thing: no harm
        if world.counts["fenced"] - before > FENCED_MAX:
            truth.fail("two compactors fence each other again and again (P5)")
    world.counts["compactors together"] += 1


def _services_together(world: World, site: Site, truth: Truth, config: TopicConfig) -> None:
    """Two that stand by from their start, and records that come now and then: whoever claims first keeps the partition,
    also while nothing is due. At the beginning both may find that its owner is gone."""
    site.rest_ms = SERVED_PASS_MS
    service = daemon(site, 0.0, None, 1.0, SERVED_SLOW_MS)
    _two_services(world, site, truth, service, SERVED_APPENDS, APPENDED_MS)
    world.counts["services together"] += 1


async def _only_retention(site: Site) -> None:
    topic = await live_topic(topic_lineage(TOPIC), TOPIC)
    await alter_topic(topic_lineage(TOPIC), topic, {**RETIRING}, None)


def _retiring_together(world: World, site: Site, truth: Truth, config: TopicConfig) -> None:
    """The same where retention alone is due, again and again: `.compactor` says nothing of what it does."""
    site.rest_ms = RETIRED_MS
    service = services.compactor(site, 0.0, stands_by=True)  # where no job runs there is nothing to relieve
    _two_services(world, site, truth, service, RETIRING_APPENDS, RETIRING_MS)
    world.counts["services retire together"] += 1


def _owner_gone(world: World, site: Site, truth: Truth, config: TopicConfig, *, left: bool = False) -> None:
    """Something is due, and who owned the partition is gone: who stands by begins, within a lease and its rounds; if
    the owner `left`, without the lease."""
    judge, root = site.oracle.judge, truth.keys.root
    assert truth.head is not None
    owes = judge.owed(root, truth.keys.topic_id, world.now_ms)
    if (
        not owes
        or truth.quarantined
        or isinstance(decide(Reading.of(truth.head, truth.ledger.state, config, world.now_ms)), Wait)
    ):
        return
    before, site.rest_ms = truth.head.compactor_epoch, SERVED_PASS_MS
    state = {"owner_name": "who left"} if left else judge.partition(root).state
    until_ms = replaced_by_ms(state, world.now_ms, ROUND_MS)
    world.start("standby", daemon(site, 0.0, None, 1.0, 0))
    while world.now_ms < until_ms and truth.head.compactor_epoch == before:
        world.run(5)
    if truth.head.compactor_epoch == before:
        truth.fail(f"{owes}, its owner is gone, and nobody begins (P5, RFC 0014)")
    world.counts["owner replaced"] += 1


def _owner_leaves(world: World, site: Site, truth: Truth, config: TopicConfig) -> None:
    """The same, after an owner that said so."""
    before = world.counts["left the partition"]
    alone(world, lambda actor: _leaves(site, actor), "who leaves")
    if world.counts["left the partition"] > before:
        _owner_gone(world, site, truth, config, left=True)


async def _leaves(site: Site, actor: Actor) -> None:
    """Does one thing, whoever is the owner, and leaves."""
    handle = await site.open()
    coordinator = Coordinator(files_of(handle.keys), actor.name)
    site.oracle.begins(actor.author)
    site.oracle.may_take_over(actor.author, True)
    await services.stepped(site, actor, coordinator, handle.config, True)
    if coordinator.owns:
        await coordinator.leave()
        site.world.counts["left the partition"] += 1


def _two_services(world: World, site: Site, truth: Truth, service: actors.Life, count: int, rest_ms: int) -> None:
    assert truth.head is not None
    before = truth.head.compactor_epoch
    appending = replaced(site, appends=count, rest_ms=rest_ms)
    appends = f"appends {world.counts['appending at rest']}"  # of several partitions, each its own
    world.counts["appending at rest"] += 1
    world.start(appends, actors.plain(appending))
    for number in range(2):
        world.start(f"service {number}", service)
    claimed = list[int]()  # the epochs that were seen since
    for _ in range(SERVED_STEPS_MAX // 50):
        world.run(50)
        claimed += [truth.head.compactor_epoch] * (truth.head.compactor_epoch > before)
        if claimed and (claimed[-1] - before > CLAIMS_MAX or claimed[-1] > claimed[:2][-1]):
            truth.fail("two services fence each other, although the owner comes within every lease (P5)")
        if not any(actor.name == appends for actor in world.actors):
            break


SCENES = (
    _compactors_together,
    _services_together,
    _owner_gone,
    _retiring_together,
    working_together,
    _owner_leaves,
    None,
)


def _done(truth: Truth) -> tuple[object, ...]:
    """What changes where the compactors of a partition come forward."""
    assert truth.head is not None
    jobs, history = (), ()
    if truth.ledger.state is not None:
        jobs, history = truth.ledger.state.jobs, truth.ledger.state.history
    ended, recorded = [job.id for job in history], [(job.id, len(job.done)) for job in jobs]
    return truth.head.log_start_offset, len(truth.head.retired), ended, recorded
