"""Tasks of a job that is about to be admitted read and merge; they write nothing before it is (docs/rfcs/0033, P10)."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import lithify
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import parse
from lithify.manifest.partition import PartitionFiles
from lithify.segment.execute import TaskCancelled, execute
from lithify.segment.task import JobTask, MergeTask, TaskResult
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, InvalidRequest
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.clock import HandClock
from tests.compactor.scripted_engine import ScriptedEngine
from tests.compactor.serving import append_to, between_look_and_turn
from tests.far import FarStore
from tests.protocol.scene import KEYS, ROWS, Held, append_rows, new_partition
from tests.segment.test_execute import append, task

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
WAITED_S = 30.0
WAITED_MS = 30_000


def segments(store: MemoryStore) -> set[str]:
    return {each.key for each in store.list("").objects if each.key.endswith(".parquet")}


@pytest.fixture
def merging() -> tuple[MemoryStore, MergeTask, set[str]]:
    """A task, and the segments that are there before it."""
    store = MemoryStore()
    refs = [append(store, [(b"k%d" % at, b"v"), (b"l", b"w")], 2 * at, name="abc"[at]) for at in range(3)]
    return store, task([[ref] for ref in refs]), segments(store)


class Gate(threading.Event):
    """Calls `reached` when it is waited for."""

    def __init__(self, reached: Callable[["Gate"], object]) -> None:
        super().__init__()
        self._reached = reached

    def wait(self, timeout: float | None = None) -> bool:
        self._reached(self)
        return self.is_set()


def test_a_task_writes_nothing_before_it_may(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, before = merging
    found: list[set[str]] = []

    def reached(gate: Gate) -> None:
        found.append(segments(store))
        if len(found) == 3:
            gate.set()

    (output,) = execute(work, only_here(store), None, Gate(reached)).outputs
    assert found[:3] == [before] * 3
    assert segments(store) == {*before, work.keys.segment(output.id)}


def test_a_task_that_waits_to_write_can_be_cancelled(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, before = merging
    waiting = threading.Event()
    with pytest.raises(TaskCancelled):
        execute(work, only_here(store), waiting.is_set, Gate(lambda _: waiting.set()))
    assert segments(store) == before


def test_an_engine_goes_on_with_what_it_has_prepared(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, before = merging
    engine = LocalEngine(1)
    prepared = engine.prepare(only_here(store), (work,), "t")
    assert prepared is not None
    attempt = engine.start(only_here(store), (work,), "t")
    assert attempt is prepared.attempt
    (result,) = attempt.results(WAITED_MS)
    prepared.stop()
    assert len(segments(store)) == len(before) + 1
    assert engine.start(only_here(store), (work,), "t") is not attempt, "once only"
    engine.close()
    assert result.range_index == work.range_index


def test_what_was_prepared_in_vain_is_stopped(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, before = merging
    engine = LocalEngine(1)
    prepared = engine.prepare(only_here(store), (work,), "t")
    assert prepared is not None
    prepared.stop()
    assert prepared.attempt.ended(WAITED_MS)
    assert segments(store) == before
    again = engine.start(only_here(store), (work,), "t")
    assert again is not prepared.attempt, "what was stopped never begins"
    assert len(again.results(WAITED_MS)) == 1
    engine.prepare(only_here(store), (work,), "t")
    engine.close()
    for refused in (engine.prepare, engine.start):
        with pytest.raises(InvalidRequest, match="closed"):
            refused(only_here(store), (work,), "t")
    assert len(segments(store)) == len(before) + 1


def test_what_fails_before_it_begins_is_begun_anew(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, _ = merging
    engine, key = LocalEngine(1), next(iter(segments(store)))
    whole = store.get(key)
    assert whole is not None
    store.delete([key])
    prepared = engine.prepare(only_here(store), (work,), "t")
    assert prepared is not None
    assert prepared.attempt.ended(WAITED_MS)
    store.put(key, whole.body)
    attempt = engine.start(only_here(store), (work,), "t")
    (result,) = attempt.results(WAITED_MS)
    engine.close()
    assert isinstance(result, TaskResult)


def test_tasks_that_may_write_wait_for_none_that_may_not(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    store, work, _ = merging
    engine = LocalEngine(1)
    prepared = engine.prepare(only_here(store), (work,), "prepared")
    assert prepared is not None
    assert engine.prepare(only_here(store), (work,), "another") is None, "it has something to do"
    assert len(engine.start(only_here(store), (work,), "another").results(WAITED_MS)) == 1
    assert prepared.attempt.ended(WAITED_MS)
    assert engine.start(only_here(store), (work,), "prepared") is not prepared.attempt
    engine.close()


def test_a_prepared_task_that_hangs_is_not_waited_for(merging: tuple[MemoryStore, MergeTask, set[str]]) -> None:
    """Whoever waited would show no life for that long (P5)."""
    store, work, _ = merging
    engine, began, hangs, reads = LocalEngine(1), threading.Event(), threading.Event(), store.read

    def hanging(key: str, start: int, length: int) -> bytes:
        began.set()
        assert hangs.wait(WAITED_S)
        return reads(key, start, length)

    store.read = hanging  # type: ignore[method-assign]
    prepared = engine.prepare(only_here(store), (work,), "t")
    assert prepared is not None
    assert began.wait(WAITED_S)
    prepared.stop()
    store.read = reads  # type: ignore[method-assign]
    assert len(engine.start(only_here(store), (work,), "t").results(WAITED_MS)) == 1
    assert not prepared.attempt.ended(0)
    hangs.set()
    assert prepared.attempt.ended(WAITED_MS)
    engine.close()


class Noting(FarStore):
    """Notes what is written. `claim` waits until a source is read, if the tasks are to begin beside it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.writes: list[str] = []
        self.reads = threading.Event()
        self.waits_for_reads = False

    def create(self, key: str, body: bytes, frees: bool = False) -> Any:
        if self.waits_for_reads and "/manifest/" in key:
            assert self.reads.wait(WAITED_S), "no source is read beside the claim"
            self.waits_for_reads = False
        self.writes.append(key.rpartition(".")[2])
        return super().create(key, body, frees)

    def output(self, key: str) -> Any:
        self.writes.append(key.rpartition(".")[2])
        return super().output(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        if key.endswith(".parquet"):
            self.reads.set()
        return super().read(key, start, length)


class Preparing(LocalEngine):
    def __init__(self) -> None:
        super().__init__(2)
        self.prepared: list[Any] = []
        self.started: list[Any] = []

    def prepare(self, homes: Any, tasks: Sequence[JobTask], label: str) -> Any:
        self.prepared.append(super().prepare(homes, tasks, label))
        return self.prepared[-1]

    def start(self, homes: Any, tasks: Sequence[JobTask], label: str) -> Any:
        self.started.append(super().start(homes, tasks, label))
        return self.started[-1]


@pytest.fixture
def far(request: pytest.FixtureRequest) -> Warehouse:
    warehouse = Warehouse(Driver(Noting(request.node.name)))
    append_to(warehouse.create_topic("t", 1, COMPACT, probe=False).partition(0), 8)
    return warehouse


def noted(warehouse: Warehouse) -> Noting:
    store = warehouse.store
    assert isinstance(store, Noting)
    store.writes.clear()
    store.reads.clear()
    return store


def test_tasks_read_beside_the_claim_and_write_after_the_admission(far: Warehouse) -> None:
    store, engine = noted(far), Preparing()
    store.waits_for_reads = True
    (job,) = lithify.Compactor(far, engine).run_once().jobs
    assert job.status == "completed"
    assert store.writes == ["manifest", "compactor", "parquet", "compactor", "manifest", "compactor"]
    assert [each.attempt for each in engine.prepared] == engine.started
    assert far.topic("t").partition(0).get(b"0") is not None


def test_tasks_of_an_owner_begin_beside_the_admission(far: Warehouse) -> None:
    engine = Preparing()
    compactor = lithify.Compactor(far, engine)
    compactor.run_once()
    append_to(far.topic("t").partition(0), 8)
    store = noted(far)
    (job,) = compactor.run_once().jobs
    assert job.status == "completed"
    assert store.writes == ["compactor", "parquet", "compactor", "manifest", "compactor"]
    assert [each.attempt for each in engine.prepared] == engine.started


def test_a_near_store_is_asked_in_turn(warehouse: lithify.Warehouse) -> None:
    append_to(warehouse.create_topic("t", 1, COMPACT).partition(0), 8)
    engine = Preparing()
    assert len(lithify.Compactor(warehouse, engine).run_once().jobs) == 1
    assert not engine.prepared


def test_an_engine_of_ones_own_need_not_prepare(far: Warehouse) -> None:
    class Own:
        def __init__(self, engine: LocalEngine) -> None:
            self.name, self.start, self.close = "own", engine.start, engine.close

    (job,) = lithify.Compactor(far, Own(LocalEngine(1))).run_once().jobs
    assert job.status == "completed"


def test_an_append_after_the_look_is_in_the_job(far: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    part, engine = far.topic("t").partition(0), Preparing()
    between_look_and_turn(monkeypatch, lambda: part.append([Record(b"late", b"1")]))
    before = segments(far.store)
    (job,) = lithify.Compactor(far, engine).run_once().jobs
    assert job.counts.rows_in == 9
    assert not part.describe().l0, "the late one is merged, too"
    in_vain, (begun,) = engine.prepared[0], engine.started
    assert in_vain.attempt.ended(WAITED_MS)
    assert begun is not in_vain.attempt
    written = segments(far.store) - before
    assert len(written) == 2, "the late append, and one output"


def test_whoever_loses_the_claim_writes_nothing(far: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Preparing()
    between_look_and_turn(monkeypatch, lambda: lithify.Compactor(far, "local").run_once())
    report = lithify.Compactor(far, engine).run_once()
    assert not report.jobs
    assert [each.attempt.ended(WAITED_MS) for each in engine.prepared] == [True]
    assert not engine.started


def test_whoever_may_not_claim_reads_its_sources_once(far: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, store = Preparing(), noted(far)
    compactor = lithify.Compactor(far, engine)

    def refused(key: str, body: bytes, frees: bool = False) -> Any:
        raise AccessDenied("may not put it")

    monkeypatch.setattr(store, "create", refused)
    for _ in range(3):
        assert [each.outcome for each in compactor.run_once().partitions] == ["failed"]
    assert len(engine.prepared) == 1
    monkeypatch.undo()
    (job,) = compactor.run_once().jobs
    assert job.status == "completed"


def test_an_output_that_vanishes_while_its_record_is_written_is_not_committed(
    far: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look was made beside the first attempt to write the record, which took long."""
    store = noted(far)
    create, slow = store.create, [True]

    def slowly(key: str, body: bytes, frees: bool = False) -> Any:
        if slow and b'"done"' in body and "/compactor/" in key:
            slow.clear()
            clock.now_ms += 60_000
            (made,) = segments(store) - before
            store.delete([made])
            return Outcome.UNKNOWN
        return create(key, body, frees)

    clock = HandClock()
    driver = Driver(store, clock=clock)
    before = segments(store)
    monkeypatch.setattr(store, "create", slowly)
    looked = lithify.Compactor(Warehouse(driver), "local").run_once()
    assert not slow
    assert "missing or damaged" in looked.partitions[0].detail


class Told(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[Sequence[MergeTask]] = []
        self.started: list[Sequence[MergeTask]] = []

    def prepare(self, tasks: Sequence[MergeTask]) -> None:
        self.prepared.append(tasks)

    def start(self, tasks: Sequence[MergeTask]) -> None:
        self.started.append(tasks)
        super().start(tasks)


ONE_RANGE = {"cleanup.policy": "compact", "l0.segments.tier": "4"}
RANGES = ONE_RANGE | {"compaction.output.bytes": "1024"}
THROTTLED = RANGES | {"compaction.throttle.bytes.per.second": "100"}


@pytest.mark.parametrize(
    ("config", "prepared", "begun"),
    [(ONE_RANGE, 1, 1), (RANGES, 1, 3), (THROTTLED, 1, 1)],
    ids=["one", "three", "slow"],
)
def test_what_is_prepared_is_what_is_started(config: dict[str, str], prepared: int, begun: int) -> None:
    """Where footers decide the ranges, beside the admission only. Under a throttle, the first wave."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    held, engine = Held(world, Coordinator(PartitionFiles(KEYS), "me:1").step(parse(config))), Told()
    while not engine.started:
        engine.advance(held)
    assert len(engine.prepared) == prepared
    assert len(engine.started[0]) == begun
    assert all(each == engine.started[0] for each in engine.prepared)


def test_an_append_between_look_and_claim_is_planned() -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    looked = world.alone(Coordinator(PartitionFiles(KEYS), "me:1").heads())
    world.alone(append_rows(PartitionFiles(KEYS), ROWS[:1]))
    held, engine = Held(world, Coordinator(PartitionFiles(KEYS), "me:1").step(parse(ONE_RANGE), heads=looked)), Told()
    while not engine.started:
        engine.advance(held)
    in_vain, again = engine.prepared
    assert again == engine.started[0]
    assert len(again[0].sources) == len(in_vain[0].sources) + 1
    assert again[0].rules.coverage_offset > in_vain[0].rules.coverage_offset
