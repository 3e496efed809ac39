"""A stream from topic to topic whose JVM is killed at a point of its life: a program, and the format that does it.

    python -m tests.spark.mortal URL CHECKPOINT POINT

POINT: "read" (a task has read its first rows), "write" (its segments are written), "begin" (nothing is appended),
"part" (one partition is appended), "end" (all are, and Spark does not know), or "never".
"""

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark_lithify import LithifyDataSource
from pyspark_lithify.streaming import StreamReader, StreamWriter

from lithify.log.partition import Partition
from lithify.work.java import use_java

__all__ = ["POINTS", "MortalDataSource"]

POINTS = ("read", "write", "begin", "part", "end")


class MortalDataSource(LithifyDataSource):
    """The options `point` and `jvm` say when whom to kill; the others are those of the format."""

    def __init__(self, options: Any) -> None:
        self._point, self._jvm = options["point"], int(options["jvm"])
        super().__init__({name: value for name, value in options.items() if name not in ("point", "jvm")})

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        made = super().streamReader(schema)
        made.__class__, made.fate = MortalReader, (self._point, self._jvm)
        return made

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        made = super().streamWriter(schema, overwrite)
        made.__class__, made.fate = MortalWriter, (self._point, self._jvm)
        return made


def meet(fate: tuple[str, int], point: str) -> None:
    if fate[0] == point:
        os.kill(fate[1], signal.SIGKILL)
        signal.pause()  # until Spark's end takes this process along


class MortalReader(StreamReader):
    fate: tuple[str, int]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch
            meet(self.fate, "read")


class MortalWriter(StreamWriter):
    fate: tuple[str, int]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = super().write(iterator)
        if written.segments:
            meet(self.fate, "write")
        return written

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        meet(self.fate, "begin")
        upload, fate = Partition.upload, self.fate

        def uploaded(part: Partition, *given: Any) -> range:
            found = upload(part, *given)
            meet(fate, "part")
            return found

        Partition.upload = uploaded  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Partition.upload = upload  # type: ignore[method-assign]
        meet(self.fate, "end")


def main(url: str, checkpoint: str, point: str) -> None:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.dataSource.register(MortalDataSource)
    jvm = str(spark.sparkContext._gateway.proc.pid)
    stream = spark.readStream.format("mortal").options(topic="source", maxOffsetsPerTrigger=150, point=point, jvm=jvm)
    stream = stream.option("failOnDataLoss", "false")  # the test knows what retention took
    query = stream.load(url).writeStream.format("mortal").options(topic="t", point=point, jvm=jvm)
    query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(url).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
