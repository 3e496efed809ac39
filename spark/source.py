"""The format "lithify": which options and columns there are, and who reads and writes (docs/rfcs/0022).

Spark imports this file to look for formats, so lithify itself is imported only when it is used.
"""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from pyspark_lithify.telling import told

__all__ = ["LithifyDataSource"]


class LithifyDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "lithify"

    @told
    def schema(self) -> StructType:
        from pyspark_lithify.columns import spark_schema
        from pyspark_lithify.options import columns_of

        return spark_schema(columns_of(self.options))

    @told
    def reader(self, schema: StructType) -> Any:
        from pyspark_lithify.columns import check_given
        from pyspark_lithify.options import read_options
        from pyspark_lithify.reading import BatchReader

        options = read_options(self.options)
        return BatchReader(options, check_given(schema, options.columns))

    @told
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from pyspark_lithify.columns import check_written
        from pyspark_lithify.options import write_options
        from pyspark_lithify.writing import BatchWriter

        _refuse_overwrite(overwrite)
        options = write_options(self.options)
        check_written(schema)
        return BatchWriter(options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        # SUBTLE! Not `told`: 1. This raises. 2. PySpark stops the reader that it did not get, and so raises an error of
        # its own instead; ours is only in the traceback. Test: tests/spark/test_streams_in.py
        from pyspark_lithify.columns import check_given
        from pyspark_lithify.options import stream_options
        from pyspark_lithify.streaming import StreamReader

        options = stream_options(self.options)
        return StreamReader(options, check_given(schema, options.columns))

    @told
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        from pyspark_lithify.columns import check_written
        from pyspark_lithify.options import write_options
        from pyspark_lithify.streaming import StreamWriter

        _refuse_overwrite(overwrite)
        options = write_options(self.options, stream=True)
        check_written(schema)
        return StreamWriter(options, schema)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        from lithify.store.errors import InvalidRequest

        raise InvalidRequest(
            'a topic is a log: it is appended to. Use .mode("append"), or in streams .outputMode("append") '
            "(update and complete have no meaning here); 'lithify topic delete-records' makes it empty"
        )
