"""What docs/spark.md says of views in SQL (RFC 0022)."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

import lithify

pytestmark = pytest.mark.spark


def made(spark: Any, url: str, options: str = "") -> None:
    text = f"CREATE OR REPLACE TEMPORARY VIEW t USING lithify OPTIONS (topic 't', path '{url}'{options})"
    spark.sql(text)


def count(spark: Any) -> int:
    return spark.sql("SELECT count(*) FROM t").first()[0]


def test_a_view_shows_the_snapshot_of_its_first_use_until_it_is_made_anew(
    spark: Any, url: str, warehouse: lithify.Warehouse
) -> None:
    topic = warehouse.create_topic("t")
    made(spark, url)
    topic.append([lithify.Record(b"a", b"v")])
    assert count(spark) == 1
    topic.append([lithify.Record(b"b", b"v")])
    spark.sql("INSERT INTO t (key, value) VALUES (CAST('c' AS BINARY), CAST('v' AS BINARY))")
    assert count(spark) == 1
    spark.sql("REFRESH TABLE t")
    assert count(spark) == 1
    made(spark, url)
    assert count(spark) == 3


def test_columns_that_an_insert_does_not_name_are_given_by_the_log(
    spark: Any, url: str, warehouse: lithify.Warehouse
) -> None:
    topic = warehouse.create_topic("t")
    made(spark, url)
    before_ms = warehouse.driver.now_ms()
    spark.sql("INSERT INTO t (value, key) SELECT CAST('v' AS BINARY), CAST('k' AS BINARY)")
    (row,) = topic.partition(0).read()
    assert (row.key, row.value, row.headers) == (b"k", b"v", ())
    assert row.timestamp_ms is not None
    assert row.timestamp_ms >= before_ms


def test_an_insert_that_does_not_name_the_value_deletes_the_key(
    spark: Any, url: str, warehouse: lithify.Warehouse
) -> None:
    """Spark fills it with null, as docs/spark.md says; nothing tells it from a null that was given."""
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    topic.append([lithify.Record(b"k", b"v")])
    made(spark, url)
    spark.sql("INSERT INTO t (key, timestamp_ms) SELECT CAST('k' AS BINARY), 1700000000000")
    assert [(row.key, row.value) for row in topic.partition(0).read()] == [(b"k", b"v"), (b"k", None)]
    assert topic.get(b"k") is None


def test_without_names_an_insert_gives_all_columns(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("t")
    made(spark, url)
    with pytest.raises(PySparkException):
        spark.sql("INSERT INTO t SELECT CAST('k' AS BINARY), CAST('v' AS BINARY)")


def test_a_view_that_is_inserted_into_has_no_option_of_a_read(
    spark: Any, url: str, warehouse: lithify.Warehouse
) -> None:
    warehouse.create_topic("t")
    made(spark, url, ", columns 'key,value'")
    with pytest.raises(PySparkException, match="write knows no option 'columns'"):
        spark.sql("INSERT INTO t SELECT CAST('k' AS BINARY), CAST('v' AS BINARY)")
