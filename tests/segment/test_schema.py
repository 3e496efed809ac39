"""The columns of segments, and the field ids that may never change."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from lithify.log.tables import normalise
from lithify.segment.schema import FIELD_IDS, L0, RECORDS, RUN
from lithify.segment.write import encode_append

NOW_MS = 1_700_000_000_000


def test_field_ids_are_fixed_for_ever() -> None:
    assert FIELD_IDS == {
        "key": 1,
        "value": 2,
        "offset": 3,
        "offset_delta": 4,
        "timestamp_ms": 5,
        "headers": 6,
        "headers.element": 7,
        "headers.element.key": 8,
        "headers.element.value": 9,
        "horizon_ms": 10,
    }


def test_field_ids_are_in_the_file() -> None:
    body, _ = encode_append(normalise(pa.table({"key": ["a"], "value": ["b"]}), NOW_MS), "key")
    schema = pq.read_schema(io.BytesIO(body))
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in schema] == [1, 2, 4, 5, 6]
    element = schema.field("headers").type.value_field
    assert int(element.metadata[b"PARQUET:field_id"]) == 7
    assert [int(child.metadata[b"PARQUET:field_id"]) for child in element.type] == [8, 9]


def test_the_face_has_the_contract_s_columns() -> None:
    assert RECORDS.names == ["key", "value", "offset", "timestamp_ms", "headers"]
    assert L0.names == ["key", "value", "offset_delta", "timestamp_ms", "headers"]
    assert RUN.names == [*RECORDS.names, "horizon_ms"]
    assert all(field.nullable for field in RECORDS)  # Spark's batches must have no non-null field
