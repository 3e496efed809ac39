"""Columns on both sides: what is read has Spark's types exactly, and what is written becomes what a log takes."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lithify.store.errors import InvalidRequest

__all__ = ["check_given", "check_written", "for_append", "for_spark", "spark_schema"]

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "offset": LongType(),
    "timestamp_ms": LongType(),
    "headers": ArrayType(_HEADER),
    "partition": IntegerType(),
}
_HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
_ARROW: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "headers": _HEADERS,
    "partition": pa.int32(),
}
_GIVEN_BY_THE_LOG = ("offset", "partition")
_ACCEPTED = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "timestamp_ms": (LongType, IntegerType, TimestampType),
    "headers": (ArrayType,),
}


def spark_schema(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def check_given(schema: StructType, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a schema that the user gave: some of `columns`, each once, with the types that they have.

    SUBTLE! NOT NULL is refused. Spark would plan by it: it answers `WHERE key IS NULL` without looking, though records
    without a key are there. Test: tests/spark/test_columns.py"""
    wanted = {field.name: field.dataType for field in spark_schema(columns)}
    if not schema.fields:
        raise InvalidRequest(f"the schema given to the read has no column: name some of {', '.join(wanted)}")
    _check_each_once(schema, "leave one out")
    for field in schema:
        if field.name not in wanted:
            near = f" (case counts: {field.name.lower()})" if field.name.lower() in wanted else ""
            raise InvalidRequest(f"the schema names a column {field.name!r}{near}; there are {', '.join(wanted)}")
        given, kind = field.dataType.simpleString(), wanted[field.name].simpleString()
        if given != kind:
            raise InvalidRequest(
                f"the schema says {field.name} is {given}; it is {kind}: leave the schema out, and cast afterwards"
            )
        if not field.nullable or not _all_nullable(field.dataType):
            raise InvalidRequest(
                f"the schema says that {field.name}, or something within it, is never null; Spark is not promised "
                "that: leave NOT NULL out, and filter afterwards"
            )
    return tuple(field.name for field in schema)


def _check_each_once(schema: StructType, remedy: str) -> None:
    names = [field.name.lower() for field in schema]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidRequest(f"two columns are named {twice[0]!r} (case does not count): {remedy}")


def _all_nullable(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return kind.containsNull and _all_nullable(kind.elementType)
    if isinstance(kind, StructType):
        return all(field.nullable and _all_nullable(field.dataType) for field in kind)
    return True


def for_spark(batch: pa.RecordBatch, columns: Sequence[str], partition: int) -> pa.RecordBatch:
    """Exactly the types that Spark expects, without our field ids."""
    arrays: list[Any] = []
    for name in columns:
        if name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows))
        else:
            column: Any = batch.column(name)
            arrays.append(column if column.type == _ARROW[name] else column.cast(_ARROW[name]))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([pa.field(name, _ARROW[name]) for name in columns]))


def check_written(schema: StructType) -> None:
    """Raises InvalidRequest unless rows of this schema can be appended. `offset` and `partition` are let in, and left
    out of what is written, so that what was read from a topic can be written to another as it is."""
    _check_each_once(schema, "rename or drop one")
    names = [field.name.lower() for field in schema]
    for name in ("key", "value"):
        if name not in names:
            raise InvalidRequest(
                f"no column {name!r}: a topic takes key, value, and optionally timestamp_ms and headers"
            )
    for field in schema:
        _check_field(field)


def _check_field(field: StructField) -> None:
    name = field.name.lower()
    if name in _GIVEN_BY_THE_LOG:
        return
    if name not in _ACCEPTED:
        raise InvalidRequest(
            f"column {field.name!r} is none of key, value, timestamp_ms, headers: drop it, or put it into the value, "
            'as with to_json(struct("*"))'
        )
    if not isinstance(field.dataType, _ACCEPTED[name]) or (name == "headers" and not _is_headers(field.dataType)):
        wanted = {
            "timestamp_ms": "a number of milliseconds since 1970, or a timestamp",
            "headers": "array<struct<key:string,value:binary>>",
        }.get(name, "binary or string")
        zone = ". CAST(… AS TIMESTAMP) takes it in the session's time zone" if _zoneless(field.dataType) else ""
        kind = field.dataType.simpleString()
        raise InvalidRequest(f"column {field.name!r} is {kind}; it must be {wanted}: cast it{zone}")


def _zoneless(kind: DataType) -> bool:
    """SUBTLE! A time without a zone is not a moment. Taken for UTC, as Arrow's cast would, a record's time would differ
    by hours from what Spark itself says it is, without an error. Test: tests/spark/test_columns.py"""
    return isinstance(kind, TimestampNTZType)


def _is_headers(kind: DataType) -> bool:
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    # SUBTLE! Names count, with case: Arrow's cast of structs takes fields by their exact names, and makes others null,
    # so the values of a field `Value` would be lost without an error. Test: tests/spark/test_columns.py
    return [(field.name, field.dataType) for field in kind.elementType] == [
        (field.name, field.dataType) for field in _HEADER
    ]


def for_append(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    """The columns that a log takes, with its types. `names`: of the columns that were checked on the driver. Raises
    InvalidRequest for a batch with other columns: each is looked at, not the first alone."""
    if tuple(batch.schema.names) != tuple(names):
        raise InvalidRequest(
            f"a batch has the columns {', '.join(batch.schema.names)}, and the first had {', '.join(names)}"
        )
    arrays: dict[str, Any] = {}
    for position, name in enumerate(names):
        name = name.lower()
        if name not in _GIVEN_BY_THE_LOG:
            arrays[name] = _cast(batch.column(position), _ARROW[name], name)
    return pa.table(arrays)


def _cast(column: Any, kind: pa.DataType, name: str) -> Any:
    if column.type == kind:
        return column
    try:
        if name == "headers" and _names_of(column.type) != _names_of(kind):
            raise pa.ArrowInvalid("a cast would make its fields null")
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(kind)
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidRequest(f"a batch's column {name!r} is {column.type}, which is not what the schema said") from None


def _names_of(kind: Any) -> list[str]:
    """Of the fields of a list of structs."""
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    return [field.name for field in inner] if inner is not None and pa.types.is_struct(inner) else []
