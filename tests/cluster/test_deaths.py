"""Whatever dies on a cluster under a compactor at work: the result is exact, and it works again within two minutes.

All of this with Spark's retries and speculation on, so some ranges are merged twice at the same time.
"""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.daemons import Daemon, Topic, await_idle
from tests.cluster.standalone import Cluster, free_port, until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster")]


class Place:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.topic = Topic(folder / "warehouse")
        self.folder = folder
        self.page = free_port()
        self.daemon = self.start()

    def start(self, *flags: str) -> Daemon:
        conf = {"spark.ui.enabled": "true", "spark.ui.port": str(self.page), "spark.ui.retainedJobs": "2000"}
        conf |= {"spark.dynamicAllocation.executorIdleTimeout": "5s"}
        # A second copy of whatever is not done at once, if there is a free core on the other machine.
        conf |= {"spark.speculation": "true", "spark.speculation.task.duration.threshold": "50ms"}
        return Daemon(self.topic.url, self.cluster.url, self.folder, *flags, conf=conf)

    def spark_jobs(self) -> list[dict[str, Any]]:
        """As Spark's REST API tells them."""
        base = f"http://127.0.0.1:{self.page}/api/v1/applications"
        with urllib.request.urlopen(base, timeout=30) as reply:
            (application,) = json.load(reply)
        with urllib.request.urlopen(f"{base}/{application['id']}/jobs", timeout=30) as reply:
            return json.load(reply)

    def killed_copies(self) -> int:
        return sum(each["numKilledTasks"] for each in self.spark_jobs())

    def failed_tasks(self, job: str) -> int:
        tag = f"lithify-{job.rpartition('/')[2]}-1"
        return sum(each["numFailedTasks"] for each in self.spark_jobs() if tag in each["jobTags"])


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(cluster, tmp_path_factory.mktemp("deaths"))
    try:
        yield place
    finally:
        place.daemon.end()


@pytest.fixture
def job(place: Place) -> str:
    """A job of which several ranges are recorded, with both executors at work."""
    compaction = place.topic.submit()
    place.topic.await_written(compaction, 3)
    until("two executors", lambda: len(place.cluster.executors()) == 2)
    return compaction


def test_an_executor(place: Place, job: str) -> None:
    os.kill(place.cluster.executors()[0], signal.SIGKILL)
    done = place.topic.await_done(job)
    assert done.last_attempt == 1
    assert place.failed_tasks(job) <= 1, "one core was lost"


def test_a_busy_python_worker(place: Place, job: str) -> None:
    os.kill(until("a Python worker", place.cluster.python_workers)[0], signal.SIGKILL)
    done = place.topic.await_done(job)
    assert done.last_attempt == 1
    assert place.failed_tasks(job) <= 1


def test_a_worker_with_its_executor(place: Place, job: str) -> None:
    victim = place.cluster.workers.pop(0)
    victim.end()
    done = place.topic.await_done(job)
    place.cluster.start_worker()
    assert done.last_attempt == 1
    place.cluster.await_workers(2)


def test_the_master_under_a_job(place: Place, job: str) -> None:
    place.cluster.master.kill()
    place.cluster.start_master()
    place.topic.await_done(job)
    place.cluster.await_workers(2, 120)


def test_the_master_of_an_idle_compactor_that_holds_no_core(place: Place) -> None:
    place.topic.await_done(place.topic.submit())
    await_idle(place.cluster)
    place.cluster.master.kill()
    place.cluster.start_master()
    until("the Master's page", place.cluster.page)
    place.topic.await_done(place.topic.submit(), 120)


def test_the_jvm_of_the_driver(place: Place, job: str) -> None:
    (jvm,) = [
        pid for pid in place.daemon.children() if "org.apache.spark.deploy.SparkSubmit" in place.daemon.command(pid)
    ]
    os.kill(jvm, signal.SIGKILL)
    done = place.topic.await_done(job)
    assert done.last_attempt == 2
    assert place.daemon.ended is None


def test_the_driver(place: Place, job: str) -> None:
    place.daemon.end()
    place.daemon = place.start("--take-over")  # at once, and not after the lease of the dead one
    place.topic.await_done(job)


def test_copies_of_a_task_do_no_harm(place: Place) -> None:
    for _ in range(6):
        compaction = place.topic.submit()
        place.topic.await_done(compaction)
        if place.killed_copies() > 0:
            return
    raise AssertionError("Spark started no copy of any task")


def test_sparks_own_pages_tell_topic_partition_and_range(place: Place) -> None:
    compaction = place.topic.submit()
    place.topic.await_done(compaction)
    name = compaction.rpartition("/")[2]
    mine = [each for each in place.spark_jobs() if f"lithify-{name}-1" in each["jobTags"]]
    assert mine
    for each in mine:
        assert each["name"] == each["description"]
        assert each["name"].startswith("lithify users/0 clean ")
        assert " range " in each["name"]
        assert "lithify-topic-users-0" in each["jobTags"]
