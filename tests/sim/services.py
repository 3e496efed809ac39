"""Those who keep a partition: compactors, collectors, admins, retention, the catalog, and who mends what is damaged."""

import contextlib
import random
from collections.abc import Mapping

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.request_edits import RequestCancel
from lithify.compactor.step import Step
from lithify.gc.collect import collect, collect_deleted, sweep
from lithify.gc.lives import Lives
from lithify.gc.unannounced import sweep_unannounced
from lithify.manifest.catalog import (
    RETENTION_KEYS,
    alter_topic,
    create_topic,
    delete_topic,
    keep_bounds,
    live_topic,
    partition_keys,
    topic_lineage,
)
from lithify.manifest.config import TopicConfig
from lithify.manifest.ended import Known, Marks
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.jobs import Job
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import LiftQuarantine
from lithify.manifest.retention import KEEP_ALL, Retention, retention_of
from lithify.manifest.units import units
from lithify.store.errors import AlreadyExists, CommitUnknown, Fenced, InvalidRequest, OffsetOutOfRange
from lithify.store.port import Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor, Violation
from tests.sim.damage import harm_a_segment, restore
from tests.sim.dawdling import dawdling
from tests.sim.hands import submit
from tests.sim.places import files_of
from tests.sim.site import TOPIC, Handle, Site

__all__ = [
    "admin",
    "catalog",
    "collector",
    "compactor",
    "opened",
    "operator",
    "retention",
    "stepped",
    "sweep_what_nobody_announced",
]

PARTITIONS = 4  # that a topic grows to
NARROWER = (
    {"retention.records": "8"},
    {"retention.records": "2", "cleanup.policy": "compact,delete"},
    {"retention.records": "-1", "retention.ms": "2000"},
    {"retention.bytes": "2400"},
    {"retention.ms": "500", "cleanup.policy": "compact,delete"},
)
WIDER = (
    {"retention.ms": "-1", "retention.bytes": "-1", "retention.records": "-1"},
    {"retention.ms": "-1", "retention.records": "30"},
    {"retention.bytes": None, "retention.ms": "30000"},
)
KEEPING = (  # keeps what a job under way may be about to drop
    {"cleanup.policy": "delete"},
    {"cleanup.policy": "compact", "min.compaction.lag.ms": "30000"},
    {"delete.retention.ms": "20000"},
)
AT_ITS_END_SHARE = 0.5
UNDER_A_JOB_SHARE = 0.5  # of deletions
# Bounds are all that manifests know of a configuration.
BESIDES: tuple[dict[str, str], ...] = ({}, {"retention.records": "25"}, {"retention.records": "40"})
DROPPING = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0", "delete.retention.ms": "200"}
ALTERATIONS = (
    *NARROWER,
    *WIDER,
    {"cleanup.policy": "compact,delete"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "delete"},
    {"cleanup.policy": "compact", "min.compaction.lag.ms": "3000"},
    {"min.compaction.lag.ms": "0"},
    {"delete.retention.ms": "0"},
    {"delete.retention.ms": "20000"},
    {"compaction.throttle.bytes.per.second": "2000"},
    {"compaction.throttle.bytes.per.second": "-1"},
    {"compaction.paused": "true"},
    {"compaction.paused": "false"},
)


def compactor(site: Site, take_over_share: float, *, stands_by: bool = False) -> Life:
    """A process that compacts. Fenced, it ends, and its supervisor starts another."""

    async def live(actor: Actor) -> None:
        handle, coordinator, resting = await opened(site, actor), None, False
        while True:
            try:
                site.oracle.begins(actor.author)
                config = await handle.fresh()
                if coordinator is None:
                    handle = await site.open()
                    config = handle.config
                    coordinator = Coordinator(files_of(handle.keys), actor.name, stands_by=stands_by)
                if resting and not await coordinator.changed() and await coordinator.still_waits(config) is not None:
                    await Pause(site.rest(actor))
                    continue
                await keep_bounds(coordinator.files, handle.topic)
                take_over = site.oracle.may_take_over(actor.author, actor.say.random() < take_over_share)
                step = await stepped(site, actor, coordinator, config, take_over)
                site.world.counts[f"step: {step.outcome}"] += 1
                resting = step.outcome in ("idle", "waiting")
                if step.outcome != "worked":
                    await Pause(site.rest(actor))
                if step.detail == "the topic was deleted":
                    coordinator = None
            except Fenced:
                site.world.counts["fenced"] += 1
                site.oracle.anew(actor.author)
                coordinator = None
                await Pause(site.rest(actor))
            except TRANSIENT as error:
                site.world.counts[f"compactor met {type(error).__name__}"] += 1
                await Pause(site.rest(actor))

    return live


