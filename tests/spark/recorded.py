"""What Spark writes down of reads, writes and streams: a program that does them, also wrongly, with an event log.

    python -m tests.spark.recorded URL FOLDER

FOLDER gets the event log in `events`. The program prints, as JSON, what was said: each plan as `explain` shows it, and
each error. Its secrets are in the environment, in settings of Spark, and, where that is a mistake, in options.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark_lithify import LithifyDataSource

from lithify.work.java import use_java

__all__ = ["CONTENTS", "SECRET"]

SECRET = "hush-hush-hush"
CONTENTS = ("content-of-a-key", "content-of-a-value", "content-of-a-header")
KEY, VALUE, HEADER = (text.encode() for text in CONTENTS)


def session(events: Path) -> SparkSession:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    events.mkdir(parents=True)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY": SECRET,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.dataSource.register(LithifyDataSource)
    return spark


def without_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.set_column(0, "key", pa.nulls(batch.num_rows, pa.binary()))


def too_large(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        large = pa.array([value.as_py() * 100_000 for value in batch.column(1)], pa.binary())
        yield batch.set_column(1, "value", large)


class Work:
    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self._folder = folder

    def read(self, **options: str) -> Any:
        return self._spark.read.format("lithify").options(**{"topic": "source"} | options).load(self._url)

    def write(self, frame: Any, **options: str) -> None:
        frame.write.format("lithify").options(**{"topic": "target"} | options).mode("append").save(self._url)

    def stream(self, **options: str) -> None:
        frame = self._spark.readStream.format("lithify").options(topic="source", **options).load(self._url)
        query = frame.writeStream.format("lithify").option("topic", "target")
        query = query.option("checkpointLocation", str(self._folder / f"places-{len(options)}"))
        query.trigger(availableNow=True).start(self._url).awaitTermination()

    def right(self) -> list[str]:
        """Each of these is done, and explained."""
        frames = [self.read(), self.read(view="log")]
        frames.append(self.read(columns="key,value").where("key IS NOT NULL").groupBy("value").count())
        for frame in frames:
            assert frame.count() > 0
            frame.write.format("noop").mode("overwrite").save()
        self.write(frames[1], txnAppId="job", txnVersion="1")
        self.stream()
        view = f"CREATE TEMPORARY VIEW source USING lithify OPTIONS (topic 'source', path '{self._url}')"
        self._spark.sql(view)
        self._spark.sql("INSERT INTO source SELECT * FROM source")
        return [explained(frame) for frame in frames]

    def wrong(self) -> list[str]:
        """Each of these fails."""
        secret = json.dumps({"client_kwargs": {"aws_secret_access_key": SECRET}})
        rows, schema = self.read(columns="key,value"), "key binary, value binary"
        return [
            failed(lambda: self.read(storage_options=secret).collect()),
            failed(lambda: self.write(rows, storage_options=secret)),
            failed(lambda: self.stream(storage_options=secret)),
            failed(lambda: self.write(rows.mapInArrow(without_keys, schema))),
            failed(lambda: self.write(rows.mapInArrow(too_large, schema))),
            failed(lambda: self.write(rows.selectExpr("key", "length(value) AS value"))),
            failed(lambda: self.read(topic="damaged").collect()),
        ]


def explained(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for mode in ("extended", "formatted", "codegen"):
            frame.explain(mode=mode)
    return out.getvalue()


def failed(call: Callable[[], Any]) -> str:
    try:
        call()
    except PySparkException as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("this should have failed")


def main(url: str, folder: str) -> None:
    spark = session(Path(folder) / "events")
    work = Work(spark, url, Path(folder))
    said = {"plans": work.right(), "errors": work.wrong()}
    spark.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
