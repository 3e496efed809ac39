"""A process whose Spark dies under it, in each way and at each time. It prints what came of that, by acts.

python -m tests.compactor.dying_spark FOLDER
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

import lithify
from lithify.compactor.engines.spark import SparkEngine
from lithify.manifest.jobs import Job
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.homes import only_here
from lithify.store.opening import open_store
from lithify.store.port import Store
from tests.compactor.engine_tasks import appends, results, rows_of, survivors, tasks
from tests.e2e.test_kill_and_resume import _rewritten
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned, segment_ids

ACTS = ("given", "idle", "in mid-job", "closed")


def kill() -> None:
    process: Any = SparkContext._gateway.proc
    process.kill()
    process.wait()


def stop() -> None:
    SparkContext._active_spark_context.stop()


def stop_in_jvm() -> None:
    SparkContext._active_spark_context._jsc.sc().stop()


class DeathBringer:
    """The store of a compactor whose engine dies as soon as three ranges are recorded."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.die: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create(self, key: str, body: bytes, frees: bool = False) -> Any:
        answer = self.inner.create(key, body, frees)
        if self.die is not None and key.endswith(".compactor") and body.count(b'"peak_memory_bytes"') > 3:
            die, self.die = self.die, None
            die()
        return answer


class Merging:
    """An engine's work, and that it is right."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(folder.as_uri())
        self.refs = appends(self.store)

    def __call__(self, engine: SparkEngine) -> None:
        found = results(engine.start(only_here(self.store), tasks(self.refs), "users/0"), 1)
        assert rows_of(self.store, found) == survivors()

    def refused(self, engine: SparkEngine) -> str:
        try:
            engine.start(only_here(self.store), tasks(self.refs), "users/0")
        except (InvalidRequest, Unavailable) as error:
            return f"{type(error).__name__}: {error}"
        return "not refused"


def given(merge: Merging, config: dict[str, str]) -> None:
    session = SparkSession.builder.master("local[2]").config(map={**config, "spark.ui.enabled": "false"}).getOrCreate()
    engine = SparkEngine(session)
    merge(engine)
    kill()
    for _ in range(2):
        print(merge.refused(engine))
    engine.close()


def idle(merge: Merging, engine: SparkEngine) -> None:
    merge(engine)
    for die in (kill, stop_in_jvm):
        die()
        merge(engine)
        print(die.__name__, "survived")


def in_mid_job(folder: Path, engine: SparkEngine) -> lithify.Compactor:
    now_ms = 1_800_000_000_000
    warehouse = lithify.open(str(folder), clock=lambda: now_ms)
    partition = warehouse.create_topic("users", 1, {**CONFIG, "compaction.attempts.max": 1}).partition(0)
    workload, store = Workload(9), DeathBringer(warehouse.store)
    warehouse.driver = Driver(store, lambda: now_ms)
    compactor = lithify.Compactor(warehouse, engine=engine)

    def job() -> Job:
        state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
        return (*state.history, *state.jobs)[-1]

    for die in (kill, stop):
        for _ in range(3):
            workload.append(partition, 2_000)
        lithify.Admin(warehouse).submit("users", 0)
        store.die = die
        report = compactor.run_once().partitions[0]
        assert report.outcome == "failed", report
        recorded, first = {done.index: done.attempt for done in job().done}, job()
        assert recorded, first
        assert len(recorded) < len(first.plan.ranges), first
        now_ms += 600_000
        report = compactor.run_once().partitions[0]
        assert report.outcome == "worked", report
        assert (job().id, job().status) == (first.id, "completed"), job()
        assert not _rewritten(recorded, segment_ids(lithify.open(str(folder))), first.id)
        assert scanned(partition) == workload.model
        print(die.__name__, first.attempts[-1].error.category, len(job().attempts))
    return compactor


def closed(merge: Merging, engine: SparkEngine) -> None:
    kill()
    engine.close()
    engine.close()
    assert SparkContext._active_spark_context is None
    print(merge.refused(engine))


def main(folder: Path) -> None:
    """One process and one engine for all acts: each start of a JVM with Spark takes ten seconds."""
    merge = Merging(folder / "of-tasks")
    config = {"spark.local.dir": str(folder / "spark")}
    print(ACTS[0])
    given(merge, config)
    print(ACTS[1])
    engine = SparkEngine("local[2]", config=config)
    idle(merge, engine)
    print(ACTS[2])
    compactor = in_mid_job(folder / "warehouse", engine)
    print(ACTS[3])
    closed(merge, engine)
    compactor.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
