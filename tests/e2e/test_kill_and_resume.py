"""A compactor process killed in the middle of a job, again and again: what was recorded is never written again, and
the end result is exact (P10-P13)."""

import random
import signal
from pathlib import Path

import pytest

import lithify
from lithify.manifest.jobs import Job
from tests.e2e.workload import CONFIG, Workload, partition_files, run_compactor, scanned, segment_ids

KILLS = 10


def _job(warehouse: lithify.Warehouse) -> Job | None:
    """The job under way, or the latest finished one."""
    state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
    jobs = () if state is None else (*state.history, *state.jobs)
    return jobs[-1] if jobs else None


def _prepared(folder: Path, seed: int) -> tuple[lithify.Warehouse, Workload]:
    warehouse = lithify.open(str(folder))
    partition = warehouse.create_topic("users", 1, CONFIG).partition(0)
    workload = Workload(seed)
    for _ in range(6):
        workload.append(partition, 2_000)
    return warehouse, workload


def _rewritten(recorded: dict[int, int], ids: set[str], job: str) -> list[str]:
    """Outputs of a later attempt than the one that had recorded their range. Ids: job-attempt-range-nonce."""
    again: list[str] = []
    for segment_id in ids:
        if segment_id.startswith(job + "-"):
            attempt, index, _ = segment_id.removeprefix(job + "-").split("-")
            if int(index) in recorded and int(attempt) > recorded[int(index)]:
                again.append(segment_id)
    return again


def _storm(folder: Path, seed: int, signal_name: str) -> None:
    warehouse, workload = _prepared(folder, seed)
    dice = random.Random(seed)
    recorded: dict[int, int] = {}
    partial = 0
    first: Job | None = None
    for kill in range(KILLS):
        # Early requests claim and plan; the job's own begin after about sixty.
        run_compactor(str(folder), dice.randrange(20, 160), signal_name)
        job = _job(warehouse)
        if job is not None and first is None and job.plan is not None:
            first = job
        if job is None or first is None or not job.active:
            continue
        assert job.id == first.id, f"kill {kill}: the job was abandoned: {first}"
        partial += 0 < len(job.done) < len(first.plan.ranges) if first.plan else 0
        assert not _rewritten(recorded, segment_ids(warehouse), job.id)
        recorded |= {done.index: done.attempt for done in job.done}
    assert run_compactor(str(folder), 0, signal_name) == 0
    assert first is not None
    assert first.plan is not None
    assert len(first.plan.ranges) >= 16
    assert partial, "no kill came in the middle of the job"
    assert not _rewritten(recorded, segment_ids(warehouse), first.id)
    last = _job(warehouse)
    assert last is not None
    assert last.status == "completed"
    topic = warehouse.topic("users")
    assert scanned(topic.partition(0)) == workload.model
    assert topic.partition(0).describe().next_offset == workload.appended
    collector = lithify.Collector(warehouse, grace_ms=0)
    for _ in range(3):
        collector.run_once(sweep=True)
    described = topic.partition(0).describe()
    live = {s.id for s in described.l0} | {s.id for run in described.runs for s in run.segments}
    assert segment_ids(warehouse) == live, "an orphan survived the sweep"
    assert scanned(topic.partition(0)) == workload.model


@pytest.mark.slow
def test_ten_kills_redo_only_what_was_not_recorded(tmp_path: Path) -> None:
    _storm(tmp_path, seed=20260101, signal_name=signal.SIGKILL.name)


@pytest.mark.slow
def test_ten_clean_stops_redo_only_what_was_not_recorded(tmp_path: Path) -> None:
    _storm(tmp_path, seed=20260102, signal_name=signal.SIGTERM.name)
