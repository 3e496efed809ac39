"""Tables of other libraries are appended, and read topics, through Arrow's C interface (docs/frames.md)."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lithify.log.frames import Columns, frame_of
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.tables import TABLE_BYTES_MAX
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frames.md"

COLUMNS: dict[str, list[Any]] = {"id": ["ada", "bela", "carl"], "plan": ["free", None, "team"], "seats": [1, 2, 3]}
TABLE = pa.table(COLUMNS)
FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "DuckDB": lambda: duckdb.from_arrow(TABLE),
    "a table": lambda: TABLE,
    "a batch": lambda: TABLE.to_batches()[0],
    "a reader": lambda: TABLE.to_reader(max_chunksize=1),
    "structs": lambda: pa.StructArray.from_arrays(TABLE.to_batches()[0].columns, names=TABLE.column_names),
    "dicts": TABLE.to_pylist,
}


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    return warehouse.create_topic("t").partition(0)


def stored(part: Partition) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in part.read()]


def test_the_page_is_true() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    exec(compile("".join(blocks).replace("memory://frames", f"memory://{new_id()}"), str(PAGE), "exec"), {})


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_of_any_name_are_appended(part: Partition, frame: Callable[[], Any]) -> None:
    assert part.append(frame(), key="id", value="plan") == range(3)
    assert stored(part) == [(b"ada", b"free"), (b"bela", None), (b"carl", b"team")]
    assert part.append(frame(), value="plan") == range(3, 6)
    assert [key for key, _ in stored(part)[3:]] == [None] * 3  # no column has the name of the key


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_that_nobody_named_are_refused(part: Partition, frame: Callable[[], Any]) -> None:
    with pytest.raises(InvalidRequest, match="'id'"):
        part.append(frame())
    assert part.describe().next_offset == 0


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_column_that_is_not_there_is_named_with_those_that_are(part: Partition, frame: Callable[[], Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"no column 'payload' \(value=\); there are id, plan, seats"):
        part.append(frame(), key="id", value="payload")
    with pytest.raises(InvalidRequest, match=r"no column 'at' \(timestamp=\); there are id, plan, seats"):
        part.append(frame(), key="id", value="plan", timestamp="at")


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_column_of_a_wrong_type_is_named_with_its_argument(part: Partition, frame: Callable[[], Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"'seats' \(key=\).* type int.*text"):
        part.append(frame(), key="seats", value="plan")
    with pytest.raises(InvalidRequest, match=r"'seats' \(value=\).* type int.*text"):
        part.append(frame(), key="id", value="seats")


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_who_names_no_columns_is_told_the_arguments(
    part: Partition, warehouse: Warehouse, frame: Callable[[], Any]
) -> None:
    with pytest.raises(InvalidRequest, match="key= and value="):
        part.append(frame())
    with pytest.raises(InvalidRequest, match="value="):
        part.append(frame(), key="id")
    compacted = warehouse.create_topic("compacted", config={"cleanup.policy": "compact"})
    with pytest.raises(InvalidRequest, match="key= names its column"):
        compacted.append(frame(), value="plan")


def test_a_record_of_text_is_told_how_to_make_bytes(part: Partition) -> None:
    text: Any = "k"
    with pytest.raises(InvalidRequest, match=r"a key of type str: give bytes \(b'…', or text\.encode\(\)\) or None"):
        part.append([Record(text, text)])


def test_keys_and_values_may_change_their_names() -> None:
    given = pa.table({"key": ["k"], "value": ["v"], "timestamp_ms": [5], "at": [7]})
    chosen = frame_of(given, Columns(key="value", value="key", timestamp="at"), "t")
    assert chosen.to_pylist() == [{"key": "v", "value": "k", "timestamp_ms": 7}]
    assert frame_of(given, Columns(value="key"), "t").to_pylist() == [{"key": "k", "value": "k", "timestamp_ms": 5}]


def test_two_columns_of_one_name_are_refused(part: Partition) -> None:
    twice = pa.table([["a"], ["b"], ["c"]], names=["id", "id", "value"])
    with pytest.raises(InvalidRequest, match="two columns 'id'"):
        part.append(twice, key="id")
    assert part.append(twice, key="value") == range(1)


def test_an_index_that_nobody_named_is_left_out(part: Partition) -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "value": ["1", "2"]})
    part.append(frame[frame["key"] == "b"])
    part.append(frame.set_index("key"))
    assert stored(part) == [(b"b", b"2"), (b"a", b"1"), (b"b", b"2")]


def test_what_is_no_table_is_refused(part: Partition) -> None:
    numbers: Any
    for numbers in (pa.chunked_array([[1, 2]]), pl.Series([1, 2]), pa.array([1, 2])):
        with pytest.raises(InvalidRequest, match=r"exports no table|is missing"):
            part.append(numbers)


def test_an_endless_stream_is_refused_before_it_fills_the_memory(part: Partition) -> None:
    """It is the size of the columns that are taken that counts."""
    taken, chunk = 0, pa.record_batch({"value": [b"v" * (1 << 24)] * 4, "other": [b"o"] * 4})

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        while True:
            taken += 1
            yield chunk

    with pytest.raises(InvalidRequest, match="append it in parts"):
        part.append(pa.RecordBatchReader.from_batches(chunk.schema, batches()), value="value")
    assert taken == 2 * TABLE_BYTES_MAX // (1 << 26) + (2 * TABLE_BYTES_MAX % (1 << 26) > 0)


def test_a_source_that_fails_appends_nothing(part: Partition) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["v"]})
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        part.append(pa.RecordBatchReader.from_batches(pa.schema([("value", pa.string())]), batches()))
    assert part.describe().next_offset == 0


def test_dicts_are_records(part: Partition) -> None:
    moment = datetime(2001, 9, 9, 1, 46, 40, 999_999, tzinfo=UTC)
    part.append(
        [
            {"key": "é", "value": "text", "timestamp_ms": moment, "headers": {"a": "1", "b": None, "c": b"\xff"}},
            {"key": b"\xff", "value": None, "headers": [("a", b"1")]},
            Record(None, b"v", 5),
            {"value": b""},
        ]
    )
    first, second, third, fourth = part.read()
    assert (first.key, first.value, first.timestamp_ms) == ("é".encode(), b"text", 1_000_000_000_999)
    assert first.headers == (("a", b"1"), ("b", None), ("c", b"\xff"))
    assert (second.key, second.value, second.headers) == (b"\xff", None, (("a", b"1"),))
    assert (third.timestamp_ms, fourth.key, fourth.value) == (5, None, b"")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "a"}, "no column 'plan'"),
        ({"id": 7, "plan": "p"}, "key .*of type int"),
        ({"id": "a", "plan": {"deep": 1}}, "value .*of type dict"),
        ({"id": "a\ud800", "plan": "p"}, "key .*of type str"),
        ({"id": "a", "plan": "p", "headers": {1: b""}}, "headers"),
        ({"id": "a", "plan": "p", "timestamp_ms": datetime(2001, 1, 1)}, "timestamp_ms"),  # noqa: DTZ001
    ],
)
def test_dicts_that_do_not_fit_are_refused(part: Partition, row: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        part.append([{"id": "a", "plan": "p"}, row], key="id", value="plan")
    assert part.describe().next_offset == 0


def test_topics_partitions_and_their_snapshots_are_tables(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("users", partitions=2)
    topic.append([Record(b"ada", b"1"), Record(b"bela", b"1"), Record(b"carl", b"1")])
    before: list[Any] = [topic.snapshot(), *(topic.partition(number).snapshot() for number in range(2))]
    topic.append([Record(b"ada", b"2")])
    shown = {row["key"]: row["value"] for row in pl.DataFrame(topic).to_dicts()}
    assert shown == {b"ada": b"2", b"bela": b"1", b"carl": b"1"}
    parts = [pa.table(topic.partition(number)) for number in range(2)]
    assert sum(part.num_rows for part in parts) == 3
    assert pa.table(before[0])["value"].to_pylist() == [b"1"] * 3
    assert sum(len(pl.DataFrame(one)) for one in before[1:]) == 3
    copied = warehouse.create_topic("copy")
    given: Topic = topic
    copied.append(given, key="key", value="value")
    assert copied.get("ada") is not None