async def stepped(
    site: Site, actor: Actor, coordinator: Coordinator, config: TopicConfig, take_over: bool = False
) -> Step:
    """A step, and whoever watches hears where its outcome is unknown."""
    try:
        return await coordinator.step(config, take_over)
    except CommitUnknown:
        site.oracle.unanswered(actor.author, coordinator.files.keys)
        raise


async def opened(site: Site, actor: Actor) -> Handle:
    while True:
        with contextlib.suppress(*TRANSIENT):
            return await site.open()
        await Pause(site.rest(actor))


def collector(site: Site, sweep_share: float) -> Life:
    """What the collector's shell does in a pass. A topic that does not change is looked for once."""

    async def live(actor: Actor) -> None:
        files: dict[PartitionKeys, PartitionFiles] = {}
        known, lives, topics = Known(), Lives(TOPIC, 0), list[TopicFile]()
        while True:
            await Pause(site.rest(actor))
            try:
                awake = {TOPIC: Marks()}
                if site.topic_changes:
                    awake, resting = await known.topics(anew=actor.say.random() < sweep_share)
                    if resting:
                        site.world.counts["topic at rest"] += 1
                        files, lives = {}, Lives(TOPIC, 0)
                if TOPIC in awake and (not topics or site.topic_changes):
                    topics = await lives.refresh()
                for topic in topics if TOPIC in awake else ():
                    for keys in partition_keys(topic):
                        await _collected(site, actor, files, lives, keys, topic.deleted, sweep_share)
                if TOPIC in awake and site.topic_changes:
                    await lives.say_what_is_over(awake[TOPIC])
                if site.topic_changes and actor.say.random() < sweep_share:
                    await sweep_what_nobody_announced(site)
            except TRANSIENT:
                continue

    return live


async def _collected(
    site: Site,
    actor: Actor,
    known: dict[PartitionKeys, PartitionFiles],
    lives: Lives,
    keys: PartitionKeys,
    deleted: bool,
    sweep_share: float,
) -> None:
    sweeps = actor.say.random() < sweep_share
    if lives.is_finished(keys) and not sweeps:
        return
    files = known.setdefault(keys, files_of(keys))
    done = await (collect_deleted if deleted else collect)(files, site.grace_ms)
    site.world.counts["collected"] += 1
    if done.finished:
        lives.finished(keys)
    if sweeps:
        await dawdling(site, actor, files, sweep(files, site.grace_ms))
        site.world.counts["swept"] += 1


async def sweep_what_nobody_announced(site: Site) -> None:
    for swept in await sweep_unannounced(TOPIC, site.grace_ms):
        if not swept.used:
            continue
        if not site.oracle.announced(swept.keys):
            raise Violation(f"{swept.keys.root}: nobody announced this partition, and somebody wrote there (P21)")
        await collect_deleted(files_of(swept.keys), site.grace_ms)  # announced since, and deleted again
        site.world.counts["sealed while a sweep looked"] += 1


def admin(site: Site) -> Life:
    async def live(actor: Actor) -> None:
        say = actor.say
        while True:
            await Pause(2 * site.rest(actor))
            try:
                files = files_of((await site.open()).keys)
                manifest = await files.head()
                ids = [s.id for s in manifest.l0] + [r.id for r in manifest.runs]
                wanted = tuple(say.sample(ids, min(len(ids), 2))) if ids and say.random() < 0.4 else ()
                found = units(manifest)
                if len(found) > 2 and say.random() < 0.4:  # from the bottom, around what lies between
                    wanted = found[0].id, found[-1].id
                if say.random() < 0.7:
                    await submit(files, manifest, wanted)
                state = await files.compactor_state()
                if state is not None and state.jobs and say.random() < 0.5:
                    await Pause(int(say.random() * site.rest_ms))
                    with contextlib.suppress(InvalidRequest):  # it has ended meanwhile
                        await files.compactor.commit(RequestCancel(say.choice(state.jobs).id))
            except TRANSIENT:
                continue

    return live


async def _asks_for_all(site: Site) -> None:
    with contextlib.suppress(*TRANSIENT):
        files = files_of((await site.open()).keys)
        await submit(files, await files.head())


