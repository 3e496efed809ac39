"""Spark SQL doing the same: `groupBy().agg(max(struct))`, range-partitioned, sorted, written as Parquet with zstd 1.

The session has the settings of lithify's own and as many cores, a heap of 6 GB, and the JVM's full compiler, which
lithify's own does without.
"""

import shutil
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import Settings
from benchmarks.reading import plain_files
from lithify.work.spark_session import open_session, prepare

__all__ = ["contender"]

_HEAP = "6g"
_PARTITIONS = 8


class SparkSql:
    def __init__(self, settings: Settings) -> None:
        self._files = sorted(map(str, plain_files(settings.folder, settings.shape).glob("*.parquet")))
        self._output = settings.folder / "work-spark-sql"
        self._shuffle = settings.folder / "work-spark-sql-shuffle"
        master = f"local[{settings.processors}]"
        prepare(master, {})
        config = {
            "spark.driver.extraJavaOptions": "-XX:+TieredCompilation",
            "spark.driver.memory": _HEAP,
            "spark.local.dir": str(self._shuffle),
            "spark.sql.shuffle.partitions": str(_PARTITIONS),
            "spark.sql.warehouse.dir": str(settings.folder / "work-spark-sql-warehouse"),
        }
        self._session: Any = open_session(master, config)[0]
        self._warm = False

    def prepare(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)
        if not self._warm:
            self._clean(1)  # the JVM compiles what it will need
            shutil.rmtree(self._output, ignore_errors=True)
            self._warm = True

    def run(self) -> Mapping[str, float]:
        self._clean(len(self._files))
        written = list(self._output.glob("*.parquet"))
        return {
            "rows_out": sum(pq.read_metadata(file).num_rows for file in written),
            "bytes_out": sum(file.stat().st_size for file in written),
        }

    def _clean(self, files: int) -> None:
        from pyspark.sql import functions

        records = self._session.read.parquet(*self._files[:files])
        newest = functions.max(functions.struct("offset", "value", "timestamp_ms")).alias("newest")
        cleaned = records.groupBy("key").agg(newest).select("key", "newest.*")
        writer = cleaned.repartitionByRange(_PARTITIONS, "key").sortWithinPartitions("key").write
        writer.option("compression", "zstd").option("parquet.compression.codec.zstd.level", "1").parquet(
            str(self._output)
        )

    def close(self) -> None:
        self._session.stop()
        for folder in (self._output, self._shuffle):
            shutil.rmtree(folder, ignore_errors=True)


def contender(settings: Settings) -> SparkSql:
    return SparkSql(settings)
