"""Whoever claims a partition for the first time goes by the look before it, and by nothing that it read there."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

import lithify
from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.served import LOOK_AGAIN, LOOK_FRESH_MS, ServedPartition, ServedTopic
from lithify.manifest.reading import Heads, first_state
from lithify.manifest.rests import Rests
from lithify.store.errors import Unavailable
from tests.clock import HandClock
from tests.compactor.serving import HeldEngine, append_to, between_look_and_turn
from tests.protocol.scene import FIRST

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
    return partial(between_look_and_turn, monkeypatch)


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


def test_an_owner_between_its_two_writes_keeps_the_partition(
    warehouse: lithify.Warehouse,
    part: lithify.Partition,
    compactor: lithify.Compactor,
    after_the_look: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its epoch is in the manifest that the look found, so the claim would not be refused."""
    engine, reports = HeldEngine({"t"}), list[Any]()
    create, claimed, looked = warehouse.store.create, threading.Event(), threading.Event()

    def held(key: str, body: bytes, frees: bool = False) -> Any:
        if "/compactor/" in key and not claimed.is_set():
            claimed.set()
            assert looked.wait(60)
        return create(key, body, frees)

    def goes_on() -> None:
        looked.set()
        assert engine.began.wait(60)

    monkeypatch.setattr(warehouse.store, "create", held)
    works = threading.Thread(target=lambda: reports.append(lithify.Compactor(warehouse, engine).run_once()))
    works.start()
    assert claimed.wait(60)
    after_the_look(goes_on)
    found = compactor.run_once()
    engine.let_go.set()
    works.join(60)
    assert [each.outcome for each in found.partitions] == ["standby"]
    assert [job.status for job in reports[0].jobs] == ["completed"]


@pytest.mark.parametrize(
    ("manifest_epoch", "state", "unowned"),
    [
        (0, None, True),
        (1, None, False),
        (0, {"epoch": 0}, True),
        (1, {"epoch": 1}, False),  # a request, written while a claim was between its two writes
        (1, {"epoch": 1, "owner_name": "me:1"}, True),
        (2, {"epoch": 1, "owner_name": "me:1"}, False),
        (1, {"epoch": 1, "owner_name": "me:1", "owner": "me"}, False),
    ],
)
def test_who_owns_or_is_about_to(manifest_epoch: int, state: dict[str, Any] | None, unowned: bool) -> None:
    manifest = replace(FIRST, compactor_epoch=manifest_epoch)
    found = None if state is None else replace(first_state(manifest), **state)
    assert Heads(manifest, found, 0).unowned == unowned


def test_a_look_that_fails_leaves_no_reading(
    warehouse: lithify.Warehouse, part: lithify.Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = warehouse.driver
    topic = ServedTopic("t", driver)
    served = ServedPartition(part._files, "me:1", topic, lambda _: None, stands_by=False, rests=Rests(0, 0))
    answers = CompactionAnswers(driver, LocalEngine(1), Budget(), lambda: False, lambda: False)
    served.look(answers)
    assert served._looked is not None
    served._known = False

    async def fails(_: Coordinator) -> Heads:
        raise Unavailable("once")

    monkeypatch.setattr(Coordinator, "heads", fails)
    assert served.look(answers) is LOOK_AGAIN
    assert served._looked is None


def test_the_age_of_a_reading_is_told_once_the_topic_is_free(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    """Another partition may hold its lock for as long as a request takes."""
    warehouse.create_topic("t", 1, COMPACT)
    topic = ServedTopic("t", warehouse.driver)
    assert topic.read().id == 1
    looked_ms = clock.now_ms
    assert topic.read_lately(looked_ms) is not None

    class Waits:
        def __enter__(self) -> None:
            clock.now_ms += 2 * LOOK_FRESH_MS

        def __exit__(self, *_: object) -> None:
            pass

    topic._lock = Waits()  # type: ignore[assignment]
    assert topic.read_lately(clock.now_ms) is None
