"""One history, from its seed: who takes part, what goes wrong, who comes when; then rest, and all must be well."""

import gc
import random
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from lithify.compactor.coordinator import Coordinator
from lithify.manifest.catalog import create_topic, topic_lineage
from tests.sim import actors, files, homes, services
from tests.sim.alone import alone
from tests.sim.cast import STORES_DIFFER_MS, WORKER, Actor, Climate, Denial, Violation
from tests.sim.damage import rot
from tests.sim.engine import Engine
from tests.sim.foci import FOCI, focus_of
from tests.sim.focus import MOST, SHARES, Focus
from tests.sim.gatherings import gatherings_of
from tests.sim.hands import others_of
from tests.sim.imports import Source, importer
from tests.sim.letters import five_keys
from tests.sim.oracle import Oracle
from tests.sim.owners import owners_of
from tests.sim.pinning import holder
from tests.sim.places import files_of
from tests.sim.processes import Processes, processes
from tests.sim.queries import queries_of
from tests.sim.rest import rest
from tests.sim.rows import ROW_BYTES
from tests.sim.schedule import Bursts, Priorities, Scheduler, Script, Uniform
from tests.sim.site import TOPIC, Site
from tests.sim.uploads import uploads_of
from tests.sim.wishes import wish
from tests.sim.world import World

__all__ = ["Found", "Mask", "play"]

# What is rare with the figures of the product is frequent with these; each is a bound or a number of attempts.
INPUTS_MAX = "lithify.compactor.plan.FAN_IN_MAX"
TUNED = {
    ("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", "lithify.manifest.parts.CREATE_ATTEMPTS_MAX"): (10, 2, 3),
    ("lithify.manifest.commit.FRESH_MS",): (60_000, 2_000, 10**12),
    ("lithify.gc.reachable.BOUNDARY_STEP_MIN",): (256, 8, 2),
    ("lithify.compactor.job_edits.HISTORY_MAX",): (64, 2),
    ("lithify.manifest.time_index.TIME_INDEX_MAX", "lithify.manifest.appends.TIME_INDEX_MAX"): (128, 4),
    ("lithify.manifest.producers.PRODUCERS_MAX",): (1_024, 1),
    ("lithify.manifest.transactions.TRANSACTIONS_MAX",): (1_024, 2, 1),
    ("lithify.log.append.UPLOADS_MAX",): (4, 1),
    (INPUTS_MAX,): (256, 256, 256, 256, 3, 5),
    ("lithify.compactor.damage.PAUSE_MS",): (1_000, 10, 100),
}

FAILED_ATTEMPTS_MAX, FEW_ATTEMPTS_SHARE = 1_000, 0.12  # RFC 0003
LISTS_SHARE = 0.5
FEW_SHARE = 0.4  # of histories in which a few have the word often, and so come far


BRIGHT: dict[str, Any] = dict.fromkeys(
    ("blackouts", "full_spells", "throttled", "engine_outages", "denials", "homes"), ()
)


@dataclass(frozen=True)
class Mask:
    """What is left of a history: some actors away, some faults gone, some turns not taken."""

    without: frozenset[str] = frozenset()
    calm: frozenset[tuple[str, int]] = frozenset()
    turns: tuple[tuple[str, int], ...] | None = None
    bright: bool = False  # no blackouts, nobody is denied access, and the engine is never down for long


@dataclass
class Found:
    """What became of a history."""

    seed: int
    violation: str | None = None
    steps: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    turns: list[list[Any]] = field(default_factory=list)
    faults: list[tuple[str, int]] = field(default_factory=list)
    actors: list[str] = field(default_factory=list)
    trace: list[str] | None = None


