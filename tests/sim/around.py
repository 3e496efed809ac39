"""By hand, what lies around a source is merged first, and then that source alone: of a key of theirs the earlier record
is in neither run. So nothing that is left is the state of the log as of the second merge (R4, docs/rfcs/0017)."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from lithify.compactor.step import Step
from lithify.manifest.catalog import live_topic, topic_lineage
from lithify.manifest.config import LONG_MAX, TopicConfig, parse
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.units import units
from lithify.store.port import Now, Pause
from tests.sim.actors import send_once
from tests.sim.cast import Actor
from tests.sim.hands import submit
from tests.sim.rows import Row
from tests.sim.site import TOPIC, Site

__all__ = ["merges_around"]

Stepping = Callable[[TopicConfig], Awaitable[Step]]
APPENDS = "aba"  # the key of each, of the history's own
STEPS_MAX = 20
NEVER = 1_000  # L0 segments, or runs
AGES_MS = 20_000


async def merges_around(actor: Actor, site: Site, files: PartitionFiles, step: Stepping) -> None:
    """Requires: a live topic that is compacted, and at rest. `step`: of its compactor, by such a configuration."""
    topic = await live_topic(topic_lineage(TOPIC), TOPIC)
    config = replace(
        parse(topic.config),
        compaction_paused=False,
        l0_segments_tier=NEVER,
        runs_tier=NEVER,
        min_cleanable_dirty_ratio=1.0,
        max_compaction_lag_ms=LONG_MAX,
    )
    head = await files.head()
    await files.manifest.commit(RaiseFloor(head.next_offset))
    await _until_idle(step, config)
    handle = await site.open()
    for number, letter in enumerate(APPENDS):
        key = site.keys["ab".index(letter)]
        await send_once(site, files, handle, [Row(0, key, f"{actor.name}.around.{number}", False, await Now())])
    await Pause(AGES_MS)
    for places in ((0, 2), (0,)):
        found = units(await files.head())
        if len(found) <= places[-1] + 1 - len(places) // 2:
            return
        await submit(files, await files.head(), tuple(found[place].id for place in places))
        await _until_idle(step, config)
    site.world.counts["merged around a source"] += 1


async def _until_idle(step: Stepping, config: TopicConfig) -> None:
    for _ in range(STEPS_MAX):
        if (await step(config)).outcome == "idle":
            return
