"""A topic that is altered beside each commit of a job costs that job another look, and nothing that it did."""

from collections.abc import Callable
from contextlib import closing

import pytest

import lithify
from lithify.compactor.attempt import ALTERATIONS_MAX
from lithify.manifest.jobs import CompactorState
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.clock import HandClock
from tests.log.compaction import files_of


class Beside(MemoryStore):
    """Just before a commit of a job arrives, something happens."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: Callable[[], object] | None = None

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        happens, self.happens = self.happens, None
        if happens is not None and key.endswith(".manifest") and b'"completed_jobs":[{' in body:
            happens()
        self.happens = self.happens or happens
        return super().create(key, body, frees)


class Scene:
    def __init__(self) -> None:
        self.store = Beside()
        self.warehouse = lithify.Warehouse(Driver(self.store, HandClock()))
        config = {"cleanup.policy": "compact", "delete.retention.ms": 100_000}
        self.topic = self.warehouse.create_topic("t", 1, config, probe=False)
        for number in range(8):
            self.topic.partition(0).append([lithify.Record(b"a%d" % number, b"1"), lithify.Record(b"b", None)])
        self.alterations = 0

    def alter(self, **changes: int) -> None:
        self.alterations += 1
        self.topic.alter({name.replace("_", "."): value for name, value in changes.items()})

    def passes(self) -> list[str]:
        with closing(lithify.Compactor(self.warehouse, engine="local", concurrency=1)) as compactor:
            return [part.outcome for part in compactor.run_once().partitions]

    def state(self) -> CompactorState:
        found = self.warehouse.driver.run(files_of(self.warehouse, "t").compactor_state())
        assert found is not None
        return found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_configuration_is_looked_at_again_and_the_job_completes(scene: Scene) -> None:
    def shorter() -> None:
        if scene.alterations < ALTERATIONS_MAX - 1:
            scene.alter(delete_retention_ms=90_000 - scene.alterations)

    scene.store.happens = shorter
    assert scene.passes() == ["worked"]
    state = scene.state()
    assert [job.status for job in state.history] == ["completed"]
    assert scene.alterations == ALTERATIONS_MAX - 1
    assert not state.failures


def test_alterations_without_end_give_up_no_job(scene: Scene) -> None:
    scene.store.happens = lambda: scene.alter(delete_retention_ms=90_000 - scene.alterations)
    assert scene.passes() == ["failed"]
    assert scene.alterations == ALTERATIONS_MAX
    (job,) = scene.state().jobs
    assert len(job.done) == 1, "what is recorded stays"


def test_what_the_topic_is_altered_to_keep_is_kept_at_each_look(scene: Scene) -> None:
    def longer() -> None:
        if scene.alterations < 4:
            shorter_ms = 90_000 - scene.alterations
            scene.alter(delete_retention_ms=shorter_ms if scene.alterations < 3 else 500_000)

    scene.store.happens = longer
    scene.passes()
    assert scene.state().history[0].error is not None
    assert scene.state().history[0].error.category == "altered"


def test_an_alteration_to_what_it_is_already_writes_nothing(scene: Scene) -> None:
    scene.topic.alter({"delete.retention.ms": 99_000})
    before = {key: found.body for key, found in scene.store._objects.items()}
    scene.topic.alter({"delete.retention.ms": 99_000, "retention.ms": None})
    scene.topic.alter(partitions=1)
    assert {key: found.body for key, found in scene.store._objects.items()} == before


def test_another_process_altered_meanwhile_so_the_same_value_is_written_again(scene: Scene) -> None:
    """What this client saw last may be a minute old."""
    scene.topic.alter({"retention.ms": 5_000})
    lithify.Warehouse(Driver(scene.store, HandClock())).topic("t").alter({"retention.ms": 7_000})
    scene.topic.alter({"retention.ms": 5_000})
    assert scene.warehouse.topic("t").config["retention.ms"] == "5000"
