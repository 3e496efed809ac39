"""The PySpark data source "lithify" (docs/rfcs/0022, docs/spark.md): topics as DataFrames and streams, both ways.

    spark.read.format("lithify").option("topic", "users").load("s3://bucket/prefix")

Spark finds this package by its name in every folder of packages. An editable install has no such folder: there it is
`spark.dataSource.register(pyspark_lithify.LithifyDataSource)`. Importing it loads nothing but Spark's own classes:
Spark imports every package of such a name whenever it looks for a format.
"""

if __name__ != "pyspark_lithify":
    raise ImportError("import pyspark_lithify, not spark: the folder spark/ is the source of that package")

from pyspark_lithify.source import LithifyDataSource

__all__ = ["DefaultSource", "LithifyDataSource"]

DefaultSource = LithifyDataSource
"""The name that Spark looks for."""
