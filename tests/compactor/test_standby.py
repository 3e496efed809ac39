"""Several compactors on one warehouse: who was fenced, or is started where another is the owner, stands by, and two do
not fence each other in turn.

Tried, and caught here: a standby that waits for nobody or for ever, or by what others write (coordinator.py), or as
long as there is more to retire, or whatever was retired, or though the owner works, or by what it saw before a pause
or a step of its clock (standby.py, coordinator.py), one that is none (served.py, and service.py at the start), a
service that ends when it lost one partition, or never, or what it never owned (service.py, served.py).
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.info import PartitionReport
from lithify.compactor.job_edits import ClaimState
from lithify.compactor.policy import LEASE_MS
from lithify.compactor.service import Service
from lithify.compactor.standby import Watched, watched
from lithify.events.event_log import log_event
from lithify.manifest.config import parse
from lithify.manifest.reading import Reading, first_state
from tests.clock import HandClock
from tests.compactor.serving import Running, append_to, eventually
from tests.e2e.workload import partition_files
from tests.protocol.scene import FIRST, claim, segment

COMPACT = {"cleanup.policy": "compact"}
EAGER = {**COMPACT, "min.cleanable.dirty.ratio": "0"}


def test_who_was_fenced_serves_again_once_its_rival_is_gone(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    users, others = (warehouse.create_topic(name, 1, COMPACT).partition(0) for name in ("users", "others"))
    mine, rival = (lithify.Compactor(warehouse, engine="local") for _ in range(2))
    for part in (users, others):
        append_to(part, 8)
    mine.run_once()
    append_to(users, 8)
    rival.run_once()
    append_to(users, 8)
    outcomes = {part.topic: part.outcome for part in mine.run_once().partitions}
    assert outcomes == {"users": "failed", "others": "idle"}, "it was fenced in one, and owns the other"
    found = []
    for _ in range(4):  # the rival never comes again
        clock.now_ms += LEASE_MS // 2
        found.append(next(part.outcome for part in mine.run_once().partitions if part.topic == "users"))
    assert found[0] == "standby", "for a lease it may still come"
    assert "worked" in found
    assert not users.describe().l0
    assert users.describe().compactor_epoch == 3


def test_a_service_ends_once_all_that_it_owned_was_taken_over_and_not_before(warehouse: lithify.Warehouse) -> None:
    users, others = (warehouse.create_topic(name, 1, EAGER).partition(0) for name in ("users", "others"))
    for part in (users, others):
        append_to(part, 8)
    with Running(lithify.Compactor(warehouse, engine="local", interval_ms=1)) as running:
        for part in (users, others):
            assert eventually(lambda part=part: not part.describe().l0)
        taken_over(warehouse, "users")
        append_to(users, 8)
        assert eventually(lambda: any(report.outcome == "standby" for report in running.told))
        append_to(others, 8)
        assert eventually(lambda: not others.describe().l0), "it owns that one"
        assert not running.ended
        taken_over(warehouse, "others")
        append_to(others, 8)
        assert eventually(lambda: bool(running.ended))
    assert [type(error) for error in running.ended] == [lithify.Fenced]
    assert len(users.describe().l0) == len(others.describe().l0) == 8, "they are left to whoever took them"


def test_what_is_taken_over_after_a_fault_there_is_owned_no_more(warehouse: lithify.Warehouse) -> None:
    """The coordinator that claimed it is gone with the fault, and the next one is never fenced: it claimed nothing."""
    parts = [warehouse.create_topic(name, 1, COMPACT).partition(0) for name in ("others", "users")]
    service = served(warehouse)
    for part in parts:
        append_to(part, 8)
    a_round(service)
    append_to(parts[1], 8)
    with patch("lithify.compactor.coordinator.Coordinator.step", side_effect=ValueError("a fault")):
        a_round(service)
    assert [each.owned for each in service.partitions] == [True, True]
    taken_over(warehouse, "users")
    a_round(service)
    assert [each.owned for each in service.partitions] == [True, False]
    taken_over(warehouse, "others")
    append_to(parts[0], 8)
    with pytest.raises(lithify.Fenced):
        a_round(service)


def taken_over(warehouse: lithify.Warehouse, topic: str) -> None:
    warehouse.driver.run(claim(partition_files(warehouse, topic), "rival"))


def test_a_service_that_is_started_stands_by_where_another_is_the_owner(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    """However long it was gone, and whoever asks for something meanwhile: the owner may be between two jobs."""
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    append_to(part, 8)
    lithify.Compactor(warehouse, engine="local").run_once()
    append_to(part, 8)
    told: list[PartitionReport] = []
    service = served(warehouse, told.append)
    for _ in range(4):
        a_round(service)
        lithify.Admin(warehouse).submit("users", 0)
        clock.now_ms += LEASE_MS // 3 + 1
    assert [report.outcome for report in told] == ["standby", "standby", "standby", "worked"]
    first, second, third = (report.detail for report in told[:3])
    assert " owns this, and may be about to begin; unless it does, this compactor begins in 30.0 s" in first
    assert "in 20.0 s" in second
    assert "in 10.0 s" in third
    assert part.describe().compactor_epoch == 2


@pytest.mark.slow
@pytest.mark.parametrize("again", ["at once", "a while later"])
def test_two_services_that_are_started_again_whenever_they_end_do_not_fence_each_other_in_turn(
    warehouse: lithify.Warehouse, clock: HandClock, again: str
) -> None:
    """What each of them remembered of being fenced is gone with its process."""
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    both: list[Service | None] = [served(warehouse), served(warehouse)]
    ended = 0
    for turn in range(40):
        append_to(part, 8)
        clock.now_ms += 10_000
        for number in (0, 1) if turn % 3 else (1, 0):  # whoever comes first
            try:
                a_round(both[number] or served(warehouse))
            except lithify.Fenced:
                ended += 1
                both[number] = served(warehouse) if again == "at once" else None
        both = [each or served(warehouse) for each in both]
    assert not part.describe().l0
    assert ended <= 1
    assert part.describe().compactor_epoch <= 2


def served(warehouse: lithify.Warehouse, tell: Callable[[PartitionReport], None] = lambda _: None) -> Service:
    service = Service(warehouse.driver, LocalEngine(1), None, "w:1", lambda: False, log_event)
    service.begin(take_over=False, serves=True, tell=tell)
    return service


def a_round(service: Service) -> None:
    """All are looked at, and each has its turns."""
    for place in service.find():
        want = service.look(place)
        while want is not None:
            want = service.turn(place, want).want


@pytest.mark.parametrize("serves", [True, False])
def test_who_loses_the_race_for_what_it_never_owned_stands_by(
    warehouse: lithify.Warehouse, clock: HandClock, monkeypatch: pytest.MonkeyPatch, *, serves: bool
) -> None:
    """Of two that find a dead owner's partition one looks between the halves of the other's claim."""
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    append_to(part, 8)
    lithify.Compactor(warehouse, engine="local").run_once()
    append_to(part, 8)
    told: list[PartitionReport] = []
    loser, winner = served(warehouse, told.append), served(warehouse)
    once = lithify.Compactor(warehouse, engine="local")
    for service in (loser, winner) if serves else (winner,):
        a_round(service)
    clock.now_ms += LEASE_MS
    apply = ClaimState.apply

    def beaten(self: ClaimState, *args: Any) -> Any:
        monkeypatch.setattr(ClaimState, "apply", apply)
        a_round(winner)
        return apply(self, *args)

    monkeypatch.setattr(ClaimState, "apply", beaten)
    if serves:
        a_round(loser)
    else:
        told = [*once.run_once().partitions]
    assert told[-1].outcome == "standby"
    assert told[-1].detail == "users/0: another compactor claimed epoch 3 first; waiting as a standby"
    assert part.describe().compactor_epoch == 3
    assert not part.describe().l0
    append_to(part, 8)  # and nobody comes
    for _ in range(2):
        clock.now_ms += LEASE_MS
        if serves:
            a_round(loser)
        else:
            once.run_once()
    assert part.describe().compactor_epoch == 4, "it serves what is left to it"


@pytest.mark.parametrize("passed_ms", [0, LEASE_MS // 2, LEASE_MS - 1])
def test_a_standby_whose_clock_steps_back_waits_for_a_whole_lease(
    warehouse: lithify.Warehouse, clock: HandClock, passed_ms: int
) -> None:
    """By more than has passed since it began to watch: what it reckoned by is not known to lie in the past any more."""
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    append_to(part, 8)
    lithify.Compactor(warehouse, engine="local").run_once()
    append_to(part, 8)
    told: list[PartitionReport] = []
    standby = served(warehouse, told.append)
    a_round(standby)
    clock.now_ms += passed_ms
    a_round(standby)
    clock.now_ms -= passed_ms + 1
    for wait_ms in (0, LEASE_MS - 1, 1):
        clock.now_ms += wait_ms
        a_round(standby)
    assert [report.outcome for report in told] == ["standby"] * 4 + ["worked"]


@pytest.mark.slow
def test_two_that_serve_the_same_partition_do_not_fence_each_other_in_turn(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    part = warehouse.create_topic("users", 1, COMPACT).partition(0)
    both = [lithify.Compactor(warehouse, engine="local") for _ in range(2)]
    fenced = 0
    for turn in range(40):
        append_to(part, 8)
        clock.now_ms += 10_000
        for compactor in both if turn % 3 else both[::-1]:  # whoever comes first
            try:
                compactor.run_once()
            except lithify.Fenced:
                fenced += 1
    assert not part.describe().l0
    assert fenced <= 1
    assert part.describe().compactor_epoch <= 2


RETAINED = {"cleanup.policy": "delete", "retention.ms": "60000"}


@pytest.mark.parametrize(("config", "every_s"), [({"compaction.paused": "true"}, 5), ({}, 10)])
def test_an_owner_that_retires_what_is_due_keeps_its_partition(
    warehouse: lithify.Warehouse, clock: HandClock, config: dict[str, str], every_s: int
) -> None:
    """At each look of the standby some more lies below the floor, and the owner writes no other sign of life."""
    topic = warehouse.create_topic("events", 1, RETAINED)
    part = topic.partition(0)
    append_to(part, 8)
    owner = served(warehouse)
    a_round(owner)
    topic.alter(config)
    standby = served(warehouse)
    for second in range(240):
        if second % every_s == 0:
            part.append([lithify.Record(b"k", b"v", timestamp_ms=clock.now_ms)])
        if second % 15 in (0, 8):
            a_round(standby if second % 15 else owner)
        clock.now_ms += 1_000
    assert part.describe().compactor_epoch == 1
    assert part.describe().log_start_offset > 8, "retention went on"


def test_an_owner_that_retires_what_another_would_merge_keeps_its_partition(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    """At each look of the standby there is something to merge; when the owner comes retention has overtaken it."""
    config = {**EAGER, "cleanup.policy": "compact,delete", "retention.ms": "8000"}
    part = warehouse.create_topic("sessions", 1, config).partition(0)
    owner, standby = (served(warehouse) for _ in range(2))
    append_to(part, 8)
    a_round(owner)
    for _ in range(8):
        part.append([lithify.Record(b"k", b"v", timestamp_ms=clock.now_ms)])
        a_round(standby)
        clock.now_ms += 10_000
        a_round(owner)
    assert part.describe().compactor_epoch == 1
    assert part.describe().log_start_offset == 16
    assert not part.describe().l0


def test_an_owner_that_works_keeps_its_partition_however_much_is_due(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    """At each look of the standby something is due, and the owner was at work within the lease."""
    part = warehouse.create_topic("users", 1, EAGER).partition(0)
    owner, standby = (served(warehouse) for _ in range(2))
    append_to(part, 8)
    a_round(owner)
    for _ in range(8):
        append_to(part, 8)
        a_round(standby)
        clock.now_ms += LEASE_MS // 3
        a_round(owner)
    assert part.describe().compactor_epoch == 1
    assert not part.describe().l0


def test_whatever_the_owner_does_begins_the_lease_anew() -> None:
    """A sign of life in `.compactor`, though every segment is still there; a segment that is gone, though there is
    none. What is appended is nobody's sign."""

    def looks(*seen: tuple[str, int]) -> int:
        """Since when the owner is silent after looks, one a second, at such segments and such a heartbeat."""
        known: Watched | None = None
        for second, (live, heartbeat_at_ms) in enumerate(seen):
            manifest = replace(FIRST, l0=tuple(map(segment, live)))
            state = replace(first_state(FIRST), heartbeat_at_ms=heartbeat_at_ms)
            known = watched(known, Reading(manifest, state, parse(EAGER), second))
        assert known is not None
        return known.since_ms

    assert looks(("ab", 7), ("ab", 7), ("abc", 7)) == 0
    assert looks(("ab", 7), ("ab", 8), ("ab", 8)) == 1
    assert looks(("ab", 7), ("abc", 7), ("ab", 7)) == 2
    assert looks(("ab", 7), ("bc", 7), ("bc", 7)) == 1


