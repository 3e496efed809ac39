"""Whoever claims a partition for the first time goes by the look before it, and by nothing that it read there."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.served import LOOK_FRESH_MS, ServedPartition
from lithify.manifest.reading import Heads
from tests.clock import HandClock
from tests.compactor.serving import HeldEngine, append_to

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture
def part(warehouse: lithify.Warehouse) -> lithify.Partition:
    part = warehouse.create_topic("t", 1, COMPACT).partition(0)
    append_to(part, 8)
    return part


@pytest.fixture
def compactor(warehouse: lithify.Warehouse) -> lithify.Compactor:
    return lithify.Compactor(warehouse, "local")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Heads]:
    found, heads = list[Heads](), Coordinator.heads

    async def noted(self: Coordinator) -> Heads:
        found.append(await heads(self))
        return found[-1]

    monkeypatch.setattr(Coordinator, "heads", noted)
    return found


@pytest.fixture
def after_the_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something between the first look and the turn that it leads to."""
    look = ServedPartition.look

    def then(do: Callable[[], object]) -> None:
        left = [do]

        def looked(self: ServedPartition, answers: Any) -> Any:
            want = look(self, answers)
            while left:
                left.pop()()
            return want

        monkeypatch.setattr(ServedPartition, "look", looked)

    return then


def test_what_a_look_has_read_is_not_read_again_for_the_claim(
    part: lithify.Partition, compactor: lithify.Compactor, readings: list[Heads]
) -> None:
    (job,) = compactor.run_once().jobs
    assert (job.status, len(readings)) == ("completed", 1)
    assert not part.describe().l0


def test_an_owner_that_began_a_job_meanwhile_keeps_the_partition(
    warehouse: lithify.Warehouse,
    part: lithify.Partition,
    compactor: lithify.Compactor,
    after_the_look: Callable[[Callable[[], object]], None],
) -> None:
    """The job leaves no trace in the manifest, by which a claim would be refused."""
    engine, reports = HeldEngine(set()), list[Any]()
    owner = lithify.Compactor(warehouse, engine)
    owner.run_once()
    append_to(part, 8)
    engine.hold("t")
    works = threading.Thread(target=lambda: reports.append(owner.run_once()))

    def begins() -> None:
        works.start()
        assert engine.began.wait(60)

    after_the_look(begins)
    found = compactor.run_once()
    engine.let_go.set()
    works.join(60)
    assert [each.outcome for each in found.partitions] == ["standby"]
    assert [job.status for job in reports[0].jobs] == ["completed"]


def test_an_owner_reads_before_its_step(
    part: lithify.Partition, compactor: lithify.Compactor, readings: list[Heads]
) -> None:
    compactor.run_once()
    append_to(part, 8)
    readings.clear()
    (job,) = compactor.run_once().jobs
    assert job.status == "completed"
    assert len(readings) == 2


@pytest.mark.parametrize("passed_ms", [LOOK_FRESH_MS // 2, -LOOK_FRESH_MS])
def test_a_pause_waits_for_no_more_than_a_second_in_all(
    warehouse: lithify.Warehouse,
    part: lithify.Partition,
    compactor: lithify.Compactor,
    clock: HandClock,
    monkeypatch: pytest.MonkeyPatch,
    passed_ms: int,
) -> None:
    """From the round that read the topic to the look, and from the look to the turn; and whatever a clock does."""
    look, left = ServedPartition.look, ["t"]

    def looked(self: ServedPartition, answers: Any) -> Any:
        while left:
            warehouse.topic(left.pop()).alter({"compaction.paused": "true"})
            clock.now_ms += passed_ms
        want = look(self, answers)
        clock.now_ms += LOOK_FRESH_MS // 2
        return want

    monkeypatch.setattr(ServedPartition, "look", looked)
    report = compactor.run_once()
    assert report.jobs == ()
    assert [each.outcome for each in report.partitions] == ["idle"]


@pytest.mark.parametrize(("passed_ms", "times"), [(LOOK_FRESH_MS - 1, 1), (LOOK_FRESH_MS, 2), (-1, 2)])
def test_a_look_of_long_ago_or_by_another_clock_is_made_anew(
    part: lithify.Partition,
    compactor: lithify.Compactor,
    readings: list[Heads],
    after_the_look: Callable[[Callable[[], object]], None],
    clock: HandClock,
    passed_ms: int,
    times: int,
) -> None:
    def passes() -> None:
        clock.now_ms += passed_ms

    after_the_look(passes)
    compactor.run_once()
    assert len(readings) == times
    assert not part.describe().l0


def test_a_job_is_planned_by_what_the_claim_found(
    part: lithify.Partition,
    compactor: lithify.Compactor,
    readings: list[Heads],
    after_the_look: Callable[[Callable[[], object]], None],
) -> None:
    after_the_look(lambda: part.append([lithify.Record(b"last", b"v")]))
    (job,) = compactor.run_once().jobs
    assert len(readings) == 1
    assert not part.describe().l0
    assert job.counts.rows_in == part.describe().next_offset


def test_whoever_claimed_meanwhile_keeps_the_partition(
    warehouse: lithify.Warehouse,
    part: lithify.Partition,
    compactor: lithify.Compactor,
    after_the_look: Callable[[Callable[[], object]], None],
) -> None:
    other = lithify.Compactor(warehouse, "local")
    after_the_look(other.run_once)
    report = compactor.run_once()
    assert report.jobs == ()
    assert [each.outcome for each in report.partitions] == ["standby"]
    assert not part.describe().l0


def test_a_topic_that_was_deleted_meanwhile_is_no_failure(
    warehouse: lithify.Warehouse,
    part: lithify.Partition,
    compactor: lithify.Compactor,
    after_the_look: Callable[[Callable[[], object]], None],
) -> None:
    after_the_look(lambda: warehouse.delete_topic("t"))
    report = compactor.run_once()
    assert report.jobs == ()
    assert [each.outcome for each in report.partitions] == ["idle"]
    assert not any(each.fault for each in report.partitions)
