"""One actor, and nobody else, in a world where nothing goes wrong."""

import random
from collections.abc import Callable
from typing import Any

from tests.sim.cast import Actor, Climate, Spell, Violation
from tests.sim.schedule import Uniform
from tests.sim.world import World

__all__ = ["alone"]

STEPS_MAX = 20_000  # beside homes that are away for good, attempts fail until all give way


def alone(
    world: World, live: Callable[[Actor], Any], name: str, *, full: bool = False, homes: tuple[Spell, ...] = ()
) -> None:
    """Runs one actor, and the workers it starts, in a world where nothing goes wrong, but that it may be `full`, and
    other homes away."""
    climate, scheduler, trace = world.climate, world.scheduler, world.trace
    spells = ((0, 2**63),) if full else ()
    world.climate = Climate(page_keys=1_000, tick_ms=2, full_spells=spells, homes=homes)
    world.scheduler = Uniform(random.Random(0))
    before = len(world.actors)
    assert before == 0, "nobody else is there"
    world.start(name, live)
    world.run(STEPS_MAX)
    if world.actors:
        raise Violation(f"{name} came to no end: {[actor.name for actor in world.actors]}")
    world.climate, world.scheduler, world.trace = climate, scheduler, trace