def test_after_a_pause_the_owner_has_a_whole_lease(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    """The standby had looked before it, and comes first after it."""
    topic = warehouse.create_topic("users", 1, EAGER)
    part = topic.partition(0)
    owner, standby = (served(warehouse) for _ in range(2))
    append_to(part, 8)
    a_round(owner)
    append_to(part, 8)
    a_round(standby)
    for paused in ("true", "false"):
        topic.alter({"compaction.paused": paused})
        a_round(standby)
        clock.now_ms += 2 * LEASE_MS if paused == "true" else LEASE_MS - 1
    a_round(standby)
    assert part.describe().compactor_epoch == 1, "it may still come"
    clock.now_ms += 1
    a_round(standby)
    assert part.describe().compactor_epoch == 2


def test_a_standby_retires_what_nobody_does(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    """The owner is gone. At each look there is more to retire, and that is no sign of life."""
    topic = warehouse.create_topic("events", 1, RETAINED)
    part = topic.partition(0)
    append_to(part, 8)
    a_round(served(warehouse))
    topic.alter({"compaction.paused": "true"})
    standby = served(warehouse)
    for _ in range(20):
        part.append([lithify.Record(b"k", b"v", timestamp_ms=clock.now_ms)])
        a_round(standby)
        clock.now_ms += LEASE_MS // 3 + 1
    assert part.describe().compactor_epoch == 2
    assert part.describe().log_start_offset > 8
