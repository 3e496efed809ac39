"""The data source against Spark's own: topics read and written, and Parquet, in one session and in turn.

Reading ends in Spark's format `noop`, which takes every row and keeps none. Both sides read the same files: those of a
sorted run. Both write the same rows.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

import lithify
from benchmarks.generate import TOPIC, Shape, distinct, one_run
from benchmarks.measure import cpu_seconds
from lithify.log.read_task import read_task
from lithify.segment.schema import RECORDS
from lithify.store.file import FileStore

__all__ = ["CARRIED", "KEYS", "OURS", "PARQUET", "SHUFFLED", "SORTED", "OnSpark", "Times", "data_source"]

PARQUET, OURS, CARRIED, KEYS = (
    "spark.read.parquet",
    "lithify",
    "a source that only carries batches",
    "lithify, key alone",
)
SORTED, SHUFFLED = "as they come", "by key, after a shuffle"
_HEAP = "4g"
_WARM_ROUNDS = 3  # the JVM compiles what it runs often
_READ_ROUNDS = 3  # of reading in each run: they are short


class Times(msgspec.Struct, frozen=True):
    """Of the rounds of one contender, in turn with the others'. CPU of the JVM and of the Python workers."""

    wall_s: list[float] = []
    cpu_s: list[float] = []

    def over(self, other: "Times") -> float:
        """The median of the ratios of the wall times of rounds that followed each other."""
        return statistics.median(a / b for a, b in zip(self.wall_s, other.wall_s, strict=True))

    def cpu_over(self, other: "Times") -> float:
        return statistics.median(a / b for a, b in zip(self.cpu_s, other.cpu_s, strict=True))


class OnSpark(msgspec.Struct, frozen=True):
    read_rows: int
    written_rows: int
    reads: dict[str, Times]
    writes: dict[str, tuple[Times, Times]]  # lithify's, and Spark's own of Parquet, sorted by key


def data_source(folder: Path, shape: Shape, runs: int) -> OnSpark:
    """In a process of its own, which opens a Spark session."""
    asked = json.dumps([str(folder), msgspec.to_builtins(shape), runs])
    done = subprocess.run([sys.executable, "-m", "benchmarks.data_source", asked], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=OnSpark)


def _session(folder: Path, processors: int) -> Any:
    """With Spark's own settings, but for the heap."""
    import pyspark_lithify
    from pyspark.sql import SparkSession

    from benchmarks.carrier import Carrier
    from lithify.work.spark_session import prepare

    prepare(f"local[{processors}]", {})
    builder: Any = SparkSession.builder.master(f"local[{processors}]")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": _HEAP,
        "spark.local.dir": str(folder / "work-data-source-shuffle"),
        "spark.sql.shuffle.partitions": str(4),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(pyspark_lithify.LithifyDataSource)
    session.dataSource.register(Carrier)
    return session


def _reads(session: Any, root: Path) -> dict[str, Callable[[], Any]]:
    """What gives the frame of each contender."""
    columns = tuple(RECORDS.names)
    found = lithify.open(root.as_uri()).topic(TOPIC).partition(0).snapshot().plan(columns=columns)
    files = {str(root / task.keys.segment(ref.id)) for task in found for ref in task.segments}
    batches = [[batch.num_rows for batch in read_task(task, FileStore(root))] for task in found]
    rows = round(statistics.mean(rows for task in batches for rows in task))
    ours = session.read.format("lithify").option("topic", TOPIC)
    carried = session.read.format("carrier").option("rows", rows)
    carried = carried.option("batches", ",".join(str(round(sum(task) / rows)) for task in batches))
    return {
        PARQUET: lambda: session.read.parquet(*sorted(files)).select(*columns),
        OURS: lambda: ours.option("columns", ",".join(columns)).load(root.as_uri()),
        CARRIED: carried.load,
        KEYS: lambda: ours.option("columns", "key").load(root.as_uri()),
    }


def _measure_reads(session: Any, root: Path, rounds: int) -> dict[str, Times]:
    frames = _reads(session, root)
    measured = {name: Times() for name in frames}
    for number in range(_WARM_ROUNDS + rounds):
        for name, frame in frames.items():
            writer = frame().write.format("noop").mode("overwrite")
            _timed(writer.save, measured[name], number >= _WARM_ROUNDS)
    return measured


def _timed(work: Callable[[], object], into: Times, counts: bool) -> None:
    cpu_s, begin = cpu_seconds(os.getpid()), time.perf_counter()
    work()
    if counts:
        into.wall_s.append(time.perf_counter() - begin)
        into.cpu_s.append(cpu_seconds(os.getpid()) - cpu_s)


def _measure_writes(session: Any, folder: Path, shape: Shape, runs: int) -> dict[str, tuple[Times, Times]]:
    rows = session.read.parquet(*map(str, _unsorted(folder, shape)))
    given = {SORTED: lambda: rows, SHUFFLED: lambda: rows.repartition(4, "key")}
    measured = {name: (Times(), Times()) for name in given}
    for number in range(1 + runs):
        for name, frame in given.items():
            ours, rival = measured[name]
            _timed(_appending(folder / "work-data-source", frame()), ours, number > 0)
            _timed(_writing(folder / "work-data-source.parquet", frame()), rival, number > 0)
    return measured


def _appending(root: Path, frame: Any) -> Callable[[], object]:
    shutil.rmtree(root, ignore_errors=True)
    lithify.open(root.as_uri()).create_topic(TOPIC, partitions=1, config={"cleanup.policy": "compact"})
    return lambda: frame.write.format("lithify").option("topic", TOPIC).mode("append").save(root.as_uri())


def _writing(to: Path, frame: Any) -> Callable[[], object]:
    """As lithify's segments are: sorted by key, in a file for each task, zstd 1."""
    shutil.rmtree(to, ignore_errors=True)
    writer = frame.sortWithinPartitions("key").write.option("compression", "zstd")
    return lambda: writer.option("parquet.compression.codec.zstd.level", "1").parquet(str(to))


def _unsorted(folder: Path, shape: Shape) -> Sequence[Path]:
    """The rows as Parquet in no order, made unless they are there."""
    place = folder / f"{shape.name}-unsorted"
    if not place.exists():
        begun = folder / f"{shape.name}-unsorted.part"
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir()
        for number, table in enumerate(distinct(shape)):
            pq.write_table(table, begun / f"{number}.parquet", compression="zstd", compression_level=1)
        begun.rename(place)
    return sorted(place.glob("*.parquet"))


def _measure(folder: Path, shape: Shape, runs: int) -> OnSpark:
    read = msgspec.structs.replace(shape, keys=shape.total_rows)
    written = msgspec.structs.replace(read, segments=max(1, shape.segments // 2))
    root = one_run(folder, read)
    session = _session(folder, 2)
    try:
        return OnSpark(
            read_rows=read.total_rows,
            written_rows=written.total_rows,
            reads=_measure_reads(session, root, _READ_ROUNDS * runs),
            writes=_measure_writes(session, folder, written, runs),
        )
    finally:
        session.stop()
        for name in ("work-data-source", "work-data-source.parquet", "work-data-source-shuffle"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _main(asked: str) -> None:
    folder, shape, runs = json.loads(asked)
    found = _measure(Path(folder), msgspec.convert(shape, Shape), runs)
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
