"""Damage that comes over segments, live ones and outputs that are recorded and not yet committed; and its repair."""

import random
from collections.abc import Callable

from lithify.store.port import Pause
from tests.sim.actors import Life
from tests.sim.cast import Actor
from tests.sim.harms import Harm
from tests.sim.site import Site
from tests.sim.truth import Truth

__all__ = ["harm_a_segment", "restore", "rot", "rot_what_is_recorded"]

AT_ONCE_MAX = 2
SOON_SHARE, RECORDED_MAX = 0.4, 3  # of the writes that record outputs, those that harm one


def harm_a_segment(site: Site, actor: Actor) -> None:
    """In each partition perhaps one: of those that a job is about to read, or that the next one will, or any."""
    for truth in site.oracle.truths.values():
        there = [s for s in _about_to_be_read(truth, actor.say.random()) if truth.keys.segment(s) in site.world.objects]
        if there and sum(truth.keys.segment(s) in site.world.objects for s in truth.harms.now) < AT_ONCE_MAX:
            _harm(site, truth, actor.say.choice(there), actor.say.random(), removes=False)


def _about_to_be_read(truth: Truth, draw: float) -> list[str]:
    jobs = () if truth.ledger.state is None else truth.ledger.state.jobs
    held = [segment_id for job in jobs if job.status == "in_progress" for segment_id in job.segments]
    if held and draw < 0.6:
        return held
    if truth.head is None or draw < 0.1:
        return [*truth.contents.stored]
    return [ref.id for ref in (truth.head.l0 if draw < 0.8 else truth.head.segments())]


def rot(site: Site) -> Life:
    """Outputs that are recorded and not yet committed are damaged, or lost."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(site.rest(actor) // 6)
            if actor.say.random() < 0.5 and _harm_an_output(site, actor.say):
                await Pause(4 * site.rest(actor))

    return live


def rot_what_is_recorded(site: Site, say: random.Random) -> Callable[[], None]:
    """The same as soon as a write has recorded some, a few times."""
    left = RECORDED_MAX

    def soon() -> None:
        nonlocal left
        if left and say.random() < SOON_SHARE and _harm_an_output(site, say):
            left -= 1

    return soon


def _harm_an_output(site: Site, say: random.Random) -> bool:
    for truth in site.oracle.truths.values():
        recorded = [s for s in truth.ledger.recorded() if s not in truth.harms.now]
        there = [s for s in recorded if truth.keys.segment(s) in site.world.objects]
        if there:
            _harm(site, truth, say.choice(there), say.random(), removes=True)
            return True
    return False


def _harm(site: Site, truth: Truth, segment_id: str, draw: float, *, removes: bool) -> None:
    key = truth.keys.segment(segment_id)
    body, at_ms = site.world.objects[key]
    was = truth.harms.now.get(segment_id)
    shows = draw < 0.5 or (was is not None and was.shows)
    home = site.world.store.places.get(key, "")
    truth.harms.begin(segment_id, Harm(body if was is None else was.body, site.world.steps, shows, home))
    half = len(body) // 2
    if removes and draw < 0.25:
        site.world.store.lose(key)
    else:
        broken = body[:half] if draw < 0.5 else body[:half] + bytes([body[half] ^ 1]) + body[half + 1 :]
        site.world.objects[key] = (broken, at_ms)
    site.world.counts["damaged: recorded" if removes else "damaged"] += 1


def restore(site: Site) -> None:
    """What is live is restored from a copy, and brought back where it is lost; of an output that no manifest has, there
    is none."""
    for truth in site.oracle.truths.values():
        recorded = truth.ledger.recorded()
        live = set[str]() if truth.head is None else truth.named_at_rest()
        for segment_id, harm in [*truth.harms.now.items()]:
            key = truth.keys.segment(segment_id)
            if key in site.world.objects and segment_id not in recorded:
                site.world.objects[key] = (harm.body, site.world.objects[key][1])
            elif segment_id in live:
                site.world.store.store(key, harm.body, harm.home)
            else:
                continue
            truth.restored(segment_id)
