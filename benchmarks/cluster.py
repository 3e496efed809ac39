"""The Spark engine on a standalone cluster of this machine: two single-core workers against one, and what a task costs.

Both clusters do the same merges of key ranges of the benchmark data, with executors that have run before.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

import lithify
from benchmarks.generate import TOPIC, Shape, copy_warehouse, warehouse
from lithify.compactor.engines.spark import SparkEngine
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.jobs import MergeRules
from lithify.manifest.partition import PartitionFiles
from lithify.segment.ranges import row_group_weights, split_ranges
from lithify.segment.segments import Segments
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.driver import new_id

__all__ = ["OnCluster", "cluster"]

_RANGES = 4
_TIMES = 3  # the benchmark's usual rows, so that a range takes about two seconds
_SMALL_TASKS = 40
_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.dynamicAllocation.enabled": "false",
}


class OnCluster(msgspec.Struct, frozen=True):
    """Medians of the runs, in seconds."""

    ranges: int
    range_s: float  # of one large range, alone on one worker
    one_s: float  # all large ranges, on one worker
    two_s: float  # on two
    task_s: float  # a small range, one after the other on one worker: what a task costs whatever it does
    ranges_explained: int  # of a compaction of the same data,
    ranges_run: int  # and how many there were when it ran

    @property
    def speed_up(self) -> float:
        return self.one_s / self.two_s

    @property
    def scheduling_share(self) -> float:
        """Of the time of a large range."""
        return self.task_s / self.range_s


def cluster(folder: Path, shape: Shape, runs: int) -> OnCluster:
    """In a process of its own, which opens Spark sessions one after the other."""
    asked = json.dumps([str(folder), msgspec.to_builtins(shape), runs])
    done = subprocess.run([sys.executable, "-m", "benchmarks.cluster", asked], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=OnCluster)


def _tasks(opened: lithify.Warehouse, ranges: int) -> list[MergeTask]:
    keys = partition_keys(opened.driver.run(live_topic(topic_lineage(TOPIC), TOPIC)))[0]
    refs = opened.driver.run(PartitionFiles(keys).head()).l0
    segments = Segments(keys, opened.driver.homes)
    weights = [weight for ref in refs for weight in row_group_weights(segments.reader(ref))]
    cut = split_ranges(weights, -(-sum(weight.weight_bytes for weight in weights) // ranges))
    return [
        MergeTask(
            keys=keys,
            job=f"000000000001-{new_id()[:8]}",
            attempt=1,
            range_index=index,
            bounds=each.bounds,
            sources=tuple((ref,) for ref in refs),
            rules=MergeRules(order="key", drop_superseded=True),
            output_bytes=256 << 20,
        )
        for index, each in enumerate(cut)
    ]


def _seconds(engine: SparkEngine, opened: lithify.Warehouse, tasks: Sequence[MergeTask]) -> float:
    begin = time.perf_counter()
    running, landed = engine.start(opened.driver.homes, tasks, "lithify benchmark"), 0
    while landed < len(tasks):
        found = running.results(10_000)
        failed = [each for each in found if not isinstance(each, TaskResult)]
        if failed:
            raise RuntimeError(failed[0].reason)
        landed += len(found)
    return time.perf_counter() - begin


def _ranges_of_a_compaction(engine: SparkEngine, root: Path) -> tuple[int, int]:
    """Of the next one, as `explain` tells them, and as they then run."""
    opened = lithify.open(root.as_uri())
    admin = lithify.Admin(opened)
    expected = admin.explain(TOPIC, 0).estimate
    lithify.Compactor(opened, engine).run_once()
    first = min(admin.compactions(), key=lambda job: job.created_at)
    if expected is None or first.status != "completed":
        raise RuntimeError(f"the compaction is {first.status}: {first.error}")
    return expected.ranges, first.progress.ranges


def _measure(folder: Path, shape: Shape, runs: int) -> OnCluster:
    from tests.cluster.standalone import (
        running_cluster,
    )  # and with it PySpark, which the rest of this need not wait for

    shape = msgspec.structs.replace(shape, segments=_TIMES * shape.segments)
    small = msgspec.structs.replace(shape, segments=1, rows=1_000, keys=1_000)
    large, little = (lithify.open(warehouse(folder, each).as_uri()) for each in (shape, small))
    tasks, few = _tasks(large, _RANGES), _tasks(little, 1)
    walls: dict[int, list[float]] = {1: [], 2: []}
    alone: list[float] = []
    each_task: list[float] = []
    explained = run = 0
    for workers, times in walls.items():
        with tempfile.TemporaryDirectory() as place, running_cluster(Path(place), workers) as running:
            engine = SparkEngine(running.url, config=_CONF)
            try:
                _seconds(engine, little, few * 4 * workers)  # executors and their Python workers start
                times += (_seconds(engine, large, tasks) for _ in range(runs))
                if workers == 1:
                    alone += (_seconds(engine, large, tasks[:1]) for _ in range(runs))
                    each_task += (_seconds(engine, little, few * _SMALL_TASKS) / _SMALL_TASKS for _ in range(runs))
                else:
                    copy = copy_warehouse(warehouse(folder, shape), folder / "work-cluster")
                    explained, run = _ranges_of_a_compaction(engine, copy)
            finally:
                engine.close()
                shutil.rmtree(folder / "work-cluster", ignore_errors=True)
    return OnCluster(
        ranges=len(tasks),
        range_s=statistics.median(alone),
        one_s=statistics.median(walls[1]),
        two_s=statistics.median(walls[2]),
        task_s=statistics.median(each_task),
        ranges_explained=explained,
        ranges_run=run,
    )


def _main(asked: str) -> None:
    folder, shape, runs = json.loads(asked)
    found = _measure(Path(folder), msgspec.convert(shape, Shape), runs)
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
