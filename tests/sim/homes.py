"""Those who move a partition's segments to other homes and back, and what becomes of these homes meanwhile: they are
away, far, refuse who asks, or are another warehouse's (docs/rfcs/0031)."""

import contextlib
import random
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from lithify.admin.homes import ask
from lithify.compactor.request_edits import Submit
from lithify.manifest.catalog import alter_topic, topic_lineage
from lithify.manifest.homes import HERE
from lithify.manifest.jobs import Job
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.store.errors import AlreadyExists, InvalidRequest
from lithify.store.port import NewId, Now, Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor, Spell
from tests.sim.places import CLASS, COLD, COLDER, files_of
from tests.sim.site import TOPIC, Handle, Site

__all__ = ["climate_of", "homes_of"]

MOVES_MAX = ("lithify.manifest.cold.RELOCATE_MAX",)
HOMES_MAX = ("lithify.manifest.cold.HOMES_MAX", "lithify.manifest.relocations.HOMES_MAX")
OTHERS_SHARE = 0.05  # of histories in which a place is another warehouse's
NOWHERE = {"cold.location": "", "cold.storage.class": ""}
SETTINGS: dict[str, dict[str, str]] = {
    HERE: NOWHERE,
    COLD: NOWHERE | {"cold.location": COLD},
    COLDER: NOWHERE | {"cold.location": COLDER},
    CLASS: NOWHERE | {"cold.storage.class": CLASS.partition(":")[2]},
}
BOUNDS = {
    "local.retention.ms": ("0", "500", "3000", "20000", "-2"),
    "local.retention.bytes": ("-2", "-2", "0", "1200", "4000"),
    "hot.retain.segments": ("0", "0", "1", "4"),
}


def climate_of(seed: int, length: int) -> dict[str, Any]:
    dice = random.Random(f"{seed}/homes away")
    spells: list[Spell] = []
    for home in (COLD, COLDER):
        for _ in range(dice.choice((0, 1, 2, 3))):
            first = dice.randrange(length)
            spells.append(Spell(first, first + dice.randrange(20, 600), home, dice.random() < 0.3))
    return {"homes": tuple(spells), "far_ms": dice.choice((0, 0, 500, 20_000))}


def homes_of(site: Site, seed: int, stack: ExitStack) -> dict[str, Life]:
    """Those who take part; what the topic is set to before it is created."""
    dice = random.Random(f"{seed}/homes")
    judge = site.oracle.judge
    judge.moves_max, judge.homes_max = dice.choice((64, 64, 2, 1)), dice.choice((8, 8, 1))
    for names, value in ((MOVES_MAX, judge.moves_max), (HOMES_MAX, judge.homes_max)):
        for name in names:
            stack.enter_context(patch(name, value))
    if dice.random() < OTHERS_SHARE:
        site.world.store.of_others.add(COLD)
        judge.others.add(COLD)
    site.config |= SETTINGS[dice.choice((HERE, COLD, COLD, COLD, COLDER, CLASS))]
    site.config |= {name: dice.choice(values) for name, values in BOUNDS.items()}
    found: dict[str, Life] = {}
    if dice.random() < 0.7:
        found["mover"] = mover(site)
    if dice.random() < 0.7:
        found["homes altered"] = altered(site)
    return found


def mover(site: Site) -> Life:
    """Asks that everything be moved, or brought back. Whoever asks names the topic's home, or one of long ago."""

    async def live(actor: Actor) -> None:
        say = actor.say
        while True:
            await Pause(int(1 + say.random() * 6) * site.rest(actor))
            with contextlib.suppress(*TRANSIENT):
                handle = await site.open()
                files = files_of(handle.keys)
                head = await files.head()
                home = say.choice((HERE, HERE, handle.config.cold_home, *head.homes, COLD))
                if home == HERE and say.random() < 0.7:
                    await recall(site, files, handle)
                    continue
                job_id = SegmentId.for_job(head.id, await NewId())
                job = Job(
                    id=job_id,
                    kind="relocate",
                    status="submitted",
                    origin="manual",
                    home=home,
                    created_at_ms=await Now(),
                )
                await files.compactor.commit(Submit(first_state(head), job))
                site.world.counts["move asked for" if home else "recall asked for"] += 1

    return live


async def recall(site: Site, files: PartitionFiles, handle: Handle) -> None:
    """The judge is told what was answered: whoever gave the homes up relies on it."""
    try:
        job = (await ask(files, handle.config, HERE)).id
    except AlreadyExists:
        return
    except InvalidRequest:
        job = None  # everything is here
    head = files.manifest.seen.value
    assert head is not None
    site.oracle.judge.recalled(handle.keys.root, head.config_at, job)
    site.world.counts["recall asked for" if job else "recall of nothing asked for"] += 1


def altered(site: Site) -> Life:
    """The topic gets another cold home, or none, or other bounds of what is hot."""

    async def live(actor: Actor) -> None:
        say = actor.say
        while True:
            await Pause(int(2 + say.random() * 8) * site.rest(actor))
            with contextlib.suppress(*TRANSIENT, InvalidRequest):
                topic = (await site.open()).topic
                if say.random() < 0.5:
                    change = SETTINGS[say.choice((HERE, HERE, COLD, COLD, COLDER, CLASS))]
                else:
                    name = say.choice(tuple(BOUNDS))
                    change = {name: say.choice(BOUNDS[name])}
                await alter_topic(topic_lineage(TOPIC), topic, {**change}, None)
                site.world.counts["homes altered"] += 1

    return live
