"""How much at once, how fast, and not now: bytes in flight, the throttle, the pause."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import lithify
from lithify.compactor.answers import Budget
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.room import Load
from lithify.manifest.config import parse
from lithify.manifest.partition import PartitionFiles
from lithify.segment.task import MergeTask
from lithify.store.driver import new_id
from lithify.store.port import Now, Pause
from tests.compactor.scripted_engine import ScriptedEngine
from tests.compactor.simulated_engine import Row, merge
from tests.e2e.workload import Workload
from tests.interleave import World
from tests.protocol.scene import KEYS, Held, append_rows, new_partition

ROWS: list[list[Row]] = [[(f"k{n}", n, "v", None) for n in range(6)]] * 2


def test_what_is_in_flight_has_a_limit_and_the_largest_runs_alone() -> None:
    budget = Budget(100)
    assert budget.take(Load(70))
    assert not budget.take(Load(31))
    assert budget.take(Load(30))
    budget.give_back(Load(70))
    budget.give_back(Load(30))
    assert budget.take(Load(1_000))
    assert not budget.take(Load(1))
    assert all(Budget().take(Load(1 << 60)) for _ in range(2))


def test_one_short_job_at_a_time_is_not_counted() -> None:
    """Else a job larger than the limit would stop what relieves pressure for hours, and with it appends."""
    budget, short = Budget(100), Load(60, short=True)
    assert budget.take(Load(1_000))
    assert budget.take(short)
    assert not budget.take(short), "one"
    assert not budget.take(Load(1))
    budget.give_back(Load(1_000))
    assert budget.take(Load(1_000)), "nor does that one wait for it"
    budget.give_back(short)
    assert budget.take(short)


def test_beside_what_runs_alone_nothing_runs() -> None:
    budget, guilty = Budget(), Load(1, alone=True)
    assert budget.take(Load(1))
    assert not budget.take(guilty)
    budget.give_back(Load(1))
    assert budget.take(guilty)
    assert not budget.take(Load(1))
    assert not budget.take(Load(1, short=True))
    assert not budget.take(guilty)
    budget.give_back(guilty)
    assert budget.take(Load(1, short=True))
    assert not budget.take(guilty)
    assert all(budget.take(Load(1)) for _ in range(2))


@pytest.fixture
def warehouse() -> Iterator[lithify.Warehouse]:
    with lithify.open(f"memory://{new_id()}") as opened:
        yield opened


def test_who_finds_no_room_is_deferred_and_has_its_turn_in_the_same_pass(warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("users", 6, {"cleanup.policy": "compact"})
    for number in range(6):
        Workload(number, keys=50).append(topic.partition(number), 200)
    compactor = lithify.Compactor(warehouse, engine="local", concurrency=3, bytes_in_flight=1)
    report = compactor.run_once()
    assert [part.outcome for part in report.partitions] == ["worked"] * 6
    assert not report.more_work
    compactor.close()


def test_overdue_partitions_go_first(warehouse: lithify.Warehouse) -> None:
    config = {"cleanup.policy": "compact", "max.compaction.lag.ms": 1_000}
    lazy = warehouse.create_topic("a", 1, {"cleanup.policy": "compact"})
    late = warehouse.create_topic("b", 1, config)
    Workload(1, keys=50).append(lazy.partition(0), 200)
    late.partition(0).append([lithify.Record(b"k", b"v", 1)])
    compactor = lithify.Compactor(warehouse, engine="local", concurrency=1)
    report = compactor.run_once()
    began = {job.id.split("/")[0]: job.started_at for part in report.partitions for job in part.jobs}
    assert [part.topic for part in report.partitions] == ["a", "b"], "reported by name"
    assert (began["b"] or 0) <= (began["a"] or 0)
    compactor.close()


class Hands(ScriptedEngine):
    """Answers a coordinator by hand; its clock goes on only while it pauses."""

    def __init__(
        self, config: dict[str, str], stop_after: int | None = None, steps_back_after: int | None = None
    ) -> None:
        self.world: World = new_partition()
        self.world.alone(append_rows(PartitionFiles(KEYS), ROWS))
        super().__init__(lambda task: self.world.alone(merge(KEYS, task)))
        self.waves: list[int] = []
        self.paused_ms = 0
        self._stop_after = stop_after
        self._steps_back_after = steps_back_after  # by an hour
        settings = parse({"cleanup.policy": "compact", **config})
        self._held = Held(self.world, Coordinator(PartitionFiles(KEYS), "w:1").step(settings))

    def run(self) -> object:
        while self._held.request is not None:
            self.advance(self._held)
        return self._held.result

    def knows(self, request: Any) -> bool:
        return super().knows(request) or isinstance(request, Now | Pause)

    def answer(self, request: Any) -> Any:
        match request:
            case Now():
                back = self._steps_back_after is not None and self.paused_ms > self._steps_back_after
                return 10_000_000 + self.paused_ms - 3_600_000 * back
            case Pause(ms):
                self.paused_ms += ms
                return None
            case _:
                return super().answer(request)

    def start(self, tasks: Sequence[MergeTask]) -> None:
        self.waves.append(len(tasks))
        super().start(tasks)

    def stop_asked(self) -> bool:
        return self._stop_after is not None and self.paused_ms > self._stop_after


def test_without_a_throttle_all_ranges_start_at_once() -> None:
    hands = Hands({"compaction.output.bytes": "1024"})
    hands.run()
    assert (hands.waves, hands.paused_ms) == ([3], 0)


def test_a_throttled_job_takes_its_ranges_in_turn() -> None:
    # 12 rows of 1,000 bytes in 3 ranges: 4,000 bytes each, at 100 a second.
    hands = Hands({"compaction.output.bytes": "1024", "compaction.throttle.bytes.per.second": "100"})
    assert hands.run().outcome == "worked"  # type: ignore[attr-defined]
    assert hands.waves == [1, 1, 1]
    assert hands.paused_ms == 80_000, "the last range has its time before the next job"
    ended = hands.world.alone(PartitionFiles(KEYS).compactor_state()).history[-1]
    assert ended.paced_to_ms == ended.started_at_ms, "the simulated engine counts no bytes"


def test_a_clock_that_steps_back_under_a_throttle_keeps_nobody_waiting() -> None:
    settings = {"compaction.output.bytes": "1024", "compaction.throttle.bytes.per.second": "100"}
    hands = Hands(settings, steps_back_after=5_000)
    assert hands.run().outcome == "worked"  # type: ignore[attr-defined]
    assert hands.paused_ms < 80_000, "an hour, else"


def test_a_throttled_job_that_is_told_to_stop_keeps_what_it_has() -> None:
    settings = {"compaction.output.bytes": "1024", "compaction.throttle.bytes.per.second": "100"}
    hands = Hands(settings, stop_after=20_000)
    assert hands.run().outcome == "stopped"  # type: ignore[attr-defined]
    state = hands.world.alone(PartitionFiles(KEYS).compactor_state())
    assert [done.index for done in state.jobs[0].done] == [0]
    assert state.heartbeat_at_ms >= 1_010_000, "it showed life while it waited"


def test_a_paused_topic_waits_until_it_is_not(warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"})
    Workload(1, keys=50).append(topic.partition(0), 200)
    topic.alter({"compaction.paused": True})
    compactor = lithify.Compactor(warehouse, engine="local")
    (part,) = compactor.run_once().partitions
    assert (part.outcome, part.detail, part.jobs) == ("idle", "compaction.paused is true", ())
    topic.alter({"compaction.paused": False})
    (part,) = compactor.run_once().partitions
    assert part.outcome == "worked"
    compactor.close()


class HoldingEngine(LocalEngine):
    """Its work begins, then something happens, and nothing lands any more."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__(1)
        self._happens = happens

    def start(self, *args: Any, **kwargs: Any) -> Any:
        self._happens()
        return Withheld(super().start(*args, **kwargs))


