"""Records as lines of JSON: whatever a record holds comes back."""

import gzip
import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.cli.records.lines import parse_line, record_lines
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


@pytest.mark.slow
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


VALUES: st.SearchStrategy[Any] = st.none() | TEXTS | st.sampled_from([":", '":', '"a": 1', "\\", "{}", "é"])
NAMES = st.sampled_from(["h", "g", ":", "key", "base64", 'q"', ""])
MEMBERS = {
    "key": VALUES,
    "value": VALUES,
    "timestamp_ms": st.none() | st.integers(0, 9),
    "partition": st.none() | st.integers(0, 9),
    "offset": st.none() | st.integers(0, 9),
    "headers": st.none() | st.lists(st.tuples(NAMES, VALUES | st.just({"base64": "YQ=="})), max_size=3).map(list),
}
MEMBER = st.one_of(*(st.tuples(st.just(name), values) for name, values in MEMBERS.items()))


def spelled(name: str, escaped: bool) -> str:
    """JSON may spell a name in many ways."""
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"' if escaped else json.dumps(name)


@given(st.lists(st.tuples(MEMBER, st.booleans(), st.booleans()), max_size=6), st.sampled_from([":", " : ", "\t:"]))
def test_a_name_that_comes_twice_is_refused_wherever_it_stands(members: list[Any], colon: str) -> None:
    """Tried on lines.py, and caught: names looked for at the top only; those of a header taken for the line's
    own; a line taken for sound where it has more colons than names."""
    parts, twice = list[str](), len({name for (name, _), _, _ in members}) < len(members)
    for (name, value), as_object, escaped in members:
        text = json.dumps(value)
        if name == "headers" and value is not None and as_object:
            text = "{" + ", ".join(f"{spelled(n, escaped)}{colon}{json.dumps(v)}" for n, v in value) + "}"
            twice |= len({n for n, _ in value}) < len(value)
        parts.append(spelled(name, escaped) + colon + text)
    line = ("{" + ",".join(parts) + "}").encode()
    values = [value for (name, value), _, _ in members if name == "value"]
    if twice or not values:
        with pytest.raises(InvalidRequest, match="line 5 "):
            parse_line(line, 5)
    else:
        assert parse_line(line, 5).value == (None if values[0] is None else values[0].encode())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"key": "k", "value": "v1", "value": null}', "line 3 has the name value twice"),
        (b'{"key": "k", "k\\u0065y": "j", "value": "v"}', "line 3 has the name key twice"),
        (b'{"value": "v", "headers": {"a": "1", "a": "2"}}', "line 3 has headers with one name twice: give a list"),
        (b'{"value": "v", "headers": {"a": {"base64": "YQ==", "base64": "YQ=="}}}', "line 3 has headers with"),
    ],
)
def test_names_that_come_twice(line: bytes, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        parse_line(line, 3)


def test_where_every_colon_follows_a_name_the_line_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost twice the time of the rest."""
    monkeypatch.setattr("lithify.cli.records.lines._check_names", pytest.fail)
    for line in (
        {"key": "k", "value": None},
        {"key": None, "value": "v", "timestamp_ms": 1, "headers": {"a": "1", "b": {"base64": "YQ=="}, "c": None}},
        {"key_base64": "YQ==", "value_base64": "YQ==", "headers": [["a", "1"], ["a", None]], "offset": 0},
    ):
        parse_line(msgspec.json.encode(line), 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            b'{"key": 1, "value": "v"}',
            "must be text or null, not a whole number. To store it as JSON, give --key-column",
        ),
        (
            b'{"key": "k", "value": {"x": 1}}',
            "not an object. To store it as JSON, give --key-column and --value-column",
        ),
        (b'[{"key": "k", "value": "v"}]', "it must be one object, not a list: give one per line"),
        (b'{"key": "k", "value": "v"},', "is not a JSON object: leave out the comma at its end"),
        (b"{'key': 'k', 'value': 'v'}", "is not a JSON object: JSON has double quotes, not single ones"),
        (b"{", 'one object per line, as "jq -c ." does'),
        (gzip.compress(b"{}", mtime=0), "it is compressed with gzip; give the file a name that ends in .gz"),
        ('{"key": "k"}'.encode("utf-16"), "it is UTF-16; convert the file first"),
        (b"PAR1...", "it is Parquet; give --format parquet"),
    ],
)
def test_what_another_file_probably_is(line: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_line(line.split(b"\n")[0], 1)
    assert said in str(caught.value)
