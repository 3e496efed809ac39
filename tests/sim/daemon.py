"""A service as one process: the partition's own coordinator and the one that relieves it beside a job (docs/rfcs/0014),
which share a claim, turns as the service ranks them, and a budget. A crash ends both."""

import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from lithify.compactor.answers import Budget
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import NextResults, Reserve, StartTasks
from lithify.compactor.room import Load
from lithify.compactor.served import LOOK_AGAIN
from lithify.compactor.service import Place
from lithify.compactor.turns import Turns, Want
from lithify.manifest.catalog import keep_bounds
from lithify.manifest.config import TopicConfig
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.rests import Rest, Rests
from lithify.store.errors import CommitUnknown, Fenced
from lithify.store.port import Now, Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import BESIDE, Actor, Violation
from tests.sim.places import files_of
from tests.sim.services import opened, stepped
from tests.sim.site import TOPIC, Site
from tests.steps import Stepped

__all__ = ["daemon"]

MAIN = ""
PLACES = {MAIN: Place(PartitionKeys(TOPIC, "", 0)), BESIDE: Place(PartitionKeys(TOPIC, "", 0), beside=True)}
SLOW_SHARE, SLOW_MS = {MAIN: 0.8, BESIDE: 0.2}, 60_000  # so many jobs take so long, at most
STANDS_BY_SHARE = 0.25  # of services from their start
RESTS_ROUNDS = 8  # within which what others write is noticed
POLLS = 4  # looks at the tasks of a job in the time that one may take


