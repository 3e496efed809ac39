"""A second compactor takes over in the middle of a job: the first is fenced, nothing is lost, and what the first had
recorded is not written again (P5, P12)."""

import threading
from pathlib import Path
from typing import Any

import pytest

import lithify
from lithify.store.driver import Driver
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned, segment_ids


class StallingStore:
    """Holds up the writing of the n-th output segment until it is released."""

    def __init__(self, inner: Any, outputs: int) -> None:
        self.inner = inner
        self.reached = threading.Event()
        self.release = threading.Event()
        self._left = outputs
        self._lock = threading.Lock()

    def once(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def output(self, key: str) -> Any:
        with self._lock:
            self._left -= 1
            stall = self._left == 0
        if stall:
            self.reached.set()
            assert self.release.wait(60)
        return self.inner.output(key)


def test_the_first_is_fenced_and_the_second_finishes_its_job(tmp_path: Path) -> None:
    first = lithify.open(str(tmp_path))
    partition = first.create_topic("users", 1, CONFIG).partition(0)
    workload = Workload(4)
    for _ in range(6):
        workload.append(partition, 2_000)
    stalling = StallingStore(first.store, 9)
    first.driver = Driver(stalling)
    slow = lithify.Compactor(first, engine=lithify.LocalEngine(1))
    ended: list[Exception] = []

    def run() -> None:
        try:
            slow.run_once()
        except lithify.LithifyError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert stalling.reached.wait(60)
    second = lithify.open(str(tmp_path))
    polite = lithify.Compactor(second, engine="local").run_once()
    assert polite.partitions[0].outcome == "standby", "the first shows life, so a second waits"
    before = second.driver.run(partition_files(second, "users").compactor_state())
    assert before is not None
    recorded = {done.index: done.attempt for done in before.jobs[0].done}
    assert recorded, "the first had recorded something"

    report = lithify.Compactor(second, engine="local").run_once(take_over=True)
    assert [job.id.rpartition("/")[2] for job in report.jobs] == [before.jobs[0].id], "it is the first one's job"
    assert report.jobs[0].status == "completed"
    stalling.release.set()
    thread.join(60)
    slow.close()
    assert [type(error) for error in ended] == [lithify.Fenced]
    assert ended[0].exit_code == 5

    after = second.driver.run(partition_files(second, "users").compactor_state())
    assert after is not None
    for segment_id in segment_ids(second):
        if segment_id.startswith(before.jobs[0].id + "-"):
            attempt, index, _ = segment_id.removeprefix(before.jobs[0].id + "-").split("-")
            assert int(index) not in recorded or int(attempt) == recorded[int(index)], "a recorded range was redone"
    assert scanned(second.topic("users").partition(0)) == workload.model
    assert after.history[-1].status == "completed"
    assert len(after.history) == 1


def test_a_fenced_compactor_does_not_claim_again(tmp_path: Path) -> None:
    warehouse = lithify.open(str(tmp_path))
    partition = warehouse.create_topic("users", 1, CONFIG).partition(0)
    workload = Workload(5)
    workload.append(partition, 100)
    first, second = (lithify.Compactor(warehouse, engine="local") for _ in range(2))
    first.run_once()
    workload.append(partition, 1_000)
    second.run_once()  # an idle incumbent holds nobody up
    workload.append(partition, 10_000)
    with pytest.raises(lithify.Fenced, match="another compactor"):
        first.run_once()
    assert partition.describe().compactor_epoch == 2
    second.run_once()
    assert scanned(partition) == workload.model
