"""What people wish while a job is planned, throttled, verified or merged is heard between any two of its steps: that
its compactor leaves or pauses, and that the job ends (P15, docs/rfcs/0014)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import (
    NextResults,
    Reserve,
    VerifyOutputs,
    WeighSegment,
)
from lithify.compactor.progress import HEARTBEAT_MS
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.compactor.step import Step
from lithify.manifest.config import parse
from lithify.manifest.jobs import CompactorState, Job
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.segment.task import MergeTask
from lithify.store.port import Now, Pause
from tests.compactor.scripted_engine import Landed, ScriptedEngine
from tests.compactor.simulated_engine import Row, merge
from tests.interleave import World
from tests.protocol.scene import KEYS, Held, append_rows, new_partition

ROWS: list[list[Row]] = [[(f"k{n}", n, "v", None) for n in range(6)]] * 4
SMALL = {"cleanup.policy": "compact", "compaction.output.bytes": "1024"}
THROTTLED = {**SMALL, "compaction.throttle.bytes.per.second": "100"}  # one range a wave, and 80 s for each


class Scene(ScriptedEngine):
    """One partition and its compactors; the clock goes on while they pause, and as far as each look takes."""

    def __init__(self, settings: dict[str, str] = SMALL) -> None:
        self.world: World = new_partition()
        self.world.alone(append_rows(PartitionFiles(KEYS), ROWS))
        super().__init__(lambda task: self.world.alone(merge(KEYS, task)))
        self.now_ms, self.look_ms, self.merge_ms = 10_000_000, 0, 0
        self.stops = False
        self.waves: list[int] = []
        self.ready = 1_000  # ranges that land; then the engine tells nothing any more
        self._config = parse(settings)

    @property
    def state(self) -> CompactorState:
        found = self.world.alone(PartitionFiles(KEYS).compactor_state())
        assert found is not None
        return found

    def submit(self) -> str:
        files = PartitionFiles(KEYS)
        asked = Job(id=SegmentId.for_job(1, "c" * 16), status="submitted", origin="manual", created_at_ms=self.now_ms)
        self.world.alone(files.compactor.commit(Submit(first_state(self.world.alone(files.head())), asked)))
        return asked.id

    def cancel(self) -> None:
        self.world.alone(PartitionFiles(KEYS).compactor.commit(RequestCancel(self.state.jobs[0].id)))

    def leave(self) -> None:
        self.stops = True

    def step(self, when: type = Reserve, nth: int = 0, wish: Callable[[], None] = lambda: None) -> tuple[Step, int]:
        """One step of a compactor; at its `nth` request of that kind somebody has a `wish`. How it ends, and how often
        it asked for as much after that."""
        held, asked = Held(self.world, Coordinator(PartitionFiles(KEYS), "w:1").step(self._config)), 0
        while held.request is not None:
            request = held.request
            if isinstance(request, when):
                asked += 1
                if asked == nth:
                    wish()
            self.advance(held)
        return held.result, max(asked - nth, 0)

    def knows(self, request: Any) -> bool:
        return super().knows(request) or isinstance(request, Now | Pause)

    def answer(self, request: Any) -> Any:
        match request:
            case Now():
                return self.now_ms
            case Pause(ms):
                self.now_ms += ms
                return None
            case _:
                return super().answer(request)

    def weigh(self, request: WeighSegment) -> tuple[Any, ...]:
        self.now_ms += self.look_ms
        return super().weigh(request)

    def verify(self, request: VerifyOutputs) -> frozenset[str]:
        self.now_ms += self.look_ms
        return super().verify(request)

    def start(self, tasks: Sequence[MergeTask]) -> None:
        self.waves.append(len(tasks))
        super().start(tasks)

    def look(self, timeout_ms: int) -> Landed:
        self.now_ms += self.merge_ms
        self.ready -= 1
        self.stops |= self.ready < 0
        return super().look(timeout_ms) if self.ready >= 0 else ()

    def stop_asked(self) -> bool:
        return self.stops


def is_cancelled(scene: Scene, step: Step) -> bool:
    """For good, and nothing of it is in the manifest."""
    assert step.job is not None
    assert (step.job.status, scene.state.jobs) == ("cancelled", ())
    return not scene.world.alone(PartitionFiles(KEYS).head()).runs


def rests(scene: Scene, step: Step, ranges: int) -> bool:
    """With what is recorded; the attempt has ended, and is no failure."""
    (job,), failures = scene.state.jobs, scene.state.failures
    assert (step.outcome, len(job.done), failures) == ("stopped", ranges, ())
    return all(a.ended_at_ms is not None and a.error is None for a in job.attempts)


def test_a_throttled_job_is_cancelled_before_its_next_wave() -> None:
    """Each wave has one range, which lands within a heartbeat."""
    scene = Scene(THROTTLED)
    step, later = scene.step(NextResults, 1, scene.cancel)
    assert is_cancelled(scene, step)
    assert (scene.waves, later) == ([1], 0)


def test_a_throttled_job_whose_ranges_take_longer_than_the_throttle_is_cancelled_as_well() -> None:
    scene = Scene(THROTTLED)
    scene.merge_ms = 100_000
    step, later = scene.step(NextResults, 2, scene.cancel)
    assert is_cancelled(scene, step)
    assert (scene.waves, later) == ([1, 1], 0)


def test_who_waits_under_a_throttle_hears_a_cancellation_within_a_heartbeat() -> None:
    scene, asked_ms = Scene(THROTTLED), list[int]()

    def cancel() -> None:
        asked_ms.append(scene.now_ms)
        scene.cancel()

    step, _ = scene.step(Pause, 3, cancel)
    assert is_cancelled(scene, step)
    assert scene.now_ms - asked_ms[0] <= 2 * HEARTBEAT_MS


def test_what_is_cancelled_before_its_last_range_is_recorded_is_not_committed() -> None:
    scene = Scene()
    step, _ = scene.step(NextResults, 3, scene.cancel)
    assert is_cancelled(scene, step)


def test_a_stop_between_two_waves_begins_no_other() -> None:
    scene = Scene(THROTTLED)
    step, _ = scene.step(Pause, 3, scene.leave)
    assert rests(scene, step, 1)
    assert scene.waves == [1]


@pytest.fixture
def resumed() -> Scene:
    """Two of three ranges are recorded; its compactor has left."""
    scene = Scene()
    scene.ready = 2
    step, _ = scene.step()
    assert rests(scene, step, 2)
    scene.ready, scene.stops = 1_000, False
    return scene


def test_who_is_told_to_stop_over_what_is_recorded_looks_at_no_more_of_it(resumed: Scene) -> None:
    step, later = resumed.step(VerifyOutputs, 1, resumed.leave)
    assert rests(resumed, step, 2)
    assert later == 0
    assert len(resumed.waves) == 1, "no task begins"
    resumed.stops = False
    assert resumed.step()[0].job.status == "completed"  # type: ignore[union-attr]


def test_a_long_look_at_one_output_is_broken_off(resumed: Scene) -> None:
    """It is made in stretches; after each of them somebody asks."""
    held, stretches = Held(resumed.world, Coordinator(PartitionFiles(KEYS), "w:1").step(parse(SMALL))), 0
    while held.request is not None:
        if isinstance(held.request, VerifyOutputs):
            stretches += 1
            resumed.stops = stretches == 3
            held.reply(None)
        else:
            resumed.advance(held)
    assert rests(resumed, held.result, 2)
    assert stretches == 3


def test_a_cancellation_is_heard_over_what_is_recorded(resumed: Scene) -> None:
    resumed.look_ms = HEARTBEAT_MS
    step, later = resumed.step(VerifyOutputs, 1, resumed.cancel)
    assert is_cancelled(resumed, step)
    assert later == 0


def test_who_is_told_to_stop_before_a_long_look_ends_rests_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last look it commits: to rest there costs the next attempt a look at every byte."""
    monkeypatch.setattr("lithify.compactor.look.OUTPUTS_A_LOOK", 1)
    scene = Scene()
    step, later = scene.step(VerifyOutputs, 1, scene.leave)
    assert rests(scene, step, 3)
    assert later == 0
    scene.stops = False
    step, _ = scene.step(VerifyOutputs, 6, scene.leave)  # three whole, and three before the commit
    assert step.job is not None
    assert step.job.status == "completed"


