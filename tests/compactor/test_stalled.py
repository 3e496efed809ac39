"""A task that hangs holds its job for as long as a range of it could take, and no longer (P14)."""

import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lithify.cli.compactions import show
from lithify.cli.output import Output
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.info import compaction_info
from lithify.compactor.patience import AT_LEAST_MS, patience_ms
from lithify.compactor.progress import HEARTBEAT_MS
from lithify.compactor.step import Step
from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.jobs import CompactorState, FailureCount, JobError, MergeCounts
from lithify.manifest.partition import PartitionFiles
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from tests.compactor.engine_tasks import KEYS as ENGINE_KEYS
from tests.compactor.scripted_engine import Landed, ScriptedEngine
from tests.compactor.simulated_engine import merge
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, job, new_partition

MIB = 1 << 20


class Engine(ScriptedEngine):
    """Of three ranges it does those that are `done`, once each, and hangs over the others."""

    def __init__(self) -> None:
        self.world = new_partition()
        self.world.alone(append_rows(PartitionFiles(KEYS), ROWS))
        super().__init__(lambda task: self.world.alone(merge(KEYS, task)))
        self.coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
        self.done: set[int] = set()
        self.looks = 0  # that found nothing
        self.stopped = 0

    @property
    def state(self) -> CompactorState:
        return self.world.alone(PartitionFiles(KEYS).compactor_state())

    def step(self) -> Step:
        self.looks = 0
        held = Held(self.world, self.coordinator.step(CONFIG))
        while held.request is not None:
            self.advance(held)
        self.world.now_ms += 86_400_000
        found: Step = held.result
        return found

    def stop(self) -> None:
        self.stopped += 1

    def look(self, timeout_ms: int) -> Landed:
        for task in self.pending:
            if task.range_index in self.done:
                self.pending.remove(task)
                return (self._lands(task),)
        self.world.now_ms += timeout_ms
        self.looks += 1
        assert self.looks < 100_000, "it waits for ever"
        return ()


def test_a_hanging_task_ends_its_attempt_and_another_one_begins_from_what_is_recorded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = Engine()
    engine.done = {0, 2}
    step = engine.step()
    assert step.outcome == "failed"
    assert step.detail.endswith(
        "no key range has finished for 30.0 min (to do: 1 of 3); its tasks are hanging, or no worker is free. "
        "Check the engine and the store; it will be tried again"
    )
    assert engine.stopped == 1
    (job_,) = engine.state.jobs
    assert [done.index for done in job_.done] == [0, 2]
    show(Output(as_json=False), compaction_info("t", 0, job_, engine.world.now_ms))
    assert "stalled: no key range has finished for 30.0 min" in capsys.readouterr().out
    engine.done = {0, 1, 2}
    assert engine.step().outcome == "worked"
    assert [attempt.number for attempt in engine.state.history[-1].attempts] == [1, 2]


@pytest.mark.slow
def test_each_attempt_in_a_row_waits_longer_and_in_the_end_it_is_given_up() -> None:
    engine = Engine()
    looks: list[int] = []
    for _ in range(40):
        if (step := engine.step()).job is not None and step.job.status == "failed":
            break
        looks.append(engine.looks)
    assert looks[:6] == [(AT_LEAST_MS << each) // HEARTBEAT_MS for each in (0, 1, 2, 3, 4, 4)]
    assert len(looks) == 10
    assert engine.state.history[-1].error.category == "attempts"


def test_how_long_is_told_by_what_a_range_reads() -> None:
    plain = job()
    assert plain.plan is not None

    def patience(input_bytes: int, failures: int = 0) -> int:
        failure = FailureCount(sources="s", count=failures, error=JobError("stalled", ""), retry_at_ms=0)
        plan = replace(plain.plan, input_bytes=input_bytes)
        return patience_ms(replace(plain, plan=plan), failure) // 60_000

    assert patience(0) == 30
    assert patience(3 * 256 * MIB) == 30 + 34
    assert patience(3 * 256 * MIB, failures=2) // 4 == 30 + 34
    assert patience(0, failures=9) == 16 * 30


@pytest.fixture
def held_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first task of a local engine hangs, whatever it is told, until it is let go or the test ends: the events are
    that it hangs, and that."""
    hangs, let_go, first = threading.Event(), threading.Event(), threading.Semaphore(1)

    def execute(task: MergeTask, *_: object, **__: object) -> TaskResult:
        if first.acquire(blocking=False):
            hangs.set()
            assert let_go.wait(60)
        return TaskResult(range_index=task.range_index, outputs=(), counts=MergeCounts())

    monkeypatch.setattr("lithify.compactor.engines.local.execute", execute)
    monkeypatch.setattr("lithify.compactor.engines.underway.STOP_MAX_MS", 50)
    yield hangs, let_go
    let_go.set()


def test_a_task_that_hangs_keeps_neither_a_stop_nor_the_next_attempt_waiting(
    held_task: tuple[threading.Event, threading.Event],
) -> None:
    hangs, let_go = held_task
    engine, store = LocalEngine(parallelism=1), MemoryStore()
    plan = job().plan
    assert plan is not None
    task = MergeTask(
        keys=ENGINE_KEYS,
        job="000000000001-0000abcd",
        attempt=1,
        range_index=0,
        bounds=EVERYTHING,
        sources=(),
        rules=plan.rules,
        output_bytes=1,
    )
    hanging = engine.start(only_here(store), [task], "label")
    assert hangs.wait(60)
    hanging.stop()
    assert hanging.hangs
    hanging.stop()
    again = engine.start(only_here(store), [replace(task, attempt=2)], "label")
    assert again.ended(60_000)
    assert [type(each) for each in again.results(0)] == [TaskResult]
    engine.close()
    let_go.set()
    assert hanging.ended(60_000)
