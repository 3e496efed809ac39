"""Users' tables become the columns of an append, or are refused by column."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lithify.log.tables import normalise
from lithify.segment.write import encode_append
from lithify.store.errors import InvalidRequest

NOW_MS = 1_700_000_000_000


BYTES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("kind", BYTES, ids=str)
def test_text_and_bytes_of_any_layout_are_accepted(kind: Any) -> None:
    column = pa.chunked_array([["a", None], ["", "longer than twelve bytes"]], pa.string()).cast(pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    rows = normalise(pa.table({"key": column, "value": column}), NOW_MS)
    assert rows.column("key").to_pylist() == [b"a", None, b"", b"longer than twelve bytes"]
    assert rows.column("value").to_pylist() == rows.column("key").to_pylist()
    assert rows.schema.types[:2] == [pa.binary(), pa.binary()]


def test_missing_columns_and_timestamps_are_filled_in() -> None:
    rows = normalise(pa.table({"value": [b"x"]}), NOW_MS)
    assert rows.to_pylist() == [{"key": None, "value": b"x", "timestamp_ms": NOW_MS, "headers": None}]
    rows = normalise(pa.record_batch({"value": [b"x", b"y"], "timestamp_ms": [5, None]}), NOW_MS)
    assert rows.column("timestamp_ms").to_pylist() == [5, NOW_MS]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_become_milliseconds(unit: str, zone: str | None) -> None:
    moment = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC if zone else None)
    column = pa.array([moment], pa.timestamp(unit, zone))
    rows = normalise(pa.table({"value": [b"x"], "timestamp_ms": column}), NOW_MS)
    assert rows.column("timestamp_ms").to_pylist() == [1_000_000_000_000]


PAIRS = [[("a", b"1"), ("b", None)], None, [], [("c", b"")]]
AS_DICTS = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in PAIRS]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_headers_may_be_maps_even_sliced(start: int) -> None:
    column = pa.array(PAIRS, pa.map_(pa.string(), pa.binary())).slice(start)
    rows = normalise(pa.table({"value": [b"x"] * len(column), "headers": column}), NOW_MS)
    assert rows.column("headers").to_pylist() == AS_DICTS[start:]


def test_headers_may_be_lists_of_any_layout() -> None:
    entry = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    column = pa.array(AS_DICTS, pa.large_list(entry))
    rows = normalise(pa.table({"value": [b"x"] * 4, "headers": column}), NOW_MS)
    assert rows.column("headers").to_pylist() == AS_DICTS


@pytest.mark.parametrize(
    ("columns", "naming"),
    [
        ({"key": ["a"]}, "'value' is missing"),
        ({"value": ["a"], "offset": [1]}, "'offset' is assigned by the log"),
        ({"value": ["a"], "horizon_ms": [1]}, "'horizon_ms' is assigned by the log"),
        ({"value": ["a"], "val": ["b"]}, "'val' is not one of"),
        ({"key": [1], "value": ["a"]}, "'key' has type int64"),
        ({"value": [1.5]}, "'value' has type double"),
        ({"value": [["a"]]}, "'value' has type list"),
        ({"value": ["a"], "timestamp_ms": ["soon"]}, "'timestamp_ms' has type string"),
        ({"value": ["a"], "timestamp_ms": [1.5]}, "'timestamp_ms' has type double"),
        ({"value": ["a"], "timestamp_ms": [True]}, "'timestamp_ms' has type bool"),
        ({"value": ["a"], "headers": ["h"]}, "'headers' has type string"),
        ({"value": ["a"], "headers": [[{"k": "a", "v": b"b"}]]}, "'headers' has type list"),
    ],
)
def test_what_does_not_fit_is_refused_by_column(columns: dict[str, Any], naming: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        normalise(pa.table(columns), NOW_MS)
    assert naming in str(refused.value)


def test_refusals_do_not_repeat_contents() -> None:
    with pytest.raises(InvalidRequest) as refused:
        normalise(pa.table({"value": ["x"], "timestamp_ms": ["sesame"]}), NOW_MS)
    assert "sesame" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="the same name"):
        normalise(pa.table([pa.array(["a"]), pa.array(["b"])], names=["value", "value"]), NOW_MS)


def test_an_empty_append_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no rows"):
        encode_append(normalise(pa.table({"value": pa.array([], pa.string())}), NOW_MS), "key")


SPANS = [pa.duration("s"), pa.duration("ns"), pa.time32("s"), pa.time64("us"), pa.date32(), pa.date64()]
TIMES = [
    pa.int8(),
    pa.uint64(),
    pa.int64(),
    pa.string(),
    pa.large_string(),
    pa.timestamp("s"),
    pa.timestamp("ns", "UTC"),
]


@pytest.mark.parametrize("kind", [*SPANS, *(pa.dictionary(pa.int32(), kind) for kind in SPANS)], ids=str)
def test_a_span_of_time_is_no_timestamp(kind: Any) -> None:
    """Arrow would take its bare number, whatever its unit is."""
    storage = pa.array([5], pa.int32() if kind in (pa.time32("s"), pa.date32()) else pa.int64())
    if pa.types.is_dictionary(kind):
        inner = kind.value_type
        storage = storage.cast(pa.int32()) if inner in (pa.time32("s"), pa.date32()) else storage
        column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), storage.view(inner))
    else:
        column = storage.view(kind)
    with pytest.raises(InvalidRequest, match=r"'timestamp_ms' has type .* cast it before appending"):
        normalise(pa.table({"key": ["a"], "value": ["b"], "timestamp_ms": column}), NOW_MS)


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_a_number_a_text_or_a_timestamp_is_one(kind: Any) -> None:
    column = pa.array(["5"], kind) if kind in TIMES[3:5] else pa.array([5], kind)
    table = normalise(pa.table({"key": ["a"], "value": ["b"], "timestamp_ms": column}), NOW_MS)
    expected = 5_000 if kind == pa.timestamp("s") else 0 if kind == pa.timestamp("ns", "UTC") else 5
    assert table.column("timestamp_ms").to_pylist() == [expected]
