"""The owner of a running job gets SIGKILL while another daemon stands by, on a real S3 server: the standby finishes the
job, and redoes no range that was recorded. With `-s` each test prints a row of the table in docs/operations.md."""

import signal
from typing import Any

import pytest

import lithify
from lithify.manifest.jobs import CompactorState
from lithify.store.driver import pause
from lithify.testing.front import Deed, Front, Seen
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned
from tests.service.conftest import Place
from tests.service.daemon import LOOK_MS, LOOKS_MAX, asked, followed

PERCENT = "completion_percentage"


def slowly(seen: Seen) -> Deed:
    """Outputs take a while, so that the kill comes in the middle of the job however fast the machine is."""
    return Deed(delay_ms=1_000) if seen.method == "PUT" and ".parquet" in seen.path else Deed()


def state_of(warehouse: lithify.Warehouse) -> CompactorState:
    state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
    assert state is not None
    return state


def segments(place: Place, job: str) -> dict[int, list[int]]:
    """The attempts whose output of each range of a job is in the store."""
    found: dict[int, list[int]] = {}
    for page in place.owner.client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket):
        for each in page.get("Contents", ()):
            name = each["Key"].rpartition("/")[2]
            if name.startswith(f"{job}-"):
                attempt, index, _ = name.removeprefix(f"{job}-").split("-")
                found.setdefault(int(index), []).append(int(attempt))
    return found


@pytest.mark.parametrize(("percent", "interval_ms"), [(10, 300), (50, 300), (90, 300), (50, 15_000)])
def test_a_standby_finishes_the_job_of_an_owner_that_was_killed(percent: int, interval_ms: int, place: Place) -> None:
    warehouse = place.open()
    config: dict[str, Any] = {**CONFIG, "min.cleanable.dirty.ratio": 1, "l0.segments.tier": 1_000}
    users = warehouse.create_topic("users", 1, config).partition(0)
    workload = Workload(percent, keys=8_000)
    workload.append(users, 10)
    words = ["--interval-ms", str(interval_ms)]
    with Front(place.owner.endpoint_url, rule=slowly) as front, place.daemon(through=front) as owner:
        jobs = f"{owner.url}/v1/topics/users/partitions/0/compactions"
        first = asked("POST", jobs, {"sources": "full"})["id"]  # with it the partition is claimed
        followed(lambda: told(asked("GET", f"{owner.url}/v1/compactions/{first}")))
        with place.daemon(*words) as standby:
            for _ in range(4):
                workload.append(users, 4_000)
            job = asked("POST", jobs, {"sources": "full"})["id"]
            for _ in range(LOOKS_MAX):
                if asked("GET", f"{owner.url}/v1/compactions/{job}")["progress"][PERCENT] >= percent:
                    break
                pause(LOOK_MS)
            owner.of.send_signal(signal.SIGKILL)
            owner.of.wait()
            killed_ms = warehouse.driver.now_ms()
            left = state_of(warehouse)
            (under_way,) = left.jobs
            recorded = {done.index for done in under_way.done}
            uploaded = segments(place, under_way.id)
            assert under_way.plan is not None
            total = len(under_way.plan.ranges)
            end, seen = followed(lambda: told(asked("GET", f"{standby.url}/v1/compactions/{job}")))
            info = asked("GET", f"{standby.url}/v1/compactions/{job}")
            assert standby.stop() == 0
    assert end == "completed"
    assert seen == sorted(seen), "percentages never go back"
    assert seen[0] >= 100 * len(recorded) // total, "what was recorded stays done"
    after = segments(place, under_way.id)
    assert all(after[index] == uploaded[index] for index in recorded), "a recorded range was written again"
    assert state_of(warehouse).epoch == left.epoch + 1
    assert [attempt["number"] for attempt in info["attempts"]] == [1, 2]
    assert scanned(users) == workload.model
    took_over_ms, ended_ms = info["attempts"][1]["started_at_ms"], info["completed_at"]
    lost = sum(1 for index in uploaded if index not in recorded)
    print(
        f"| {100 * len(recorded) / total:.0f} % of {total} | {interval_ms / 1000:g} s "
        f"| {(took_over_ms - killed_ms) / 1000:.1f} s | {(ended_ms - took_over_ms) / 1000:.1f} s "
        f"| {len(recorded)} | {total - len(recorded)} | {lost} |"
    )


def told(info: Any) -> tuple[str, float]:
    return info["status"], info["progress"][PERCENT]