def retention(site: Site, alters: bool) -> Life:
    """Deletes records by hand, and alters the topic: what is kept, wider or narrower, how long, and how compaction goes
    about it. Whatever others are about to do, they began it under another configuration."""

    async def live(actor: Actor) -> None:
        say = actor.say
        while True:
            await Pause((1 if alters else 3) * site.rest(actor))
            try:
                handle = await site.open()
                files = files_of(handle.keys)
                if not alters or say.random() < 0.2:
                    head = await files.head()
                    before = head.log_start_offset + say.randrange(4)
                    await files.manifest.commit(RaiseFloor(before))
                    continue
                if alters and say.random() < 0.4:
                    await _alter_under_a_job(site, actor, handle)
                    continue
                for change in _changes(say, retention_of(handle.config)):
                    altered = await alter_topic(topic_lineage(TOPIC), handle.topic, {**change}, None)
                    if RETENTION_KEYS & change.keys():
                        site.oracle.altered(altered)
            except (*TRANSIENT, OffsetOutOfRange, InvalidRequest):
                continue

    return live


def _changes(say: random.Random, kept: Retention) -> list[Mapping[str, str | None]]:
    """There and back: what one undoes, others began under; and at once, before anybody has heard of it."""
    if say.random() < 0.5:
        return [say.choice(NARROWER), say.choice(WIDER)]
    likely = NARROWER if kept == KEEP_ALL else WIDER
    return [say.choice(likely if say.random() < 0.5 else ALTERATIONS)]


async def _alter_under_a_job(site: Site, actor: Actor, handle: Handle) -> None:
    """Alters what compaction keeps once a job is under way, or is done and about to commit, and back later."""
    await _until_a_job_runs(site, actor, handle.keys)
    for change in (actor.say.choice(KEEPING) | actor.say.choice(BESIDES), DROPPING):
        await alter_topic(topic_lineage(TOPIC), (await site.open()).topic, {**change}, None)
        await Pause(site.rest(actor))


async def _until_a_job_runs(site: Site, actor: Actor, keys: PartitionKeys) -> None:
    """Or is done, and about to commit. Not for long."""
    ledger, at_its_end = site.oracle.truth(keys).ledger, actor.say.random() < AT_ITS_END_SHARE
    for _ in range(40):
        if ledger.state is not None and any(_has_come_to(job, at_its_end) for job in ledger.state.jobs):
            break
        await Pause(site.rest(actor) // (20 if at_its_end else 8))


def _has_come_to(job: Job, its_end: bool) -> bool:
    return job.plan is not None and (not its_end or len(job.done) == len(job.plan.ranges))


def catalog(site: Site) -> Life:
    """Deletes the topic, and makes one of the same name; or grows it. Two of them race each other."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(10 * site.rest(actor))
            lineage = topic_lineage(TOPIC)
            if actor.say.random() < 0.4:
                with contextlib.suppress(*TRANSIENT, InvalidRequest):  # somebody else made it grow further
                    topic = await live_topic(lineage, TOPIC)
                    await alter_topic(lineage, topic, {}, actor.say.randint(topic.partitions, PARTITIONS))
                continue
            with contextlib.suppress(*TRANSIENT):
                topic = await live_topic(lineage, TOPIC)
                if actor.say.random() < UNDER_A_JOB_SHARE:
                    await _until_a_job_runs(site, actor, partition_keys(topic)[0])
                await delete_topic(lineage, topic)
            await Pause(actor.say.choice((1, 1, 20)) * site.rest(actor))  # time enough to collect what was
            with contextlib.suppress(*TRANSIENT, AlreadyExists):
                made = await create_topic(topic_lineage(TOPIC), TOPIC, 1, site.config)
                if made.deleted:
                    raise Violation(f"topic {made.topic_id} is created, and deleted already (P21)")

    return live


def operator(site: Site) -> Life:
    """Damage comes over a segment; somebody restores it, and lifts the quarantine."""

    async def live(actor: Actor) -> None:
        say = actor.say
        while True:
            await Pause(site.rest(actor) // 2)
            harm_a_segment(site, actor)
            if say.random() < 0.7:
                await _asks_for_all(site)  # so that it is read soon
            for _ in range(int(say.random() * 60)):
                if any(truth.quarantined for truth in site.oracle.truths.values()):
                    break
                await Pause(site.rest(actor))
            restore(site)
            with contextlib.suppress(*TRANSIENT):
                await files_of((await site.open()).keys).manifest.commit(LiftQuarantine())

    return live
