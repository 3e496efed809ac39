"""A job that kills its process takes the jobs of other partitions with it: they are done all the same (P14)."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from lithify.compactor.answers import Budget
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import NextResults, Reserve
from lithify.compactor.failures import ALONE_AFTER
from lithify.compactor.room import Load
from lithify.manifest.config import parse
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.partition import PartitionFiles
from lithify.store.port import Request
from tests.compactor.scripted_engine import ScriptedEngine
from tests.compactor.simulated_engine import merge
from tests.interleave import World
from tests.protocol.scene import FIRST, KEYS, ROWS, TOPIC_ID, Held, append_rows, new_partition

GUILTY = PartitionKeys("t", TOPIC_ID, 1)
CONFIG = parse({"cleanup.policy": "compact", "l0.segments.tier": "4"})


class Work(ScriptedEngine):
    """A step of one partition's coordinator, in a process that has `budget`."""

    def __init__(self, world: World, keys: PartitionKeys, worker: str, budget: Budget) -> None:
        super().__init__(lambda task: world.alone(merge(keys, task)))
        self._budget = budget
        self._reserved: Load | None = None
        self._held = Held(world, Coordinator(PartitionFiles(keys), worker).step(CONFIG, take_over=True))

    def until(self, wanted: Callable[[Request[Any] | None], bool]) -> Any:
        """Its result, None while it has none."""
        while self._held.request is not None and not wanted(self._held.request):
            self.advance(self._held)
        if self._held.request is None and self._reserved is not None:
            self._budget.give_back(self._reserved)
            self._reserved = None
        return self._held.result

    def reserve(self, request: Reserve) -> bool:
        load = Load(request.input_bytes, request.short, request.alone)
        granted = self._budget.take(load)
        self._reserved = load if granted else None
        return granted


def one_process(world: World, name: str) -> dict[int, str]:
    """Both partitions at once; the tasks of the guilty one end the process. What each came to, as far as it did."""
    budget, outcomes, left = Budget(), dict[int, str](), [KEYS, GUILTY]
    while left:
        works = {keys: Work(world, keys, f"{name}:{keys.partition}", budget) for keys in left}
        begun = [keys for keys in left if works[keys].until(lambda request: isinstance(request, NextResults)) is None]
        if GUILTY in begun:
            return outcomes
        for keys in left:
            outcomes[keys.partition] = works[keys].until(lambda _: False).outcome
        left = [keys for keys in left if outcomes[keys.partition] == "deferred"]
    return outcomes


def two_partitions() -> World:
    world = new_partition()
    world.alone(PartitionFiles(GUILTY).manifest.commit(CreatePartition(replace(FIRST, partition=1))))
    for keys in (KEYS, GUILTY):
        world.alone(append_rows(PartitionFiles(keys), ROWS * 4))
    return world


def test_a_job_that_kills_its_process_keeps_no_other_from_being_done() -> None:
    world = two_partitions()
    told = [one_process(world, f"p{number}") for number in range(ALONE_AFTER + 2)]
    assert told[:ALONE_AFTER] == [{}] * ALONE_AFTER, "both were at work, and nobody knows who killed it"
    assert told[ALONE_AFTER] == {0: "worked", 1: "deferred"}, "each runs alone"
    state = world.alone(PartitionFiles(KEYS).compactor_state())
    assert (state.history[0].status, state.failures) == ("completed", ())


def test_who_runs_alone_and_dies_is_given_up_as_any_other() -> None:
    world = two_partitions()
    for number in range(ALONE_AFTER + CONFIG.compaction_attempts_max):
        assert one_process(world, f"p{number}").get(1, "deferred") == "deferred", "it was tried, and died"
    assert one_process(world, "last")[1] == "failed"
    state = world.alone(PartitionFiles(GUILTY).compactor_state())
    (failure,), (ended,) = state.failures, state.history
    assert (failure.lost, failure.count) == (ALONE_AFTER, CONFIG.compaction_attempts_max)
    assert (ended.status, ended.error.category) == ("failed", "attempts")
    assert "stopped without recording why" in ended.reason
