"""How the demo's changes get in, and how they are read: with Spark's df.write and spark.read, or in this process.

The Spark program is a child process, as a user's would be. It obeys each line on its stdin with a line on its stdout,
and ends when stdin ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lithify.cli.records.formats import parquet_name
from lithify.log.partition import Partition
from lithify.store.errors import Corrupt, Unavailable

__all__ = ["InProcess", "OnSpark", "Pipeline"]

_TAIL_LINES = 15
_KEYS = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"}


class Pipeline(Protocol):
    parts: str  # the three are words for people: what it appends in,
    doing: str  # what it does meanwhile,
    reads: str  # and how it reads
    with_start: str  # what the time of the appends includes

    def append(self, tables: Sequence[pa.Table]) -> range:
        """Append the rows in order, one segment for each table; returns their offsets."""
        ...

    def latest(self, checkpoint: str | None = None) -> pa.Table:
        """The latest record of each key, in key order."""
        ...


class InProcess:
    parts, doing, reads, with_start = "commits", "appending", "scan", ""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def append(self, tables: Sequence[pa.Table]) -> range:
        given = [self._partition.append(table) for table in tables]
        return range(given[0].start, given[-1].stop)

    def latest(self, checkpoint: str | None = None) -> pa.Table:
        found = self._partition.snapshot() if checkpoint is None else self._partition.pinned(checkpoint)
        return found.scan().read_all()


class _Order(msgspec.Struct, frozen=True):
    """Append the Parquet file in `tasks` tasks; or write what is read to it."""

    topic: str
    file: str
    tasks: int = 0
    checkpoint: str | None = None


class OnSpark:
    """A context manager. Its Spark starts at once, in the background."""

    parts, doing, reads = "tasks of Spark's df.write", "Spark starts, then appends", "spark.read"
    with_start = ", Spark's start included"

    def __init__(
        self, url: str, partition: Partition, env: Mapping[str, str], folder: Path, options: Mapping[str, Any]
    ) -> None:
        self._partition = partition
        self._folder = folder
        self._log = folder / "pipeline.log"
        # Spark would log storage options, so what is secret goes another way.
        keys = {_KEYS[name]: str(value) for name, value in options.items() if name in _KEYS}
        plain = {name: value for name, value in options.items() if name not in _KEYS}
        command = [sys.executable, "-m", "lithify.cli.demo.pipeline", url, msgspec.json.encode(plain).decode()]
        own = {"SPARK_LOCAL_DIRS": str(folder), "TMPDIR": str(folder)}
        own["JDK_JAVA_OPTIONS"] = f"{env.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={folder}"
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                command,
                env={**env, **keys, **own},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> "OnSpark":
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.communicate()

    def append(self, tables: Sequence[pa.Table]) -> range:
        table, start = pa.concat_tables(tables), self._partition.snapshot().next_offset
        file = self._folder / parquet_name(f"changes-{start}")
        pq.write_table(table.append_column("position", pa.array(range(table.num_rows), pa.int64())), file)
        self._obey(_Order(self._partition.topic, str(file), tasks=len(tables)))
        end = self._partition.snapshot().next_offset
        if end - start != table.num_rows:
            raise Corrupt(f"Spark was to append {table.num_rows} changes, and the log has {end - start} more")
        return range(start, end)

    def latest(self, checkpoint: str | None = None) -> pa.Table:
        file = self._folder / parquet_name("read")
        self._obey(_Order(self._partition.topic, str(file), checkpoint=checkpoint))
        return pq.read_table(file).sort_by("key")

    def _obey(self, order: _Order) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(msgspec.json.encode(order).decode() + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer.strip() != "done":
            self._child.kill()
            tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
            raise Unavailable(f"the demo's Spark program ended; its last words:\n{tail}")


def main(url: str, options: str) -> None:
    """The child process. Spark's JVM inherits its output, so the answers get a descriptor of their own."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from pyspark_lithify import LithifyDataSource

    from lithify.work.spark_session import close_session, open_session, prepare

    prepare("local[*]", {})
    spark, _ = open_session("local[*]", {})
    spark.dataSource.register(LithifyDataSource)
    for line in sys.stdin:
        _obeyed(spark, url, options, msgspec.json.decode(line, type=_Order))
        print("done", file=answers, flush=True)
    close_session(spark)


def _obeyed(spark: Any, url: str, options: str, order: _Order) -> None:
    given = {"topic": order.topic, "storage_options": options}
    if order.tasks:
        changes = spark.read.parquet(f"file://{order.file}")
        in_order = changes.repartitionByRange(order.tasks, "position").sortWithinPartitions("position")
        in_order.drop("position").write.format("lithify").options(**given).mode("append").save(url)
        return
    if order.checkpoint is not None:
        given["checkpoint"] = order.checkpoint
    pq.write_table(spark.read.format("lithify").options(**given).load(url).toArrow(), order.file)


if __name__ == "__main__":
    main(*sys.argv[1:])
