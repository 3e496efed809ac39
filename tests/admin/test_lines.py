"""Records as lines of JSON: whatever a record holds comes back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.admin.lines import parse_line, record_lines
from lithify.log.record import Record
from lithify.segment.schema import RECORDS
from lithify.store.errors import InvalidRequest

TEXTS = st.text(max_size=8)
HEADERS = st.lists(st.tuples(TEXTS, st.none() | st.binary(max_size=6)), max_size=3).map(tuple)
RECORD = st.builds(
    Record,
    key=st.none() | st.binary(max_size=8) | TEXTS.map(str.encode),
    value=st.none() | st.binary(max_size=8) | TEXTS.map(str.encode),
    timestamp_ms=st.integers(0, 2**63 - 1),
    headers=HEADERS,
)


def batch(record: Record) -> pa.RecordBatch:
    headers = [{"key": name, "value": value} for name, value in record.headers] or None
    columns = {"key": record.key, "value": record.value, "offset": 3, "timestamp_ms": record.timestamp_ms}
    return pa.RecordBatch.from_pylist([{**columns, "headers": headers}], schema=RECORDS)


@given(RECORD)
def test_there_and_back(record: Record) -> None:
    (line,) = record_lines(batch(record), partition=1)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_line(line, 1) == record


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_refused_by_number(line: bytes) -> None:
    try:
        parsed = parse_line(line, 77)
    except InvalidRequest as error:
        parsed = str(error)
    assert isinstance(parsed, Record) or parsed.startswith("line 77 ")


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(InvalidRequest, match="line 1 "):
        parse_line(b'{"key": "\\ud800", "value": ""}', 1)
