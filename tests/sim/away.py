"""Every other home is away for good: appends go on, at the bound of L0 segments, too, and no relocation holds segments
(docs/rfcs/0031)."""

from lithify.manifest.config import parse
from lithify.manifest.quarantine import LiftQuarantine
from lithify.store.errors import Unavailable
from tests.sim.actors import append_some
from tests.sim.alone import alone
from tests.sim.cast import Actor, Spell
from tests.sim.places import COLD, COLDER, files_of
from tests.sim.settling import Settler
from tests.sim.site import Site
from tests.sim.truth import Truth
from tests.sim.world import World

__all__ = ["goes_on_while_homes_are_away"]

FOR_EVER = 2**63
STEPS_A_ROUND_MAX = 200
VAIN_MAX = 15  # of these, which got nothing done: a request may first move much to a storage class, which is not away
ROUNDS_MAX = 10
PAUSE_MS = 700_000  # longer than any that follows a failure


def goes_on_while_homes_are_away(world: World, site: Site, truth: Truth) -> None:
    spells = tuple(Spell(0, FOR_EVER, home) for home in (COLD, COLDER))
    alone(world, lambda actor: _goes_on(actor, site, truth), "beside homes that are away", homes=spells)


async def _goes_on(actor: Actor, site: Site, truth: Truth) -> None:
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    if last.deleted or truth.keys.partition:
        return
    files, handle = files_of(truth.keys), await site.open()
    await files.manifest.commit(LiftQuarantine())
    settler = Settler(actor, site, truth, parse(last.config))
    for number in range(min(handle.config.l0_segments_max + 2, ROUNDS_MAX)):
        await _compacts(settler)
        try:
            await append_some(site, actor, files, handle, f"{actor.name}.{number}")
        except Unavailable as error:
            truth.fail(f"an append waits for a home that is away: {error} (RFC 0031)")
    await _compacts(settler)
    jobs = () if truth.ledger.state is None else truth.ledger.state.jobs
    if any(job.relocates and job.plan is not None for job in jobs):
        truth.fail("a relocation holds segments while its home is away (RFC 0031)")
    site.world.counts["went on while homes were away"] += 1


async def _compacts(settler: Settler) -> None:
    vain = 0
    for _ in range(STEPS_A_ROUND_MAX):
        try:
            outcome = (await settler.step()).outcome
        except Unavailable:  # a clean wants what is cold
            outcome = "failed"
        vain += outcome in ("failed", "waiting")
        if outcome == "idle" or vain == VAIN_MAX:
            return
        if outcome == "waiting":  # what has failed waits, and what presses is done meanwhile
            settler.site.world.now_ms += PAUSE_MS