@contextmanager
def _uncollected() -> Generator[None]:
    """Within, no circles of objects are looked for: a history makes few, and looking takes a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _tuned(dice: random.Random, focus: Focus) -> Generator[dict[str, int]]:
    large, values_of = dice.random() < focus.bounds_share, dict[str, int]()
    with ExitStack() as stack:
        for names, values in TUNED.items():
            value = values[0] if large else dice.choice(values if focus.bounds_share else values[1:])
            value = dice.choice(focus.tuned.get(names[0], (value,)))
            for name in names:
                stack.enter_context(patch(name, value))
                values_of[name] = value
        yield values_of


def play(seed: int, mask: Mask = Mask(), *, steps: int | None = None, tracing: bool = False) -> Found:
    """Runs the history of `seed`, or what `mask` leaves of it. A violation is in what is returned, never raised."""
    dice = random.Random(seed)
    dice.choices(FOCI, [focus.weight for focus in FOCI])
    focus = focus_of(seed)
    with _uncollected(), _tuned(dice, focus) as tuned, ExitStack() as stack:
        served = processes(seed, always="services" in focus.takes)
        served.tune(stack)
        length = steps or served.steps(dice.choice(focus.lengths))
        climate = served.climate(_climate(dice, length, focus))
        climate = replace(climate, denials=_denials(random.Random(f"{seed}/denials"), length, focus))
        climate = replace(climate, listings=random.Random(f"{seed}/listings").choice(("now", "now", "old", "none")))
        climate = replace(climate, **_of(focus.climate, seed, "climate"))
        if "homes" in focus.takes:
            climate = replace(climate, **homes.climate_of(seed, length))
        if mask.bright:
            climate = replace(climate, **BRIGHT)
        script = None if mask.turns is None else Script([*mask.turns])
        scheduler: Scheduler = _scheduler(random.Random(f"{seed}/turns"), length)
        world = World(str(seed), climate, script or scheduler, mask.calm, mask.without)
        site = replace(_site(dice, world, focus, served), **_of(focus.site, seed, "site"))
        site.oracle.judge.inputs_max = tuned[INPUTS_MAX]
        by_hand = _by_hand(site, seed, stack, focus)
        site.config |= _of(focus.config, seed, "config")
        if "homes" in focus.takes:
            by_hand |= homes.homes_of(site, seed, stack)
        _lists(seed, stack)
        world.failed_attempts_max = _failed_attempts_max(seed, stack, focus)
        found = Found(seed, trace=[] if tracing else None)
        try:
            stack.enter_context(files.watched(site))
            _begin(world, site, dice)
            world.trace = found.trace
            roster = _roster(dice, site, focus, served) | by_hand
            found.actors = [*roster]
            for name, live in roster.items():
                world.start(name, live)
            world.run(length * 3 if script else length)
            rest(world, site)
        except Violation as violation:
            found.violation = str(violation)
        found.steps = world.steps if not world.rested else world.rested
        found.counts, found.turns, found.faults = dict(world.counts), world.turns, world.faults
        for actor in world.actors:
            actor.close()
        _let_go(world, site.oracle)
        return found


def _let_go(world: World, oracle: Oracle) -> None:
    """What refers to each other, and to all that a history made: a collection of circles then finds little to visit."""
    for part in (world.store, world, *oracle.truths.values()):
        vars(part).clear()


def _by_hand(site: Site, seed: int, stack: ExitStack, focus: Focus) -> dict[str, actors.Life]:
    """Those who have dice of their own."""
    found = others_of(site, seed) | wish(site, seed, always="wishes" in focus.takes)
    found |= owners_of(site, seed, stack, always="owners" in focus.takes)
    crowds = "crowded uploads" in focus.takes
    found |= uploads_of(site, seed, stack, always=crowds or "uploads" in focus.takes, crowds=crowds)
    found |= queries_of(site, seed, always="queries" in focus.takes)
    return found | gatherings_of(site, seed, always="gatherings" in focus.takes)


def _of(choices: Mapping[str, tuple[Any, ...]], seed: int, what: str) -> dict[str, Any]:
    """One of each."""
    dice = random.Random(f"{seed}/{what} of the focus")
    return {name: dice.choice(values) for name, values in choices.items()}


def _lists(seed: int, stack: ExitStack) -> None:
    """In half of all histories most runs are in lists, and lists are short."""
    dice = random.Random(f"{seed}/run lists")
    if dice.random() < LISTS_SHARE:
        stack.enter_context(patch("lithify.manifest.list_layout.INLINE_MAX", dice.choice((0, 1, 1, 2))))
        stack.enter_context(patch("lithify.manifest.list_layout.LIST_MAX", dice.choice((1, 2, 3, 2_048))))


def _failed_attempts_max(seed: int, stack: ExitStack, focus: Focus) -> int:
    """In a few histories a job may fail a few times alone, whatever it records."""
    dice = random.Random(f"{seed}/attempts max")
    if dice.random() >= FEW_ATTEMPTS_SHARE and "few attempts" not in focus.takes:
        return FAILED_ATTEMPTS_MAX
    most = dice.choice((2, 3, 5) if "few attempts" in focus.takes else (5, 12))
    stack.enter_context(patch("lithify.compactor.failures.FAILED_ATTEMPTS_MAX", most))
    return most


def _climate(dice: random.Random, length: int, focus: Focus) -> Climate:
    blackouts = _spells(dice, length, (0, 0, 0, 1, 2), 60)
    throttled = _spells(dice, length, (0, 0, 0, 1, 2), 200)
    engine_outages = _spells(dice, length, (0, 0, 0, 1, 2), 200)
    full_spells = _spells(dice, length, (0, 0, 0, 0, 1, 2), 200)
    return Climate(
        fault_share=dice.choice((0.0, 0.03, 0.1, 0.2, 0.3)),
        crash_share=dice.choice((0.0, 0.002, 0.005, 0.015)),
        sleep_share=dice.choice((0.0, 0.01, 0.04)),
        stall_share=dice.choice(focus.stalls),
        jump_share=dice.choice((0.0, 0.002, 0.01)),
        stop_share=dice.choice((0.0, 0.05)),
        tick_ms=dice.choice((5, 40, 40, 200)),
        page_keys=dice.choice((2, 5, 12)),
        coarse_times=dice.random() < 0.3,
        skew_ms=dice.choice((0, 0, 0, STORES_DIFFER_MS, STORES_DIFFER_MS, 60_000, 86_400_000)),
        outlier_share=dice.choice((0.0, 0.0, 0.01, 0.05)),
        blackouts=blackouts,
        full_spells=full_spells,
        throttled=throttled,
        engine_outages=engine_outages,
        engine_share=dice.choice((0.0, 0.0, 0.02, 0.1)),
    )


def _denials(dice: random.Random, length: int, focus: Focus) -> tuple[Denial, ...]:
    if focus.denials:
        return tuple(Denial(*each) for each in dice.choice(focus.denials))
    spells = _spells(dice, length, (0, 0, 0, 1, 2), 400)
    whom = ("", "compactor", WORKER, WORKER)
    return tuple(Denial(*spell, dice.choice(whom), dice.random() < 0.5) for spell in spells)


def _spells(dice: random.Random, length: int, counts: tuple[int, ...], most: int) -> tuple[tuple[int, int], ...]:
    """Stretches of steps, each of up to `most`."""
    firsts = [dice.randrange(length) for _ in range(dice.choice(counts))]
    return tuple((first, first + dice.randrange(5, most)) for first in firsts)


def _scheduler(dice: random.Random, length: int) -> Scheduler:
    kind = dice.random()
    if kind < 0.35:
        return Uniform(dice)
    if kind < 0.6:
        return Bursts(dice, dice.choice((3, 10, 30)))
    return Priorities(dice, dice.choice((2, 5, 10, 20)), length)


def _site(dice: random.Random, world: World, focus: Focus, served: Processes) -> Site:
    config = {
        "cleanup.policy": dice.choice(focus.policies),
        "retention.ms": dice.choice(focus.ages_ms),
        "retention.records": dice.choice(focus.records),
        "retention.bytes": dice.choice(focus.sizes),
        "min.cleanable.dirty.ratio": dice.choice(("0", "0", "0.3", "0.7")),
        "min.compaction.lag.ms": dice.choice(("0", "0", "0", "1500")),
        "delete.retention.ms": dice.choice(("0", "200", "1000", "5000")),
        "transactional.id.expiration.ms": dice.choice(("604800000", "50", "1000")),
        "l0.segments.tier": dice.choice(("2", "3", "5")),
        "l0.segments.max": dice.choice(("4096", "4096", "6")),
        "runs.tier": dice.choice(("2", "4")),
        "compaction.output.bytes": dice.choice(("1024", "1024", "2400", str(2**28))),
        "compaction.attempts.max": dice.choice(("2", "4", "10")),
    }
    config |= served.config
    grace_ms = dice.choice(focus.graces_ms)
    oracle = Oracle(world, grace_ms, 2 * world.climate.skew_ms)
    letters = five_keys(dice)
    splits = tuple(letters[at] for at in dice.choice(((1,), (1, 3), (1, 2, 3))))
    poison = frozenset(splits[:1]) if dice.random() < focus.poison_share else frozenset[str]()
    reading_ms = dice.choice((0, 0, 4_000, 20_000))
    older_share = dice.choice((0.0,) * 7 + (0.2,))
    world.witness, world.engine = oracle, Engine(world, oracle, splits, reading_ms, poison, older_share)
    keys: tuple[str | None, ...] = letters[: dice.choice((2, 3, 5))]
    if dice.random() < 0.15:
        keys = (*keys, None)
    return Site(
        world,
        oracle,
        grace_ms,
        config,
        topic_changes=dice.random() < focus.changes_share,
        appends=served.appends(dice.choice((4, 8, 16))),
        keys=keys,
        sizes=dice.choice(((ROW_BYTES,), (ROW_BYTES,), (40, 2_000), (20, ROW_BYTES, 6_000))),
        tombstone_share=dice.choice((0.1, 0.3, 0.5)),
        rest_ms=dice.choice((50, 200, 600)),
        skew_ms=world.climate.skew_ms,
    )


def _begin(world: World, site: Site, dice: random.Random) -> None:
    """A topic, and what came before the history: appends, perhaps compacted, so that there is work from the start."""
    appends, compacted = dice.choice((0, 3, 5)), dice.random() < 0.4

    async def create(actor: Actor) -> None:
        await create_topic(topic_lineage(TOPIC), TOPIC, 1, site.config)
        handle = await site.open()
        files = files_of(handle.keys)
        site.oracle.left_by_others(handle.keys)
        for number in range(appends):
            await actors.append_some(site, actor, files, handle, f"before.{number}")
            if compacted and number == appends // 2:
                await Coordinator(files_of(handle.keys), actor.name).step(handle.config)

    alone(world, create, "creator")


def _roster(dice: random.Random, site: Site, focus: Focus, served: Processes) -> dict[str, actors.Life]:
    """Who takes part: always somebody who appends and somebody who compacts; the rest more or fewer."""
    found: dict[str, actors.Life] = {}
    shares = SHARES | focus.shares
    for index in range(dice.choice(focus.plain)):
        found[f"plain {index}"] = actors.plain(site)
    same = dice.random() < 0.5
    for index in range(dice.choice((0, 1, 2)) or not found):
        found[f"idempotent {index}"] = actors.idempotent(site, "p" if same else f"p{index}")
    source = Source("import")
    take_over, sweeps = dice.choice((0.0, 0.1, 0.4)), dice.choice((0.0, 0.0, 0.3, 1.0, 1.0))
    lives: dict[str, Callable[[], actors.Life]] = {
        "stream": lambda: actors.transactional(site),
        "import": lambda: importer(site, source),
        "compactor": lambda: services.compactor(site, take_over),
        "collector": lambda: services.collector(site, sweeps),
        "reader": lambda: actors.reader(site, pins=False),
        "pinning reader": lambda: actors.reader(site, pins=True),
        "holder": lambda: holder(site),
        "consumer": lambda: actors.consumer(site, "c"),
        "admin": lambda: services.admin(site),
        "retention": lambda: services.retention(site, alters=site.topic_changes),
        "catalog": lambda: services.catalog(site),
        "operator": lambda: services.operator(site),
        "file operator": lambda: files.file_operator(site),
        "rot": lambda: rot(site),
    }
    for name, live in lives.items():
        most = MOST.get(name, 1)
        for index in range(most):
            if dice.random() < shares[name] or f"{name} {index}" in ("compactor 0", *focus.always):
                found[f"{name} {index}" if most > 1 else name] = live()
    if dice.random() < FEW_SHARE:
        first = next(name for name in found if name.startswith(("plain", "idempotent")))
        others = [name for name in found if name not in (first, "compactor 0", *focus.always)]
        away = dice.sample(others, max(len(others) - dice.choice((1, 2, 3)), 0))
        found = {name: live for name, live in found.items() if name not in away}
    return served.roster(site, found, take_over)
