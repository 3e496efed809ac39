"""Beside a job that takes long the partition is relieved, under the same claim, and nothing is lost or doubled (P8)."""

import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import NextResults
from lithify.manifest.config import parse
from lithify.manifest.edits import CreatePartition
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown, Fenced, InvalidRequest, Unavailable
from lithify.store.port import Pause
from tests.compactor.simulated_engine import with_engine
from tests.compactor.test_interleaved_compaction import FIRST, KEYS, Model, admin, check, collector, producer, quiesce
from tests.interleave import World

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
    reply: Any = None
    error: Exception | None = None
    while True:
        try:
            request = coroutine.throw(error) if error is not None else coroutine.send(reply)
        except StopIteration as stop:
            return stop.value
        reply = error = None
        try:
            for _ in range(TASK_STEPS if isinstance(request, NextResults) else 0):
                await Pause(1)
            reply = await request
        except Exception as caught:  # noqa: BLE001 - thrown into the coroutine at its next step
            error = caught


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


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_the_model_holds_where_two_coroutines_share_a_claim(first: int) -> None:
    assert sum(played(seed) for seed in range(first, first + 10)) >= 20, "relief was worked at"


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
