"""What columns there may be: of what is written, and in a schema that is given to a read (RFC 0022)."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark_lithify.columns import check_given, check_written, for_append

import lithify
from lithify.store.errors import InvalidRequest

SPELLED = [("key", "Value"), ("Key", "value"), ("KEY", "VALUE"), ("name", "content"), ("value", "key")]


def with_headers(fields: list[tuple[str, Any]]) -> StructType:
    inner = StructType([StructField(name, kind) for name, kind in fields])
    return StructType(
        [
            StructField("key", StringType()),
            StructField("value", StringType()),
            StructField("headers", ArrayType(inner)),
        ]
    )


def batch_with_headers(names: tuple[str, str]) -> pa.RecordBatch:
    kind = pa.list_(pa.struct([pa.field(names[0], pa.large_string()), pa.field(names[1], pa.binary())]))
    headers = pa.array([[{names[0]: "trace", names[1]: b"id-1"}]], kind)
    return pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["v"]), headers], names=["key", "value", "headers"])


@pytest.mark.parametrize("names", SPELLED)
def test_headers_whose_fields_have_other_names_are_refused_and_not_made_null(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=r"it must be array<struct<key:string,value:binary>>: cast it"):
        check_written(with_headers([(names[0], StringType()), (names[1], BinaryType())]))
    with pytest.raises(InvalidRequest, match="not what the schema said"):
        for_append(batch_with_headers(names), ("key", "value", "headers"))


def test_headers_as_they_are_read_are_taken() -> None:
    check_written(with_headers([("key", StringType()), ("value", BinaryType())]))
    found = for_append(batch_with_headers(("key", "value")), ("key", "value", "headers"))
    assert found["headers"].to_pylist() == [[{"key": "trace", "value": b"id-1"}]]


KEY, VALUE = StructField("key", StringType()), StructField("value", StringType())

WRITTEN: dict[str, tuple[list[StructField], str]] = {
    "no column at all": ([], "no column 'key'"),
    "a column twice": ([KEY, VALUE, VALUE], "two columns are named 'value'"),
    "twice but for case": (
        [KEY, VALUE, StructField("Offset", LongType()), StructField("OFFSET", LongType())],
        "two columns are named 'offset'",
    ),
    "a number as key": ([StructField("key", LongType()), VALUE], "column 'key' is bigint; it must be binary or string"),
    "a date": ([KEY, VALUE, StructField("timestamp_ms", DateType())], "is date; it must be a number of milliseconds"),
    "a time without a zone": (
        [KEY, VALUE, StructField("timestamp_ms", TimestampNTZType())],
        r"is timestamp_ntz; it must be .*CAST\(… AS TIMESTAMP\) takes it in the session's time zone",
    ),
    "a column too many": ([KEY, VALUE, StructField("note", StringType())], "column 'note' is none of"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_cannot_be_written_is_one_message(case: str) -> None:
    fields, said = WRITTEN[case]
    with pytest.raises(InvalidRequest, match=said):
        check_written(StructType(fields))


def test_what_can_be_written() -> None:
    never_null = [StructField("VALUE", BinaryType(), nullable=False), StructField("Key", StringType(), nullable=False)]
    check_written(StructType([*never_null, StructField("timestamp_ms", TimestampType())]))


def headers(*, key_nullable: bool = True, contains_null: bool = True) -> StructField:
    inner = [
        StructField("key", StringType(), key_nullable, {"comment": "of a header"}),
        StructField("value", BinaryType()),
    ]
    return StructField("headers", ArrayType(StructType(inner), contains_null))


BINARY = StructField("key", BinaryType())
GIVEN: dict[str, tuple[list[StructField], str]] = {
    "no column at all": ([], "the schema given to the read has no column"),
    "a column twice": ([BINARY, BINARY], "two columns are named 'key'"),
    "twice but for case": ([BINARY, StructField("KEY", BinaryType())], "two columns are named 'key'"),
    "other case": ([StructField("Key", BinaryType())], r"a column 'Key' \(case counts: key\)"),
    "another type": ([KEY], "key is string; it is binary"),
    "never null": ([StructField("key", BinaryType(), nullable=False)], "key, or .* never null.*leave NOT NULL out"),
    "never null within": ([headers(key_nullable=False)], "headers, or something within it, is never null"),
    "no null headers": ([headers(contains_null=False)], "headers, or something within it, is never null"),
    "a column that is not read": (
        [BINARY, StructField("offset", LongType())],
        "'offset'; there are key, value, headers",
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_a_schema_that_does_not_fit_is_one_message(case: str) -> None:
    fields, said = GIVEN[case]
    with pytest.raises(InvalidRequest, match=said):
        check_given(StructType(fields), ("key", "value", "headers"))


def test_a_schema_that_fits_chooses_columns() -> None:
    assert check_given(StructType([headers(), BINARY]), ("key", "value", "headers")) == ("headers", "key")


@pytest.mark.spark
def test_a_schema_is_checked_before_any_task(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    """Records without a key are there: Spark, told that there are none, would not look for them."""
    warehouse.create_topic("t").append([lithify.Record(None, b"v")])
    read = spark.read.format("lithify").options(topic="t", view="log")
    assert read.schema("key binary").load(url).where("key IS NULL").count() == 1
    for schema in ("key binary NOT NULL", "key binary, key binary"):
        with pytest.raises(AnalysisException, match=r"never null|two columns|DUPLICATE") as refused:
            read.schema(schema).load(url).collect()
        assert "Traceback" not in str(refused.value)
