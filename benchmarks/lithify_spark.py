"""A clean on the Spark engine, `local[2]`, through the public API: `lithify.Compactor(warehouse, engine).run_once()`.

The session is warm: it runs, and its Python workers have done a job. All of it counts, from planning to the commit: the
driver, the JVM and the workers.
"""

import shutil
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import lithify
from benchmarks.generate import copy_warehouse, warehouse
from benchmarks.measure import Settings
from lithify.store.driver import Driver
from lithify.store.file import FileStore
from lithify.store.port import Create, Request

__all__ = ["contender"]

_WARM_ROWS = 1000


class _TimedDriver(Driver):
    """Counts, and times, what goes into numbered files."""

    def __init__(self, root: str) -> None:
        super().__init__(FileStore(root))
        self.recorded = 0
        self.recording_s = 0.0
        self._answer = self.answer
        self.answer = self._timed

    def _timed(self, request: Request[Any]) -> Any:
        if not isinstance(request, Create):
            return self._answer(request)
        begin = time.perf_counter()
        try:
            return self._answer(request)
        finally:
            self.recorded += 1
            self.recording_s += time.perf_counter() - begin


class _Opened:
    """As much of a warehouse as a compactor needs."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver


class LithifySpark:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._root = settings.folder / "work-lithify"
        self._warm = settings.folder / "work-lithify-warm"
        self._engine = lithify.SparkEngine(f"local[{settings.processors}]")

    def prepare(self) -> None:
        copy_warehouse(warehouse(self._settings.folder, self._settings.shape), self._root)
        self._warm_up()

    def _warm_up(self) -> None:
        """A small job for each core at once. Each time anew: Spark ends workers that were idle for a minute."""
        shutil.rmtree(self._warm, ignore_errors=True)
        opened = lithify.open(f"file://{self._warm}")
        topic = opened.create_topic("warm", self._settings.processors, config={"cleanup.policy": "compact"})
        rows = pa.table({"key": [b"%d" % i for i in range(_WARM_ROWS)], "value": [b"v"] * _WARM_ROWS})
        for partition in range(self._settings.processors):
            topic.partition(partition).append(rows)
        lithify.Compactor(opened, self._engine, concurrency=self._settings.processors).run_once()

    def run(self) -> Mapping[str, float]:
        driver = _TimedDriver(str(self._root))
        report = lithify.Compactor(_Opened(driver), self._engine).run_once()
        (partition,) = report.partitions
        assert partition.outcome == "worked", partition.detail
        jobs = partition.jobs
        return {
            "rows_out": partition.after.rows,
            "bytes_out": partition.after.bytes,
            "jobs": len(jobs),
            "bytes_read": sum(job.counts.bytes_read for job in jobs),
            "task_cpu_s": sum(job.counts.cpu_ms for job in jobs) / 1000,
            "recorded": driver.recorded,
            "recording_s": driver.recording_s,
        }

    def close(self) -> None:
        self._engine.close()
        shutil.rmtree(self._root, ignore_errors=True)
        shutil.rmtree(self._warm, ignore_errors=True)


def contender(settings: Settings) -> LithifySpark:
    return LithifySpark(settings)