def test_who_is_told_to_stop_while_it_plans_reads_no_more_and_begins_no_job() -> None:
    scene = Scene()
    step, later = scene.step(WeighSegment, 2, scene.leave)
    assert (step.outcome, later, scene.state.jobs, scene.state.planning) == ("stopped", 0, (), False)
    assert "told to stop during planning" in step.detail


def test_a_request_that_is_cancelled_while_it_is_planned_ends() -> None:
    scene = Scene()
    scene.look_ms = HEARTBEAT_MS
    asked = scene.submit()
    step, later = scene.step(WeighSegment, 1, scene.cancel)
    assert (step.outcome, later) == ("worked", 0)
    assert not scene.waves
    step, _ = scene.step()
    assert is_cancelled(scene, step)
    assert step.job is not None
    assert step.job.id == asked


def test_who_claims_for_a_request_that_is_cancelled_meanwhile_asks_for_no_room_to_end_it() -> None:
    """What it decides under its claim is an edit: that waits for no other job."""
    scene, asked = Scene(), list[int]()
    job = scene.submit()

    def reserve(request: Reserve) -> bool:
        asked.append(request.input_bytes)
        if len(asked) == 1:
            scene.cancel()
        return len(asked) == 1

    scene.reserve = reserve  # type: ignore[method-assign]
    step, _ = scene.step()
    assert is_cancelled(scene, step)
    assert step.job is not None
    assert (step.job.id, len(asked), asked[0] > 0) == (job, 1, True)
