"""The turns of the relief beside a running job, as its service gives them (docs/rfcs/0014).

What each asks for next, what is reported of them, and what a fault in one of them leaves. All is done in one thread:
the tasks of the first job begin once the test has done what it does beside that job.
"""

from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.compactor.answers import Budget
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.scheduler import Turned
from lithify.compactor.served import LOOK_AGAIN, ServedTopic
from lithify.compactor.service import Place, Service
from lithify.compactor.turns import Want
from lithify.events.notices import Trouble
from lithify.events.types import Event
from lithify.store.errors import Unavailable
from tests.compactor.serving import append_to

HOT = {"cleanup.policy": "compact", "l0.segments.tier": 4, "l0.segments.max": 40}
HELD, LATER = 8, 26  # appends: the first job's, and those that press while it runs


class Meanwhile(LocalEngine):
    """Before the tasks of its first job begin, something else is done."""

    def __init__(self) -> None:
        super().__init__(1)
        self.does: Callable[[], None] | None = None
        self.failed: AssertionError | None = None  # the service would report it as a fault in the partition

    def start(self, homes: Any, tasks: Any, label: str) -> Any:
        does, self.does = self.does, None
        try:
            if does is not None:
                does()
        except AssertionError as failed:
            self.failed = failed
        return super().start(homes, tasks, label)


class Scene:
    """A partition with a job to do, and the service whose turn it is."""

    def __init__(self, warehouse: lithify.Warehouse) -> None:
        self.part = warehouse.create_topic("hot", 1, HOT).partition(0)
        append_to(self.part, HELD)
        self.engine, self.told = Meanwhile(), list[Event]()
        self.service = Service(warehouse.driver, self.engine, None, "w:1", lambda: False, self.told.append)
        self.service.begin(take_over=False, serves=False)
        (self.place,) = self.service.find()
        self.beside = Place(self.place.keys, beside=True)

    def first_job(self, meanwhile: Callable[[], None] | None = None) -> Turned:
        """The partition's turn, and what comes `meanwhile` once its job is admitted; it is called."""
        self.engine.does = meanwhile
        want = self.service.look(self.place)
        assert want is not None
        turned = self.service.turn(self.place, want)
        assert self.engine.does is None, "the job began"
        if self.engine.failed is not None:
            raise self.engine.failed
        return turned

    @property
    def troubles(self) -> list[Trouble]:
        return [event for event in self.told if isinstance(event, Trouble)]

    def wants(self) -> Want:
        """What the relief wants a turn for, after appends that press."""
        assert self.service.look(self.beside) is None, "nothing presses yet"
        append_to(self.part, LATER)
        want = self.service.look(self.beside)
        assert want is not None
        return want


@pytest.fixture
def scene(warehouse: lithify.Warehouse) -> Scene:
    return Scene(warehouse)


def test_the_relief_has_turn_after_turn_until_nothing_presses_and_all_it_did_is_reported(scene: Scene) -> None:
    def meanwhile() -> None:
        scene.wants()
        scene.part.delete_records(HELD + 2)
        drop = scene.service.look(scene.beside)
        assert drop is not None
        assert drop.bytes == 0
        turned = scene.service.turn(scene.beside, drop)
        assert turned.want is not None
        assert (turned.want.bytes > 0, turned.deferred) == (True, False), "appends are slowed down still"
        assert scene.service.turn(scene.beside, turned.want) == Turned(None)
        assert len(scene.part.describe().l0) == HELD

    scene.first_job(meanwhile)
    (report,) = scene.service.reports()
    assert (report.dropped_segments, [job.status for job in report.jobs]) == (2, ["completed", "completed"])
    assert not scene.troubles


def test_the_relief_that_finds_no_room_is_deferred_only_where_its_turn_was_for_a_job(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        want = scene.wants()
        assert want.bytes > 0
        assert scene.service.turn(scene.beside, LOOK_AGAIN) == Turned(want), "an edit's turn begins no job"
        with monkeypatch.context() as full:
            full.setattr(Budget, "take", lambda *_: False)
            assert scene.service.turn(scene.beside, want) == Turned(want, deferred=True)
        assert scene.service.turn(scene.beside, want) == Turned(None)

    scene.first_job(meanwhile)
    assert len(scene.service.reports()[0].jobs) == 2


@pytest.mark.slow
@pytest.mark.parametrize("error", [TypeError("one odd record"), Unavailable("the store is down")])
def test_a_fault_in_a_turn_of_the_relief_is_told_and_a_new_coordinator_relieves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What the one that failed knows is uncertain. The running job is not touched."""
    reliefs: list[Coordinator] = []
    step = Coordinator.step

    async def fails_once(self: Coordinator, *args: Any) -> Any:
        if self._main is not None:
            reliefs.append(self)
            if len(reliefs) == 1:
                raise error
        return await step(self, *args)

    monkeypatch.setattr(Coordinator, "step", fails_once)

    def meanwhile() -> None:
        assert scene.service.turn(scene.beside, scene.wants()) == Turned(None)
        assert [trouble.what for trouble in scene.troubles] == ["partition not relieved"]
        again = scene.service.look(scene.beside)
        assert again is not None
        assert scene.service.turn(scene.beside, again) == Turned(None)
        first, second = reliefs
        assert first is not second

    scene.first_job(meanwhile)
    (report,) = scene.service.reports()
    assert [job.status for job in report.jobs] == ["completed", "completed"]
    assert report.fault is None


@pytest.mark.slow
@pytest.mark.parametrize(("turns_max", "outcome"), [(2, "stopped"), (1, "worked")])
def test_a_pass_that_leaves_between_two_turns_was_told_to_stop_unless_it_had_all_its_turns(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, turns_max: int, outcome: str
) -> None:
    monkeypatch.setattr("lithify.compactor.served.TURNS_MAX", turns_max)
    turned = scene.first_job(lambda: append_to(scene.part, LATER))
    assert turned.want is not None, "there is more to do"
    assert [report.outcome for report in scene.service.reports()] == [outcome]


def test_a_pass_that_leaves_before_the_first_turn_was_told_to_stop(scene: Scene) -> None:
    assert [report.outcome for report in scene.service.reports()] == ["stopped"]


def test_what_a_service_knows_of_a_topic_that_it_cannot_read_it_keeps_and_of_one_that_is_deleted_it_forgets(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would lose its claim, with its configuration unreadable for a moment."""
    for name in ("deleted", "readable", "unreadable"):
        warehouse.create_topic(name, 2, HOT)
    service = Service(warehouse.driver, LocalEngine(1), None, "w:1", lambda: False, lambda _: None)
    service.begin(take_over=False, serves=True)
    assert len(service.find()) == 6
    before = {partition.keys: partition for partition in service.partitions}
    warehouse.delete_topic("deleted")
    read = ServedTopic.read

    def refused(self: ServedTopic) -> Any:
        if self._name == "unreadable":
            raise Unavailable("its configuration does not answer")
        return read(self)

    with monkeypatch.context() as denied:
        denied.setattr(ServedTopic, "read", refused)
        assert [place.keys.topic for place in service.find()] == ["readable"] * 2
        assert [(report.topic, report.outcome) for report in service.reports()][:1] == [("unreadable", "failed")]
    assert len(service.find()) == 4
    left = {partition.keys: partition for partition in service.partitions}
    assert left == {keys: partition for keys, partition in before.items() if keys.topic != "deleted"}
