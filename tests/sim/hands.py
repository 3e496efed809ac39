"""What people do to a topic beside all else: they pause it, set what is rarely set, and ask for compactions by hand. It
has dice of its own, so that histories are otherwise as they were."""

import contextlib
import random

from lithify.compactor.request_edits import Submit
from lithify.manifest.catalog import alter_topic, topic_lineage
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.jobs import Job
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.manifest.units import units
from lithify.store.port import NewId, Now, Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor
from tests.sim.site import TOPIC, Site

__all__ = ["asks_by_hand", "others_of", "submit"]

NO_LAG = str(2**63 - 1)
SHORT_LAG = "3000"
PAUSER_SHARE = 0.12
CONVERTER_SHARE = 0.06
NOT_THERE = "000000000001-0123456789abcdef"


def others_of(site: Site, seed: int) -> dict[str, Life]:
    """Those who take part beside the roster; what the topic is set to before it is created."""
    dice = random.Random(f"{seed}/judge")
    pauses = dice.random() < PAUSER_SHARE
    site.config |= {
        "max.compaction.lag.ms": dice.choice((NO_LAG, NO_LAG, NO_LAG, "40000", "40000" if pauses else SHORT_LAG)),
        "segment.bytes": dice.choice((str(2**30), str(2**30), str(2**30), "1600")),
    }
    if site.topic_changes:  # the lag may be raised
        site.config["max.compaction.lag.ms"] = max(site.config["max.compaction.lag.ms"], "40000", key=int)
    if site.config["max.compaction.lag.ms"] != NO_LAG and dice.random() < 0.6:
        site.config["min.cleanable.dirty.ratio"] = "1"  # nothing but its age makes a clean due
    if dice.random() < 0.25:
        site.config["delete.retention.ms"] = "60000"  # several cleans meet the same tombstones
    if dice.random() < 0.2 and site.config["max.compaction.lag.ms"] != SHORT_LAG:
        site.config["min.compaction.lag.ms"] = "8000"  # most of a log is young
    others = {"pauser": pauser(site)} if pauses else {}
    if random.Random(f"{seed}/order").random() < CONVERTER_SHARE:
        site.config |= {"cleanup.policy": "delete", "compaction.output.bytes": "1024"}
        others["converter"] = converter(site)
    site.topic_changes = site.topic_changes or bool(others)
    return others


def pauser(site: Site) -> Life:
    """Stops compaction for a while, again and again."""

    async def live(actor: Actor) -> None:
        while True:
            for paused in ("true", None):
                await Pause(int(1 + actor.say.random() * 12) * site.rest(actor))
                with contextlib.suppress(*TRANSIENT):
                    topic = (await site.open()).topic
                    await alter_topic(topic_lineage(TOPIC), topic, {"compaction.paused": paused}, None)
                    site.world.counts["pause altered"] += 1

    return live


def converter(site: Site) -> Life:
    """Has a log compacted that was not, when there are runs of several segments: all of it is to be sorted by key."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(int(10 + actor.say.random() * 30) * site.rest(actor))
            with contextlib.suppress(*TRANSIENT):
                topic = (await site.open()).topic
                policy: dict[str, str | None] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
                await alter_topic(topic_lineage(TOPIC), topic, policy, None)
                site.world.counts["compacted from now on"] += 1
                return

    return live


async def submit(files: PartitionFiles, head: Manifest, requested: tuple[str, ...] = ()) -> None:
    job_id = SegmentId.for_job(head.id, await NewId())
    job = Job(id=job_id, status="submitted", origin="manual", requested=requested, created_at_ms=await Now())
    await files.compactor.commit(Submit(first_state(head), job))


async def asks_by_hand(files: PartitionFiles, dice: random.Random) -> None:
    """For everything, for one source, for several, or for one that is not there; often after records were deleted."""
    head = await files.head()
    names = [unit.id for unit in units(head)]
    wanted = dice.choice(((), tuple(names[:1]), tuple(dice.sample(names, min(len(names), 2))), (NOT_THERE,)))
    if dice.random() < 0.5:
        await files.manifest.commit(RaiseFloor(dice.randint(head.log_start_offset, head.next_offset)))
        wanted = ()
    await submit(files, head, wanted)
