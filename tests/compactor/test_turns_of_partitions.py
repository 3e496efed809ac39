"""One partition keeps no other waiting: not by a long job, not by many, and not by a fault.

Tried, and caught here: no round while anybody works (scheduler.py), an edit's turn that may begin a job (service.py).
"""

import queue
from typing import Any

import pytest

import lithify
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.served import LOOK_AGAIN, ServedPartition
from lithify.compactor.service import Service
from lithify.events.event_log import log_event
from lithify.store.errors import ErrorKind
from tests.clock import HandClock
from tests.compactor.serving import HeldEngine, Running, append_to, eventually
from tests.e2e.workload import Workload

COMPACT = {"cleanup.policy": "compact"}
BIG_ROWS = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_long_job_keeps_no_other_partition_waiting(
    warehouse: lithify.Warehouse, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small work, retention and requests of others come while it runs; what came before it and what comes after."""
    monkeypatch.setattr("lithify.compactor.needs.SHORT_BYTES", 200_000)
    for number in range(concurrency):
        Workload(number, keys=50).append(warehouse.create_topic(f"big{number}", 1, COMPACT).partition(0), BIG_ROWS)
    small = warehouse.create_topic("small", 1, {**COMPACT, "min.cleanable.dirty.ratio": 0})
    old = warehouse.create_topic("old", 1, {"cleanup.policy": "delete"})
    asked = warehouse.create_topic("asked", 1, {"cleanup.policy": "delete"})
    engine = HeldEngine({f"big{number}" for number in range(concurrency)})
    with Running(lithify.Compactor(warehouse, engine, concurrency=concurrency, interval_ms=20)):
        assert engine.began.wait(60)
        for number in range(20):
            small.partition(0).append([lithify.Record(b"%d" % number, b"v")])
            old.partition(0).append([lithify.Record(b"%d" % number, b"v")])
            asked.partition(0).append([lithify.Record(b"%d" % number, b"v")])
        old.partition(0).delete_records(20)
        job = lithify.Admin(warehouse).submit("asked", 0)
        assert eventually(lambda: len(old.partition(0).describe().l0) == 0), "retention"
        assert eventually(lambda: len(small.partition(0).describe().l0) == 0), "routine work"
        assert eventually(lambda: lithify.Admin(warehouse).compaction(job.id).status == "completed"), "a request"
        assert lithify.Admin(warehouse).compactions("big0")[-1].status == "in_progress"
        engine.let_go.set()
        assert eventually(lambda: lithify.Admin(warehouse).compactions("big0")[-1].status == "completed")


@pytest.mark.slow
def test_a_hot_partition_has_one_job_and_then_all_are_ranked_anew(
    warehouse: lithify.Warehouse, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its jobs leaves another due; meanwhile another topic's records become overdue."""
    config = {"cleanup.policy": "delete", "l0.segments.tier": "2", "runs.tier": "256"}
    hot = warehouse.create_topic("hot", 1, config).partition(0)
    lag = {**COMPACT, "max.compaction.lag.ms": "3600000", "min.cleanable.dirty.ratio": "1"}
    late = warehouse.create_topic("late", 1, lag).partition(0)
    append_to(hot, 4)
    late.append([lithify.Record(b"k", b"v", clock.now_ms)])
    jobs: list[str] = []
    looks: queue.SimpleQueue[str] = queue.SimpleQueue()
    look = ServedPartition.look

    def noted(self: ServedPartition, answers: Any) -> Any:
        found = look(self, answers)
        looks.put(self.keys.topic)
        return found

    class Hot(LocalEngine):
        def start(self, homes: Any, tasks: Any, label: str) -> Any:
            jobs.append(tasks[0].keys.topic)
            if jobs.count("hot") < 20:
                append_to(hot, 4)
            clock.now_ms += 2_000_000
            while not looks.empty():
                looks.get()
            for _ in range(3 if "late" not in jobs else 0):  # a look that began after that, and was taken in
                while looks.get(timeout=60) != "late":
                    pass
            return super().start(homes, tasks, label)

    monkeypatch.setattr(ServedPartition, "look", noted)
    compactor = lithify.Compactor(warehouse, Hot(1), concurrency=1, interval_ms=1)
    compactor.run_once()
    compactor.close()
    assert jobs.count("hot") == 20
    assert jobs.index("late") == 2, "overdue since the second"


def test_a_fault_of_ours_in_one_partition_keeps_no_deferred_one_from_its_turn(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = warehouse.create_topic("users", 6, COMPACT)
    for number in range(6):
        append_to(topic.partition(number), 8)
    step = Coordinator.step

    async def faulty(self: Coordinator, *args: Any) -> Any:
        done = await step(self, *args)
        if self.files.keys.partition in (1, 4) and done.job is not None:
            raise TypeError("one odd record")
        return done

    monkeypatch.setattr(Coordinator, "step", faulty)
    compactor = lithify.Compactor(warehouse, engine="local", concurrency=3, bytes_in_flight=1)
    report = compactor.run_once()
    compactor.close()
    bug = ErrorKind.UNEXPECTED
    assert [part.fault and part.fault.kind for part in report.partitions] == [None, bug, None, None, bug, None]
    assert {part.outcome for part in report.partitions if not part.fault} == {"worked"}
    assert not any(topic.partition(number).describe().l0 for number in range(6))


def test_a_store_that_went_back_in_time_ends_the_service_and_keeps_what_others_recorded(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "big"):
        Workload(1, keys=50).append(warehouse.create_topic(name, 1, COMPACT).partition(0), 200)
    engine = HeldEngine({"big"})
    step = Coordinator.step

    async def regressed(self: Coordinator, *args: Any) -> Any:
        if self.files.keys.topic == "bad":
            assert engine.began.wait(60)
            raise lithify.EpochRegression("back in time")
        return await step(self, *args)

    monkeypatch.setattr(Coordinator, "step", regressed)
    compactor = lithify.Compactor(warehouse, engine)
    with pytest.raises(lithify.EpochRegression, match="back in time"):
        compactor.run()
    (job,) = lithify.Admin(warehouse).compactions("big")
    assert (job.status, job.attempts[0].error) == ("in_progress", None), "told to rest, and no failure"
    with pytest.raises(lithify.EpochRegression, match="back in time"):
        compactor.run()
    compactor.close()


def test_a_turn_for_an_edit_begins_no_job(warehouse: lithify.Warehouse) -> None:
    """What came since the look needs a worker, and waits for one."""
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    service = Service(warehouse.driver, LocalEngine(1), None, "w:1", lambda: False, log_event)
    service.begin(take_over=False, serves=False)
    (place,) = service.find()
    append_to(part, 8)
    turned = service.turn(place, LOOK_AGAIN)
    assert turned.want is not None
    assert (turned.want.bytes > 0, turned.deferred, len(part.describe().l0)) == (True, False, 8)
    assert service.turn(place, turned.want).want is None, "what it committed says that nothing is due"
    assert len(part.describe().l0) == 0
    assert [report.outcome for report in service.reports()] == ["worked"]


def test_a_partition_is_relieved_beside_its_own_long_job(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends go on, and what lies below the floor is retired."""
    monkeypatch.setattr("lithify.compactor.needs.SHORT_BYTES", 10_000)
    config = {**COMPACT, "l0.segments.max": 24, "l0.segments.tier": 4}
    part = warehouse.create_topic("hot", 1, config).partition(0)
    append_to(part, 8)
    engine = HeldEngine({"hot"})  # its first job
    with Running(lithify.Compactor(warehouse, engine, concurrency=1, interval_ms=20)):
        assert engine.began.wait(60)
        (first,) = lithify.Admin(warehouse).compactions("hot")
        for number in range(60):
            assert eventually(lambda number=number: is_taken(part, number)), f"append {number}"
        jobs = {job.id: job for job in lithify.Admin(warehouse).compactions("hot")}
        assert jobs[first.id].status == "in_progress"
        assert any("slowed down" in job.reason for job in jobs.values())
        before = part.describe()
        held = set(first.sources)
        part.delete_records(before.next_offset)
        assert eventually(lambda: {s.id for s in part.describe().l0} <= held and not part.describe().runs), "retention"
        engine.let_go.set()
        assert eventually(lambda: lithify.Admin(warehouse).compaction(first.id).status == "completed")
    assert [record.offset for record in part.read()] == []


def test_explain_tells_what_relieves_a_partition_beside_its_job(warehouse: lithify.Warehouse) -> None:
    config = {**COMPACT, "l0.segments.max": 24, "l0.segments.tier": 4}
    part = warehouse.create_topic("hot", 1, config).partition(0)
    append_to(part, 8)
    engine, admin = HeldEngine({"hot"}), lithify.Admin(warehouse)
    assert admin.explain("hot", 0).beside is None, "no job runs"
    with Running(lithify.Compactor(warehouse, engine, concurrency=1, interval_ms=600_000)):
        assert engine.began.wait(60)
        assert admin.explain("hot", 0).beside is None, "there is no pressure"
        append_to(part, 12)
        found = admin.explain("hot", 0)
        assert found.action == "resume"
        assert found.beside is not None
        assert (found.beside.action, found.beside.reason) == (
            "propose",
            "appends are slowed down: 20 L0 segments of at most 24",
        )
        engine.let_go.set()


def is_taken(partition: lithify.Partition, number: int) -> bool:
    try:
        partition.append([lithify.Record(b"%d" % (number % 7), b"v")])
    except lithify.Unavailable:
        return False
    return True