@dataclass
class Process:
    """What both coordinators know of each other. They wait for each other's turns as two places of a service do."""

    turns: Turns[Place]
    budget: Budget
    stands_by: bool
    slow_ms: int  # what slow jobs take, at most
    leaves_share: float  # of its rests
    coordinator: Coordinator | None = None
    relieved: str | None = None  # the job beside which a step of the relief runs
    granted: dict[str, Want] = field(default_factory=dict)
    reserved: dict[str, Load] = field(default_factory=dict)

    async def turn(self, site: Site, actor: Actor, name: str, want: Want, until: Callable[[], bool]) -> bool:
        """Waits for it; False: given up, since `until` holds."""
        self.turns.looked(PLACES[name], want)
        while not until():
            while (begun := self.turns.begin()) is not None:
                self.granted[BESIDE if begun[0].beside else MAIN] = begun[1]
            if name in self.granted:
                return True
            await Pause(site.rest(actor) // 4)
        return name in self.granted

    def begins(self, name: str, job: str) -> None:
        """Tasks of `job` begin. The relief leaves the job that runs alone, and the next one waits for its end."""
        if name not in self.reserved:
            raise Violation(f"job {job} begins, and nothing was reserved for what it reads (RFC 0014)")
        running = None if self.coordinator is None else self.coordinator.at_work
        if name == BESIDE and job == running:
            raise Violation(f"relief goes on with job {job}, which runs (P10)")
        if name == MAIN and self.relieved not in (None, job):
            raise Violation(f"job {job} begins while the partition is relieved beside job {self.relieved} (P8)")

    def over(self, name: str) -> None:
        self._give_back(name)
        if self.granted.pop(name, None) is not None:
            self.turns.end(PLACES[name], None)
        else:
            self.turns.looked(PLACES[name], None)

    def reserve(self, name: str, request: Reserve) -> bool:
        self._give_back(name)
        load = Load(request.input_bytes, request.short, request.alone)
        granted = self.granted[name].bytes > 0 and self.budget.take(load)
        if granted:
            self.reserved[name] = load
        return granted

    def _give_back(self, name: str) -> None:
        load = self.reserved.pop(name, None)
        if load is not None:
            self.budget.give_back(load)


def daemon(
    site: Site,
    take_over_share: float,
    bytes_max: int | None,
    stands_by_share: float = STANDS_BY_SHARE,
    slow_ms: int = SLOW_MS,
    leaves_share: float = 0.0,
) -> Life:
    """It serves one partition: fenced, it owns nothing any more and ends, and its supervisor starts it again."""

    async def live(actor: Actor) -> None:
        stands_by = actor.say.random() < stands_by_share  # the others are started to take over
        while True:
            turns: Turns[Place] = Turns(actor.say.choice((1, 2)), bytes_max, lambda place: place.waits_for)
            process = Process(turns, Budget(bytes_max), stands_by, slow_ms, leaves_share)
            serves, relieves = _serves(site, actor, process, take_over_share), _relieves(site, actor, process)
            try:
                await _woven(site, actor, process, {MAIN: serves, BESIDE: relieves})
            except Fenced:
                site.world.counts["fenced"] += 1
                site.oracle.anew(actor.author)
                stands_by = True
                await Pause(site.rest(actor))

    return live


async def _serves(site: Site, actor: Actor, process: Process, take_over_share: float) -> None:
    """Raises Fenced."""
    handle, rest = await opened(site, actor), None
    leaving = random.Random(f"{site.world.seed}/{actor.name} leaves")
    rests = Rests(RESTS_ROUNDS * site.rest_ms, site.rest_ms, site.grace_ms)
    while True:
        try:
            config = await handle.fresh()
            if process.coordinator is None:
                handle = await site.open()
                config, files = handle.config, files_of(handle.keys)
                process.coordinator = Coordinator(files, actor.name, stands_by=process.stands_by)
            coordinator = process.coordinator
            if rest is not None and await _still_rests(coordinator, config, rest):
                site.world.counts["rested"] += 1
                await Pause(site.rest(actor))
                continue
            rest = None
            takes_over = actor.say.random() < take_over_share
            await coordinator.files.head()
            await coordinator.files.compactor_state()
            want = coordinator.want(config, await Now(), take_over=takes_over) or LOOK_AGAIN
            await process.turn(site, actor, MAIN, want, lambda: False)
            site.oracle.begins(actor.author)
            config, began_ms = await handle.fresh(), await Now()
            await keep_bounds(coordinator.files, handle.topic)
            site.oracle.may_take_over(actor.author, takes_over)
            step = await stepped(site, actor, coordinator, config, takes_over)
            site.world.counts[f"step: {step.outcome}"] += 1
            # As a service has it: what comes after the step read the heads is asked for.
            rest = rests.begin(actor.name, began_ms) if step.outcome.rests else None
            process.over(MAIN)
            if step.outcome.rests and coordinator.owns and leaving.random() < process.leaves_share:
                await coordinator.leave()
                site.world.counts["left"] += 1
                process.coordinator, process.stands_by, rest = None, True, None
                await Pause(leaving.choice((1, 10)) * site.rest_ms)
            if step.outcome != "worked":
                await Pause(site.rest(actor))
            if step.detail == "the topic was deleted":
                process.coordinator = None
        except TRANSIENT as error:
            site.world.counts[f"compactor met {type(error).__name__}"] += 1
            process.over(MAIN)
            await Pause(site.rest(actor))


async def _still_rests(coordinator: Coordinator, config: TopicConfig, rest: Rest) -> bool:
    now_ms = await Now()
    asks = rest.asks(now_ms)
    if await coordinator.files.moved(asks) or await coordinator.still_waits(config) is None:
        return False
    rest.asked(asks, now_ms)
    return True


async def _relieves(site: Site, actor: Actor, process: Process) -> None:
    relief: Coordinator | None = None
    handle = await opened(site, actor)
    while True:
        main = process.coordinator
        if main is None or main.at_work is None:
            await Pause(site.rest(actor) // 2)
            continue
        await Pause(site.rest(actor) // 4)
        if relief is None or not relief.relieves(main):
            relief = main.relief()
        try:
            if handle.keys != relief.files.keys:
                handle = await site.open()
            await relief.files.head()
            await relief.files.compactor_state()
            want = relief.want(await handle.fresh(), await Now())
            if want is None or not await process.turn(
                site, actor, BESIDE, want, lambda main=main: main.at_work is None
            ):
                continue
            site.oracle.begins(actor.author)
            config, process.relieved = await handle.fresh(), main.at_work
            step = await stepped(site, actor, relief, config)
            site.world.counts[f"relief: {step.outcome}"] += 1
            if step.job is not None and step.job.id == process.relieved:
                raise Violation(f"relief ends job {step.job.id}, which runs (P15)")
        except (Fenced, *TRANSIENT) as error:
            site.world.counts[f"relief met {type(error).__name__}"] += 1
            if isinstance(error, CommitUnknown) and not relief.relieves(main):
                raise Violation("what relief was not answered leaves the claim as it was (P14)") from error
            relief = None
        finally:
            process.relieved = None
            process.over(BESIDE)


@dataclass
class _Strand(Stepped):
    wake_ms: int = 0
    until_ms: int | None = None  # it waits for results of its tasks
    slow_ms: int = 0  # they come then at the earliest


async def _woven(
    site: Site, actor: Actor, process: Process, coroutines: Mapping[str, Coroutine[Any, Any, None]]
) -> None:
    """One actor's threads: each request is one of them's, as `actor.say` has it. Where one waits the others go on."""
    strands = {name: _Strand(coroutine=coroutine) for name, coroutine in coroutines.items()}
    try:
        while True:
            now_ms = site.world.now_ms
            awake = [name for name, strand in strands.items() if strand.wake_ms <= now_ms]
            if not awake:
                await Pause(max(min(strand.wake_ms for strand in strands.values()) - now_ms, 1))
                continue
            actor.strand = actor.say.choice(awake)
            await _advance(site, actor, process, strands[actor.strand])
    finally:
        for name, strand in strands.items():
            actor.strand = name
            strand.close()
        actor.strand = MAIN


async def _advance(site: Site, actor: Actor, process: Process, strand: _Strand) -> None:
    request: Any = None
    if strand.until_ms is None:
        request = strand.go_on()
    try:
        match request:
            case Pause(ms):
                strand.wake_ms = site.world.now_ms + max(int(ms * (0.5 + actor.say.random() / 2)), 1)
            case Reserve():
                strand.reply = process.reserve(actor.strand, request)
            case StartTasks(tasks, _):
                process.begins(actor.strand, tasks[0].job)
                slow = actor.say.random() < SLOW_SHARE[actor.strand]
                strand.slow_ms = site.world.now_ms + int(slow * actor.say.random() * process.slow_ms)
                strand.reply = await request
            case NextResults(timeout_ms):
                strand.until_ms = site.world.now_ms + timeout_ms
                strand.wake_ms = min(strand.slow_ms, strand.until_ms)
            case None:
                assert strand.until_ms is not None
                strand.reply = () if site.world.now_ms < strand.slow_ms else await NextResults(0)
                if strand.reply or site.world.now_ms >= strand.until_ms:
                    strand.until_ms = None
                else:
                    strand.wake_ms = min(site.world.now_ms + site.rest(actor) // POLLS + 1, strand.until_ms)
            case _:
                strand.reply = await request
    except Violation:
        raise
    except Exception as error:  # noqa: BLE001 - thrown into the strand at its next step
        strand.error, strand.until_ms = error, None
