"""The least that a Python data source can cost: it reads nothing, and hands Spark batches that lie in memory.

Whatever it takes is PySpark's: pipes between Python and the JVM, and rows made of columns. The batches have the schema,
the sizes and the number of rows of what lithify hands over. There are a few of them, used in turn, so that they are no
more in the processor's caches than batches that were just read.
"""

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from pyspark_lithify.columns import for_spark, spark_schema

from benchmarks.generate import Shape, distinct
from lithify.segment.schema import RECORDS

__all__ = ["Carrier"]

_COLUMNS = tuple(RECORDS.names)
_IN_TURN = 16


class Carrier(DataSource):
    """Options: `rows` of one batch, and for each task `batches` of them: "75,75,74"."""

    @classmethod
    def name(cls) -> str:
        return "carrier"

    def schema(self) -> StructType:
        return spark_schema(_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        counts = self.options["batches"].split(",")
        return _Reader(int(self.options["rows"]), [_Batches(int(count)) for count in counts])


class _Batches(InputPartition):
    def __init__(self, count: int) -> None:
        super().__init__(None)
        self.count = count


class _Reader(DataSourceReader):
    def __init__(self, rows: int, tasks: Sequence[_Batches]) -> None:
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Batches)
        return itertools.islice(itertools.cycle(_made(self._rows)), partition.count)


_kept: dict[int, list[pa.RecordBatch]] = {}


def _made(rows: int) -> list[pa.RecordBatch]:
    """Made once in each worker: Spark uses its workers again."""
    if rows not in _kept:
        shape = Shape(segments=_IN_TURN, rows=rows, keys=_IN_TURN * rows)
        _kept[rows] = [for_spark(_records(table), _COLUMNS, 0) for table in distinct(shape)]
    return _kept[rows]


def _records(table: pa.Table) -> pa.RecordBatch:
    key, value, time = (column.combine_chunks() for column in table.columns)
    headers = pa.nulls(len(key), RECORDS.field("headers").type)
    return pa.RecordBatch.from_arrays([key, value, time, time, headers], schema=RECORDS)
