"""One history of clients, from its seed; at its end everybody is gone, and clients that run alone find all that is left
(`rest.py`, `calm.py`)."""

import gc
import logging
import random
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lithify.log.follow import OffsetReset
from lithify.log.warehouse import Warehouse
from tests.sim.cast import STORES_DIFFER_MS, Climate, Violation
from tests.sim.clients import calm, getters, keepers, members, rest, senders, state_stores, threads, writers
from tests.sim.clients.bounds import tuned
from tests.sim.clients.crowds import crowds_of
from tests.sim.clients.decoded import decoded_once
from tests.sim.clients.groups import Groups
from tests.sim.clients.site import TOPIC, Site
from tests.sim.clients.truth import KEYS, OPERATOR, Truth
from tests.sim.clients.world import ClientWorld, Process
from tests.sim.schedule import Bursts, Priorities, Scheduler, Uniform

__all__ = ["Found", "play"]

Main = Callable[[Process], None]
GETTERS_SHARE = 0.3


@dataclass
class Found:
    seed: int
    steps: int = 0
    violation: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] | None = None
    turns: list[tuple[str, int]] = field(default_factory=list)  # actor, and its steps


def play(seed: int, *, tracing: bool = False) -> Found:
    dice = random.Random(f"clients/{seed}")
    length = dice.choice((300, 300, 800, 800, 2_000))
    world = ClientWorld(f"clients/{seed}", Climate(), Uniform(dice))
    found = Found(seed, counts=world.counts)
    if tracing:
        found.trace = world.trace = []
    with _quiet(), threads.in_place(world.spawn), tuned(dice), decoded_once():
        try:
            _plays(dice, world, length)
        except Violation as violation:
            found.violation = str(violation)
        finally:
            found.steps = world.rested or world.steps
            found.turns = [(name, steps) for name, steps in world.turns]
            with suppress(Violation):  # it is the end of all fibres; one violation was told
                world.end_all()
    return found


def _plays(dice: random.Random, world: ClientWorld, length: int) -> None:
    site = _site(dice, world)
    gets = random.Random(f"getter/{dice.getstate()[1][:8]}").random() < GETTERS_SHARE
    roster, climate, scheduler = _roster(dice, site), _climate(dice, length), _scheduler(dice, length)
    roster |= crowds_of(site, world.seed)
    rest.alone(world, _first(dice, site), "first")
    world.climate, world.scheduler, world.turns = climate, scheduler, []
    if gets:  # drawn apart: the other histories stay what they were
        roster["getter"] = getters.getter(site)
    for name, main in roster.items():
        world.process(name, main)
    world.run(length)
    world.end_all()
    rest.rest(site, dice)
    for scene in calm.drawn(dice):
        for name, main_of in scene:
            rest.alone(world, main_of(site), name)
    world.end_all()  # and what is on its way by now arrives


@contextmanager
def _quiet() -> Generator[None]:
    """The product warns of much that is meant here; and whoever crashes in front of a lock never begins what he holds
    ready, of which Python warns when it is thrown away. What is in a cycle is thrown away at the end: when Python would
    do so depends on the process, and a generator that is closed asks the store."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    gc.freeze()  # what is there by now need not be looked through at the end
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
            gc.collect()
    finally:
        gc.unfreeze()
        gc.enable()
        logging.disable(logging.NOTSET)


def _first(dice: random.Random, site: Site) -> Main:
    partitions = dice.choice((1, 1, 2, 3))
    config = {
        "cleanup.policy": "compact,delete" if site.expires else "compact",
        "retention.records": str(site.truth.keeps or -1),
        "min.cleanable.dirty.ratio": dice.choice(("0", "0", "0.3")),
        "delete.retention.ms": dice.choice(("0", "0", "1000", "86400000")),
        "l0.segments.tier": dice.choice(("2", "3")),
    }

    def main(process: Process) -> None:
        Warehouse(process.driver).create_topic(TOPIC, partitions, config, probe=False)

    return main


def _site(dice: random.Random, world: ClientWorld) -> Site:
    world.witness = truth = Truth(world)
    expires = dice.random() < 0.3
    truth.keeps = dice.choice((3, 4, 12)) if expires else None
    rest_ms = dice.choice((50, 300, 2_000))
    return Site(world, truth, Groups(truth), rest_ms, grace_ms=dice.choice((1_000, 20_000)), expires=expires)


def _roster(dice: random.Random, site: Site) -> dict[str, Main]:
    found: dict[str, Main] = {"writer 0": writers.writer(site, dice.choice((5, 12, 30)))}
    if dice.random() < 0.4:
        found["writer 1"] = writers.writer(site, dice.choice((5, 12)))
    reset: OffsetReset = dice.choice(("earliest", "latest"))
    for index in range(dice.choice((1, 1, 2, 2, 3))):
        found[f"member {index}"] = members.member(site, "g", reset)
    if dice.random() < 0.5:
        for index in range(dice.choice((1, 1, 2))):
            found[f"state store {index}"] = state_stores.state_store(site, "s")
    if dice.random() < 0.2:
        found["passer-by"] = state_stores.state_store(site, None)
    if dice.random() < 0.3:
        found["reader"] = members.reader(site, "p")
        found[OPERATOR] = keepers.operator(site, "p")
    if dice.random() < 0.3:
        found["follower"] = members.follower(site)
    if dice.random() < 0.6:
        found["loose sender"] = senders.loose_sender(site, dice.choice((8, 30)))
    for index in range(dice.choice((0, 1, 1, 2))):
        source = senders.Source(f"source{index}")
        site.sources.append(source)
        for _ in range(dice.choice((4, 8, 16))):
            source.add(site, dice.choice(KEYS))
        found[f"sender {index}"] = senders.sender(site, source)
        if dice.random() < 0.25:
            found[f"usurper {index}"] = senders.usurper(site, source)
    of_the_topic = {
        "grower": (0.6, keepers.grower(site)),
        "trimmer": (0.2, keepers.trimmer(site)),
        "compactor": (0.7, keepers.compactor(site)),
        "collector": (0.6, keepers.collector(site)),
    }
    return found | {name: main for name, (share, main) in of_the_topic.items() if dice.random() < share}


def _climate(dice: random.Random, length: int) -> Climate:
    return Climate(
        fault_share=dice.choice((0.0, 0.03, 0.1, 0.2)),
        crash_share=dice.choice((0.0, 0.002, 0.01)),
        sleep_share=dice.choice((0.0, 0.01, 0.04)),
        stall_share=dice.choice((0.0, 0.0, 0.01, 0.05)),
        jump_share=dice.choice((0.0, 0.0, 0.005)),
        tick_ms=dice.choice((5, 40, 200)),
        page_keys=dice.choice((3, 12)),
        coarse_times=dice.random() < 0.3,
        skew_ms=dice.choice((0, 0, STORES_DIFFER_MS)),
        blackouts=tuple(
            (first, first + dice.randrange(5, 60))
            for first in [dice.randrange(length) for _ in range(dice.choice((0, 0, 1)))]
        ),
    )


def _scheduler(dice: random.Random, length: int) -> Scheduler:
    kind = dice.random()
    if kind < 0.35:
        return Uniform(dice)
    if kind < 0.6:
        return Bursts(dice, dice.choice((3, 10, 30)))
    return Priorities(dice, dice.choice((2, 5, 10)), length)
