"""What columns there may be: of what is written, and in a schema that is given to a read (RFC 0022)."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType
from pyspark_lithify.columns import check_written, for_append

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