class Withheld:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def results(self, timeout_ms: int) -> tuple[()]:
        return ()

    def stop(self) -> None:
        self._inner.stop()


def test_a_topic_paused_while_its_job_runs_rests_with_it() -> None:
    clock_ms = [1_000_000]
    with lithify.open(f"memory://{new_id()}", clock=lambda: clock_ms[0]) as warehouse:
        topic = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"})
        Workload(1, keys=50).append(topic.partition(0), 200)

        def pause() -> None:
            topic.alter({"compaction.paused": True})
            clock_ms[0] += 10_000

        compactor = lithify.Compactor(warehouse, engine=HoldingEngine(pause))
        (part,) = compactor.run_once().partitions
        assert part.outcome == "stopped"
        (job,) = lithify.Admin(warehouse).compactions("users")
        assert (job.status, job.attempts[0].error) == ("in_progress", None)
        compactor.close()
        topic.alter({"compaction.paused": None})
        going_on = lithify.Compactor(warehouse, engine="local")
        assert going_on.run_once().jobs[0].status == "completed"
        going_on.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_job_of_a_topic_that_is_deleted_rests(again: bool) -> None:
    """Another one may have its name."""
    clock_ms = [1_000_000]
    with lithify.open(f"memory://{new_id()}", clock=lambda: clock_ms[0]) as warehouse:
        topic = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"})
        Workload(1, keys=50).append(topic.partition(0), 200)

        def delete() -> None:
            warehouse.delete_topic("users")
            if again:
                warehouse.create_topic("users", 1, {"cleanup.policy": "compact"})
            clock_ms[0] += 10_000

        compactor = lithify.Compactor(warehouse, engine=HoldingEngine(delete))
        assert [part.outcome for part in compactor.run_once().partitions][:1] == ["stopped"]
        compactor.close()


def test_several_compactors_share_no_budget() -> None:
    budget, taken = Budget(10), []
    threads = [threading.Thread(target=lambda: taken.append(budget.take(Load(10)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]
