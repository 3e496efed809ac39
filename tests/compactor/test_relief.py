"""Beside a job that takes long the partition is relieved, under the same claim, and nothing is lost or doubled (P8)."""

import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import NextResults
from lithify.compactor.request_edits import RequestCancel
from lithify.manifest.config import parse
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown, Fenced, InvalidRequest, Unavailable
from lithify.store.port import Create, Outcome, Pause, Request
from tests.compactor.simulated_engine import with_engine
from tests.compactor.test_interleaved_compaction import FIRST, KEYS, Model, admin, check, collector, producer, quiesce
from tests.interleave import World
from tests.steps import within

CONFIG = parse(
    {
        "cleanup.policy": "compact",
        "delete.retention.ms": "500",
        "l0.segments.tier": "3",
        "l0.segments.max": "4",
        "compaction.output.bytes": "1024",
    }
)
TASK_STEPS = 40
TRANSIENT = (Unavailable, CommitUnknown, InvalidRequest)


async def slowly(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Each task of it takes a while, so that much comes meanwhile."""

    async def answer(request: Request[Any]) -> Any:
        for _ in range(TASK_STEPS if isinstance(request, NextResults) else 0):
            await Pause(1)
        return await request

    return await within(coroutine, answer)


@dataclass
class Process:
    """A compactor with its relief: the first takes no step while the other has one."""

    name: str
    dice: random.Random
    written: list[str]
    ended: bool = False
    relieving: bool = False
    relieved: int = 0

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(PartitionFiles(KEYS), self.name)

    async def compacts(self, steps: int) -> None:
        for _ in range(steps):
            while self.relieving:
                await Pause(10)
            coordinator = self.coordinator
            try:
                work = slowly(coordinator.step(CONFIG, take_over=self.dice.random() < 0.1))
                step = await with_engine(KEYS, work, self.written)
                if step.outcome in ("idle", "waiting", "standby"):
                    await Pause(200)
            except Fenced:
                self.coordinator = Coordinator(PartitionFiles(KEYS), self.name)
            except TRANSIENT:
                pass
        self.ended = True

    async def relieves(self) -> None:
        relief = None
        while not self.ended:
            await Pause(1)
            main = self.coordinator
            if main.at_work is None:
                continue
            self.relieving = True
            try:
                relief = relief if relief is not None and relief.relieves(main) else main.relief()
                step = await with_engine(KEYS, relief.step(CONFIG), self.written)
                self.relieved += step.outcome == "worked"
            except (Fenced, *TRANSIENT):
                relief = None
            finally:
                self.relieving = False


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 28, 14))
def test_the_model_holds_where_two_coroutines_share_a_claim(first: int) -> None:
    assert sum(played(seed) for seed in range(first, first + 14)) >= 20, "relief was worked at"


def played(seed: int) -> int:
    """How often a partition was relieved in the history of `seed`."""
    world = World(seed, fault_share=(0.0, 0.05, 0.2)[seed % 3], sleep_share=0.004)
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    model, written = Model(), list[str]()
    for index in range(3):
        world.start(f"producer {index}", producer(model, random.Random(f"{seed}p{index}"), 60))
    processes = [Process(f"c{index}", random.Random(f"{seed}c{index}"), written) for index in range(2)]
    for process in processes:
        world.start(process.name, process.compacts(25))
        world.start(f"{process.name} relief", process.relieves())
    world.start("collector", collector(15))
    world.start("admin", admin(model, random.Random(f"{seed}a"), 4))
    world.run()
    unexpected = [(a.name, a.failed) for a in world.actors if a.failed is not None]
    if unexpected:
        raise AssertionError(f"seed {seed}: {unexpected}") from unexpected[0][1]
    check(world, model)
    quiesce(world, written)
    check(world, model)
    print(seed, [p.relieved for p in processes])
    return sum(process.relieved for process in processes)


class Beside:
    """A main coordinator with a job under way, and what happens meanwhile."""

    def __init__(self) -> None:
        self.world = World(0)
        self.model, self.written = Model(), list[str]()
        self.files = PartitionFiles(KEYS)
        self.world.alone(self.files.manifest.commit(CreatePartition(FIRST)))
        self.main = Coordinator(PartitionFiles(KEYS), "main")
        self.lost: list[Create] = []  # never answered, and not yet there

    def append(self) -> None:
        self.world.alone(self.appends())

    async def appends(self) -> None:
        await producer(self.model, random.Random(1), 5)

    async def first_job(self, meanwhile: Coroutine[Any, Any, None]) -> Any:
        """The main one's step, and `meanwhile` as soon as tasks of its job run."""
        step, reply, then = self.main.step(CONFIG), None, meanwhile
        while True:
            try:
                request = step.send(reply)
            except StopIteration as stop:
                return stop.value
            if isinstance(request, NextResults) and self.main.at_work is not None and then is not None:
                await then
                then = None
            reply = await request

    async def step_of(self, coordinator: Coordinator) -> Any:
        return await with_engine(KEYS, coordinator.step(CONFIG), self.written)

    async def unanswered(self, work: Coroutine[Any, Any, Any]) -> Any:
        """No answer comes to what `work` writes into the manifest; it may still arrive."""
        reply: Any = None
        while True:
            try:
                request = work.send(reply)
            except StopIteration as stop:
                return stop.value
            if isinstance(request, Create) and ".manifest" in request.key:
                self.lost.append(request)
                reply = Outcome.UNKNOWN
            else:
                reply = await request

    async def cancel_all(self) -> None:
        state = await self.files.compactor_state()
        for job in state.jobs if state else ():
            await self.files.compactor.commit(RequestCancel(job.id))


def test_what_relief_was_not_answered_is_settled_before_anything_is_concluded_from_it() -> None:
    """Its job is cancelled meanwhile. If its commit arrived after that was written down, the manifest would name the
    outputs of a cancelled job, which nothing protects."""
    beside = Beside()
    beside.append()

    async def meanwhile() -> None:
        await beside.appends()
        relief = beside.main.relief()
        with pytest.raises(CommitUnknown):
            await beside.unanswered(beside.step_of(relief))
        assert beside.lost, "its commit was under way"
        await beside.cancel_all()

    work = with_engine(KEYS, beside.first_job(meanwhile()), beside.written)
    beside.world.alone(work)
    beside.world.alone(beside.step_of(beside.main))

    async def arrives() -> Any:
        return await beside.lost[0]

    state = beside.world.alone(beside.files.compactor_state())
    cancelled = {job.id for job in state.history if job.status == "cancelled"}
    assert len(cancelled) == 2
    assert beside.world.alone(arrives()) is Outcome.EXISTS, "its number is taken by now"
    head = beside.world.alone(beside.files.head())
    assert not cancelled & {done.id for done in head.completed_jobs}
    check(beside.world, beside.model)


def test_where_another_took_over_there_is_nothing_to_relieve() -> None:
    """Not even a turn: each round would look for a worker in vain."""
    beside = Beside()
    beside.append()
    wants: list[Any] = []

    async def meanwhile() -> None:
        await beside.appends()
        relief = beside.main.relief()
        for took_over in (False, True):
            if took_over:
                await Coordinator(PartitionFiles(KEYS), "rival")._claim(await beside.files.head(), True, None)
            await relief.files.head()
            await relief.files.compactor_state()
            wants.append(relief.want(CONFIG, beside.world.now_ms))

    with pytest.raises(Fenced):
        beside.world.alone(with_engine(KEYS, beside.first_job(meanwhile()), beside.written))
    assert wants[0] is not None
    assert wants[1] is None
