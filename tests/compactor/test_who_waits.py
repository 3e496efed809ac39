"""What an operator is told of who waits, and for what."""

import pytest

import lithify
from lithify.cli.compactions import owner_text
from lithify.compactor.answers import Budget
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.policy import LEASE_MS
from lithify.compactor.requested import waits_for
from lithify.compactor.service import WAITS_LONG_MS, Service
from lithify.events.notices import Waits
from lithify.events.types import Event
from lithify.manifest.config import parse
from lithify.manifest.jobs import Job
from lithify.manifest.reading import Reading
from tests.clock import HandClock
from tests.compactor.serving import append_to
from tests.e2e.workload import partition_files

EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


@pytest.mark.slow
def test_a_request_names_the_tier_that_comes_before_it(warehouse: lithify.Warehouse) -> None:
    part = warehouse.create_topic("users", 1, {**EAGER, "l0.segments.tier": "1000"}).partition(0)
    append_to(part, 2)
    admin = lithify.Admin(warehouse)
    asked = admin.submit("users", 0)
    job = asked.id.rpartition("/")[2]
    assert admin.explain("users", 0).reason == f"job {job} was requested and waits for a compactor"
    append_to(part, 298)
    told = admin.explain("users", 0).reason
    assert told == (
        f"job {job} was requested and waits for a compactor, which must first do another merge: "
        "300 inputs are too many for one merge, so 45 neighbouring ones are merged first"
    )


def test_a_request_whose_sources_are_no_more_is_told_to_be_refused(warehouse: lithify.Warehouse) -> None:
    files = partition_files(warehouse, warehouse.create_topic("users", 1, EAGER).name)
    request = Job(id="1-a", status="submitted", origin="manual", requested=("2-b",), created_at_ms=0)
    told = waits_for(request, Reading.of(warehouse.driver.run(files.head()), None, parse(EAGER), 0))
    assert told.startswith("a compactor, which will reject it: users/0: 2-b is not a live L0 segment or run; ")


def test_how_long_an_owner_has_not_worked_is_told(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("users", 1, EAGER).partition(0)
    admin = lithify.Admin(warehouse)
    never = admin.explain("users", 0)
    assert (never.compactor, owner_text(never)) == (None, "none yet")
    append_to(part, 8)
    lithify.Compactor(warehouse, engine="local").run_once()
    worked_ms = clock.now_ms
    clock.now_ms += 3_600_000
    found = admin.explain("users", 0)
    assert found.compactor is not None
    assert (found.compactor.at_work, found.compactor.seen_ms, found.at_ms) == (False, worked_ms, clock.now_ms)
    assert owner_text(found) == f"{found.compactor.name}, its latest claim or job 1.0 h ago"
    append_to(part, 8)
    assert owner_text(admin.explain("users", 0)).endswith(
        f", its latest claim or job 1.0 h ago; a standby takes over work that it leaves undone for {LEASE_MS / 1_000} s"
    )


def test_an_owner_that_retires_segments_alone_is_told_to_have_claimed_and_to_have_had_no_job(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    """To retire segments is an edit of the manifest: `.compactor` says nothing of it."""
    part = warehouse.create_topic("events", 1, {"retention.records": "2"}).partition(0)
    admin, owner = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    claimed_ms = clock.now_ms
    for _ in range(3):
        append_to(part, 3)
        assert owner.run_once().partitions[0].dropped_segments
        clock.now_ms += 86_400_000
    assert admin.compactions("events") == []
    found = admin.explain("events", 0)
    assert owner_text(found).endswith(", its latest claim or job 3.0 d ago")
    assert found.compactor is not None
    assert found.compactor.seen_ms == claimed_ms


@pytest.mark.parametrize("back_ms", [0, 2, WAITS_LONG_MS])
def test_who_waits_long_for_a_turn_is_told_once(
    warehouse: lithify.Warehouse,
    clock: HandClock,
    monkeypatch: pytest.MonkeyPatch,
    back_ms: int,
) -> None:
    """And not sooner where the clock has stepped back, as from one server of a store to another."""
    part = warehouse.create_topic("users", 1, EAGER).partition(0)
    append_to(part, 8)
    told: list[Event] = []
    service = Service(warehouse.driver, LocalEngine(1), 100, "w:1", lambda: False, told.append)
    service.begin(take_over=False, serves=True)

    def rounds(count: int) -> int:
        for _ in range(count):
            for place in service.find():
                want = service.look(place)
                while want is not None:
                    turned = service.turn(place, want)
                    want = None if turned.deferred else turned.want
            clock.now_ms += WAITS_LONG_MS // 2
        return sum(isinstance(event, Waits) for event in told)

    with monkeypatch.context() as full:
        full.setattr(Budget, "take", lambda *_: False)
        assert rounds(1) == 0
        clock.now_ms -= WAITS_LONG_MS // 2 + back_ms
        assert rounds(2) == 0
        assert rounds(5) == 1
    assert rounds(3) == 1
    assert not part.describe().l0
