"""What a service does with each look and each turn of a partition where something is odd.

Nothing can be listed, a look fails, a partition has had all its turns, or a fault of ours has left a coordinator in an
unknown state.
"""

from typing import Any

import pytest

import lithify
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.info import PartitionReport
from lithify.compactor.served import LOOK_AGAIN, ServedPartition
from lithify.compactor.service import Place, Service
from lithify.events.notices import Lost, Trouble
from lithify.events.types import Event
from lithify.manifest.ended import Known
from lithify.store.apart import Fault
from lithify.store.errors import EpochRegression, Unavailable
from tests.compactor.serving import append_to

EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def begun(warehouse: lithify.Warehouse, *, serves: bool, take_over: bool = False) -> tuple[Service, list[Any]]:
    """A service in a warehouse with one partition that has work to do, and what it told."""
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    told: list[Event | PartitionReport] = []
    service = Service(warehouse.driver, LocalEngine(1), None, "w:1", lambda: False, told.append)
    service.begin(take_over=take_over, serves=serves, tell=told.append)
    return service, told


def only(service: Service) -> tuple[Place, ServedPartition]:
    (place,) = service.find()
    (partition,) = service.partitions
    return place, partition


def test_who_serves_goes_on_with_what_it_knows_where_topics_cannot_be_listed(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, told = begun(warehouse, serves=True)
    place, _ = only(service)

    def refused(self: Known) -> Any:
        raise Unavailable("no listing")

    monkeypatch.setattr(Known, "topics", refused)
    assert service.find() == (place,)
    assert [event.what for event in told if isinstance(event, Trouble)] == ["topics not listed"]
    service.begin(take_over=False, serves=False)
    with pytest.raises(Unavailable, match="no listing"):
        service.find()


def test_a_look_that_fails_is_told_and_the_partition_has_a_turn_nevertheless(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, told = begun(warehouse, serves=True)
    place, _ = only(service)

    def fails(self: ServedPartition, answers: Any) -> Any:
        raise TypeError("odd")

    monkeypatch.setattr(ServedPartition, "look", fails)
    assert service.look(place) == LOOK_AGAIN
    assert [event.what for event in told if isinstance(event, Trouble)] == ["partition not ranked"]


@pytest.mark.parametrize("serves", [False, True])
def test_a_pass_ends_with_a_partition_that_has_had_all_its_turns(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch, serves: bool
) -> None:
    """Who serves only reports it, and goes on."""
    monkeypatch.setattr("lithify.compactor.service.TURNS_MAX", 1)
    service, told = begun(warehouse, serves=serves)
    place, _ = only(service)
    want = service.look(place)
    assert want is not None
    assert service.turn(place, want).want is None
    assert len([each for each in told if isinstance(each, PartitionReport)]) == serves
    append_to(warehouse.topic("users").partition(0), 8)
    assert (service.look(place) is not None) == serves


def test_a_look_that_finds_nothing_to_do_is_a_rest_and_reported(warehouse: lithify.Warehouse) -> None:
    service, told = begun(warehouse, serves=True)
    warehouse.topic("users").alter({"compaction.paused": True})
    place, _ = only(service)
    want = service.look(place)
    while want is not None:
        want = service.turn(place, want).want
    told.clear()
    assert service.look(place) is None
    assert [report.detail for report in told if isinstance(report, PartitionReport)] == ["compaction.paused is true"]


def test_only_what_the_first_round_finds_is_taken_over(warehouse: lithify.Warehouse) -> None:
    service, _ = begun(warehouse, serves=True, take_over=True)
    _, partition = only(service)
    assert partition.take_over
    warehouse.create_topic("later", 1, EAGER)
    service.find()
    assert {each.keys.topic: each.take_over for each in service.partitions} == {"users": True, "later": False}


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize("owned", [False, True])
def test_after_a_fault_of_ours_a_new_coordinator_stands_by_only_where_it_did_and_owns_nothing(
    warehouse: lithify.Warehouse, serves: bool, owned: bool
) -> None:
    """Else it would wait for its own former self to show no life."""
    service, _ = begun(warehouse, serves=serves)
    place, partition = only(service)
    want = service.look(place)
    if owned:
        assert want is not None
        service.turn(place, want)
    assert partition.owned == owned
    former = partition._coordinator
    partition.failed(Fault.of(TypeError("odd")))
    assert partition._coordinator is not former
    assert partition._coordinator._stands_by == (serves and not owned)
    assert partition.owned == owned, "until another takes it over"


def test_a_store_that_went_back_in_time_is_told_of_as_lost_and_not_as_a_failure_too(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, told = begun(warehouse, serves=False)
    place, partition = only(service)
    want = service.look(place)
    assert want is not None

    async def regressed(self: Coordinator, *_: Any) -> Any:
        raise EpochRegression("back in time")

    monkeypatch.setattr(Coordinator, "step", regressed)
    assert service.turn(place, want).want is None
    assert partition.regressed
    assert [type(event) for event in told if isinstance(event, Trouble | Lost)] == [Lost]
