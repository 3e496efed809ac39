"""The end of a history: two compactors at once, then nobody but one who settles what is left; and all must be well."""

from lithify.store.port import Pause
from tests.sim import services
from tests.sim.alone import alone
from tests.sim.away import goes_on_while_homes_are_away
from tests.sim.cast import Violation
from tests.sim.damage import restore
from tests.sim.files import restore_files
from tests.sim.fullness import free_a_full_store
from tests.sim.settling import refuse, settle
from tests.sim.site import TOPIC, Site
from tests.sim.together import together
from tests.sim.world import World

__all__ = ["rest"]


def rest(world: World, site: Site) -> None:
    """Everybody is gone and the store is well: what is left must come to rest, and be whole."""
    world.end_all()
    world.store.of_others.clear()
    site.oracle.judge.others.clear()
    restore(site)
    restore_files(site)
    for truth in [*site.oracle.truths.values()]:
        if truth.head is None:
            continue
        if not site.oracle.announced(truth.keys):
            continue
        if truth.head.homes:
            goes_on_while_homes_are_away(world, site, truth)
        together(world, site, truth)
        alone(world, lambda actor, truth=truth: free_a_full_store(actor, site, truth), "freeing", full=True)
        alone(world, lambda actor, truth=truth: settle(actor, site, truth), "settler")
        others = site.oracle.others
        names = [key for key in world.objects if key.startswith(truth.keys.segments) and key not in others]
        truth.check_at_rest(lambda names=names, truth=truth: [truth.keys.segment_id(name) or "" for name in names])
        refuse(site.oracle.judge.not_back(truth.keys.root, truth.keys.topic_id))
        refuse(site.oracle.judge.noted_too_long(truth.keys.root, truth.housed.places()))
        refuse(site.oracle.lists_left(truth.keys))
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
