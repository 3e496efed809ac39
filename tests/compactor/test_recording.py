"""What recording costs: of a job of any number of ranges about the same for each of them (P11)."""

import itertools
from typing import Any

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.progress import HEARTBEAT_MS
from lithify.manifest.categories import Category
from lithify.manifest.jobs import CompactorState, KeyRange
from lithify.manifest.partition import PartitionFiles
from lithify.segment.task import TaskFailure
from lithify.store.errors import Unavailable
from lithify.store.port import Create
from tests.compactor.scripted_engine import Landed, ScriptedEngine
from tests.compactor.simulated_engine import merge
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, new_partition


class Engine(ScriptedEngine):
    """Every range lands alone, `every_ms` after the one before, until `fails` of them have."""

    def __init__(
        self, ranges: int, every_ms: int = 0, fails: int | None = None, error: Exception | None = None
    ) -> None:
        self.world = new_partition()
        self.world.alone(append_rows(PartitionFiles(KEYS), ROWS))
        bounds = [None, *(b"k%05d" % n for n in range(1, ranges)), None]
        cut = [KeyRange(low, high) for low, high in itertools.pairwise(bounds)]
        super().__init__(lambda task: self.world.alone(merge(KEYS, task)), cut)
        self._every_ms, self._fails, self._error = every_ms, fails, error
        self._landed = 0
        self.written: list[int] = []  # sizes of the `.compactor` files that record

    @property
    def state(self) -> CompactorState:
        return self.world.alone(PartitionFiles(KEYS).compactor_state())

    def step(self) -> Any:
        held = Held(self.world, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG))
        while (request := held.request) is not None:
            if isinstance(request, Create) and self._landed and KEYS.compactor.number(request.key) is not None:
                self.written.append(len(request.body))
            self.advance(held)
        return held.result

    def look(self, timeout_ms: int) -> Landed:
        if self._landed == self._fails and self._error is not None:
            raise self._error
        self.world.now_ms += self._every_ms
        if self._landed == self._fails:
            return (TaskFailure(self.pending[0].range_index, Category.MEMORY, "the worker died"),)
        self._landed += 1
        return super().look(timeout_ms)


def test_what_is_written_for_each_range_does_not_grow_with_their_number() -> None:
    """Each write holds all that is recorded: one for each range wrote 4 times as much for each of 4 times as many."""
    cost: dict[int, float] = {}
    for ranges in (100, 400):
        engine = Engine(ranges)
        assert engine.step().outcome == "worked"
        cost[ranges] = sum(engine.written) / ranges
    assert cost[400] < 1.5 * cost[100]


def test_what_lands_slowly_is_written_when_a_sign_of_life_is_due() -> None:
    """Which costs nothing then: a heartbeat would write as much."""
    engine = Engine(40, every_ms=HEARTBEAT_MS)
    assert engine.step().outcome == "worked"
    assert len(engine.written) >= 40


@pytest.mark.parametrize("error", [None, Unavailable("the engine is gone")])
def test_what_has_landed_is_recorded_when_the_attempt_ends(error: Exception | None) -> None:
    engine = Engine(60, fails=50, error=error)
    assert engine.step().outcome == "failed"
    (job,) = engine.state.jobs
    assert len(job.done) == 50
