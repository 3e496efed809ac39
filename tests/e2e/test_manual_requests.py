"""Manual compactions that overlap, come too late or too early: refused or carried out, with a status that says why."""

from pathlib import Path

import pytest

import lithify
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned

QUIET = {**CONFIG, "min.cleanable.dirty.ratio": 1.0, "l0.segments.tier": 1_000}  # nothing is due by itself


@pytest.fixture
def warehouse(tmp_path: Path) -> lithify.Warehouse:
    return lithify.open(str(tmp_path))


@pytest.fixture
def workload(warehouse: lithify.Warehouse) -> Workload:
    partition = warehouse.create_topic("users", 1, QUIET).partition(0)
    workload = Workload(7, keys=50)
    for _ in range(4):
        workload.append(partition, 100)
    return workload


def _compact(warehouse: lithify.Warehouse) -> None:
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.run_once()
    compactor.close()


def _l0(warehouse: lithify.Warehouse) -> list[str]:
    return [segment.id for segment in warehouse.topic("users").partition(0).describe().l0]


def test_a_request_before_any_compactor_ever_ran(warehouse: lithify.Warehouse, workload: Workload) -> None:
    admin = lithify.Admin(warehouse)
    submitted = admin.submit("users", 0)
    assert (submitted.status, submitted.origin) == ("submitted", "manual")
    _compact(warehouse)
    done = admin.compaction(submitted.id)
    assert (done.status, done.kind, done.progress.completion_percentage) == ("completed", "clean", 100.0)
    assert not _l0(warehouse)
    assert scanned(warehouse.topic("users")) == workload.model


def test_overlapping_requests(warehouse: lithify.Warehouse, workload: Workload) -> None:
    admin = lithify.Admin(warehouse)
    ids = _l0(warehouse)
    one, two, three = (admin.submit("users", 0, sources) for sources in (ids[:2], ids[1:3], ids[2:]))
    _compact(warehouse)
    assert admin.compaction(one.id).status == "completed"
    late = admin.compaction(two.id)
    assert late.status == "failed"
    assert f"{ids[1]} is not a live L0 segment" in late.reason
    third = admin.compaction(three.id)
    assert (third.status, third.kind) == ("completed", "tier")
    assert scanned(warehouse.topic("users")) == workload.model


def test_sources_that_a_running_job_has_just_consumed(warehouse: lithify.Warehouse, workload: Workload) -> None:
    admin = lithify.Admin(warehouse)
    ids = _l0(warehouse)
    full = admin.submit("users", 0)
    late = admin.submit("users", 0, ids[:2])
    _compact(warehouse)
    assert admin.compaction(full.id).status == "completed"
    told = admin.compaction(late.id)
    assert told.status == "failed"
    assert "not a live L0 segment or run" in told.reason
    with pytest.raises(lithify.InvalidRequest, match="not a live L0 segment"):
        admin.submit("users", 0, ids[:2])
    assert scanned(warehouse.topic("users")) == workload.model


def test_a_cancelled_request_is_never_carried_out(warehouse: lithify.Warehouse, workload: Workload) -> None:
    admin = lithify.Admin(warehouse)
    before = _l0(warehouse)
    asked = admin.submit("users", 0)
    assert admin.cancel(asked.id).status == "submitted", "only the compactor makes a job terminal"
    _compact(warehouse)
    assert admin.compaction(asked.id).status == "cancelled"
    assert _l0(warehouse) == before
    assert scanned(warehouse.topic("users")) == workload.model


def test_what_cannot_be_asked_for(warehouse: lithify.Warehouse, workload: Workload) -> None:
    assert workload.model
    admin = lithify.Admin(warehouse)
    with pytest.raises(lithify.NotFound, match="it has partition 0"):
        admin.submit("users", 3)
    with pytest.raises(lithify.NotFound, match="nobody"):
        admin.submit("nobody", 0)
    with pytest.raises(lithify.InvalidRequest, match="empty"):
        admin.submit("users", 0, [])
    with pytest.raises(lithify.InvalidRequest, match="compaction id"):
        admin.compaction("users")
    with pytest.raises(lithify.NotFound, match=r"compaction .* does not exist"):
        admin.cancel("users/0/000000000001-00000000")


def test_a_full_request_on_nothing_says_so(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", 1, QUIET)
    admin = lithify.Admin(warehouse)
    asked = admin.submit("users", 0)
    _compact(warehouse)
    told = admin.compaction(asked.id)
    assert told.status == "completed"
    assert "nothing to compact" in told.reason
    state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
    assert state is not None
    assert not state.jobs
