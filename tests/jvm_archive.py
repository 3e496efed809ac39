"""The classes of Spark, loaded and checked once for all the JVMs that tests start (class data sharing of the JVM).

Each of them lives for seconds, and loading classes is half of what it does. `python -m tests.jvm_archive` makes the
archive with the Java that tests use; the Makefile does so, once for each .venv. Without it all works, more slowly.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["jvm_options"]

_ARCHIVE = Path(__file__).parent.parent / ".venv" / "spark.jsa"
_QUICK = "-XX:TieredStopAtLevel=1"  # compiling quickly instead of well takes half of the processor time


def jvm_options() -> str:
    """For a JVM that runs Spark, with spaces between. One that the archive does not fit does without it, in silence."""
    shared = f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
    return _QUICK + (shared if _ARCHIVE.exists() and " " not in str(_ARCHIVE) else "")


def work(session: "SparkSession") -> None:
    """What tests do, so that its classes are loaded."""
    import pyarrow as pa

    numbers = session.range(1_000).selectExpr("id", "id % 10 AS ten", "CAST(CAST(id AS STRING) AS BINARY) AS bytes")
    numbers.createOrReplaceTempView("numbers")
    session.sql("SELECT ten, count(*) AS n FROM numbers GROUP BY ten ORDER BY ten").collect()
    session.sql("SELECT * FROM numbers JOIN (SELECT ten, max(id) AS id FROM numbers GROUP BY ten) USING (id)").toArrow()
    numbers.mapInArrow(lambda batches: batches, numbers.schema).count()
    session.sparkContext.parallelize(range(4), 2).map(lambda number: number + 1).collect()
    session.createDataFrame(pa.table({"a": [1]})).collect()
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(60)


def make(archive: Path) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    made = archive.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUICK} -XX:+UseSerialGC -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    session = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    work(session)
    session.stop()
    java: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    java.proc.stdin.close()  # the JVM ends, and writes
    java.proc.wait()
    if made.exists():
        made.replace(archive)
    else:
        print("This Java makes none", file=sys.stderr)


if __name__ == "__main__":
    from lithify.work.java import use_java

    use_java()
    make(_ARCHIVE)
