"""What people wish of jobs under way: that a compactor leaves while it looks at segments, and that a job ends, under a
throttle, too. They have dice of their own, so that histories without them are as they were."""

import contextlib
import random

from lithify.compactor.request_edits import RequestCancel
from lithify.store.errors import InvalidRequest
from lithify.store.port import Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor, Violation
from tests.sim.places import files_of
from tests.sim.site import Site
from tests.sim.world import World

__all__ = ["Leaving", "canceller", "wish"]

CANCELLER_SHARE, THROTTLED_SHARE = 0.1, 0.6
RATES = (0.3, 1.0)  # in records a second: a wave is one key range, or a few
LEAVING_SHARE, LEAVES_SHARE = 0.15, 0.25  # of histories; of looks


def wish(site: Site, seed: int, *, always: bool = False) -> dict[str, Life]:
    dice = random.Random(f"{seed}/cancels")
    if dice.random() >= CANCELLER_SHARE and not always:
        return {}
    if dice.random() < THROTTLED_SHARE:
        site.config["compaction.throttle.bytes.per.second"] = str(int(dice.choice(RATES) * max(site.sizes)))
    return {"canceller": canceller(site)}


def canceller(site: Site) -> Life:
    """Has jobs cancelled that run."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(int(1 + actor.say.random() * 4) * site.rest(actor))
            with contextlib.suppress(*TRANSIENT, InvalidRequest):  # it has ended meanwhile
                files = files_of((await site.open()).keys)
                state = await files.compactor_state()
                running = [job.id for job in (() if state is None else state.jobs) if job.plan is not None]
                if running:
                    await Pause(int(actor.say.random() * 2 * site.rest_ms))
                    await files.compactor.commit(RequestCancel(actor.say.choice(running)))
                    site.world.counts["running job to be cancelled"] += 1

    return live


class Leaving:
    """Who is told to leave over a look at a segment: its step may end what it looks at, and looks at nothing more."""

    def __init__(self, world: World) -> None:
        self._world = world
        dice = random.Random(f"{world.seed}/stops")
        self._share = LEAVES_SHARE if dice.random() < LEAVING_SHARE else 0.0
        self._dice: dict[str, random.Random] = {}

    def looks(self, actor: Actor) -> None:
        author, told = actor.author, self._world.told_to_stop
        if author in self._world.told_over_a_look:
            raise Violation(f"{actor.name} was told to stop, and looks at one segment after the other (P12)")
        if not self._share or self._world.rested or author in told:
            return
        dice = self._dice.setdefault(actor.name, random.Random(f"{self._world.seed}/{actor.name}/stops"))
        if dice.random() < self._share:
            told.add(author)
            self._world.told_over_a_look.add(author)
            self._world.counts["told to stop over a look"] += 1

    def begins_tasks(self, actor: Actor) -> None:
        if actor.author in self._world.told_to_stop:
            raise Violation(f"{actor.name} was told to stop, and begins tasks (P12)")
