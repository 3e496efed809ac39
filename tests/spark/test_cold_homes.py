"""What a query reads of cold homes is said once, on the driver; and executors are told of those homes alone that they
need (docs/homes.md)."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark_lithify.columns import spark_schema
from pyspark_lithify.options import COLUMNS, read_options, stream_options, write_options
from pyspark_lithify.reading import BatchReader, ReadPartition
from pyspark_lithify.streaming import StreamReader, StretchPartition
from pyspark_lithify.writing import placing

import lithify

ALL = ReadAllAvailable()
TOLD = "topic t: this query reads 1 segment of a cold home; 'lithify home status t' shows what is where"
# Its library is not installed where tests run, and nobody answers there.
UNNEEDED = "gs://never/asked"


@pytest.fixture
def cold(tmp_path: Path) -> str:
    return (tmp_path / "cold").as_uri()


@pytest.fixture
def topic(warehouse: lithify.Warehouse, cold: str) -> lithify.Topic:
    """Of its two partitions, 0 has a cold segment with offsets 0 to 9, and a hot one after it."""
    made = warehouse.create_topic("t", 2, {"cleanup.policy": "compact", "cold.location": cold}, probe=False)
    admin, compactor = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    made.partition(0).append([lithify.Record(b"%04d" % n, b"v") for n in range(10)])
    admin.submit("t", 0)
    compactor.run_once()
    admin.relocate("t", 0)
    compactor.run_once()
    compactor.close()
    for part in (made.partition(0), made.partition(1)):
        part.append([lithify.Record(b"new", b"v")])
    return made


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "lithify.spark")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "lithify.spark"]


def given(url: str, **more: object) -> dict[str, str]:
    return {"topic": "t", "path": url} | {name: str(value) for name, value in more.items()}


def test_a_query_says_it_once(url: str, topic: lithify.Topic, said: Any) -> None:
    parts = BatchReader(read_options(given(url, tasks=4)), COLUMNS).partitions()
    assert len(parts) > 1
    assert said() == [TOLD]


@pytest.mark.parametrize("more", [{"partition": 1}, {"view": "log", "offset_from": 10, "partition": 0}])
def test_a_query_of_what_is_hot_says_nothing(
    url: str, topic: lithify.Topic, said: Any, more: dict[str, object]
) -> None:
    assert BatchReader(read_options(given(url, **more)), COLUMNS).partitions()
    assert said() == []


def test_a_stream_says_it_at_the_first_batch_that_is_cold(url: str, topic: lithify.Topic, said: Any) -> None:
    made = StreamReader(stream_options(given(url)), COLUMNS)
    start = made.initialOffset()
    end = made.latestOffset(start, ALL)
    hot = {**start, "offsets": {"0": 10, "1": 0}}
    made.partitions(hot, end)
    assert said() == []
    made.partitions(start, end)
    made.partitions(start, end)
    assert said() == [TOLD]


def with_homes(url: str, *homes: str) -> dict[str, str]:
    return given(url, storage_options=json.dumps({"homes": {home: {} for home in homes}}))


def test_executors_are_told_of_the_homes_that_they_need(url: str, topic: lithify.Topic, cold: str) -> None:
    options = with_homes(url, cold, UNNEEDED)
    parts = BatchReader(read_options(options), COLUMNS).partitions()
    assert {frozenset(part.spec.homes) for part in parts if isinstance(part, ReadPartition)} == {frozenset((cold,))}
    (hot,) = BatchReader(read_options(options | {"partition": "1"}), COLUMNS).partitions()
    assert isinstance(hot, ReadPartition)
    assert hot.spec.homes == {}
    assert placing(write_options(options), spark_schema(("key", "value")), None).spec.homes == {}


@pytest.mark.parametrize("asked", [True, False])
def test_a_streams_executors_know_the_homes_of_the_log_and_where_it_moves(
    url: str, topic: lithify.Topic, cold: str, tmp_path: Path, asked: bool
) -> None:
    """Of a batch that is repeated after a restart, nothing was asked before."""
    later = (tmp_path / "later").as_uri()
    topic.alter({"cold.location": later})
    start = StreamReader(stream_options(given(url)), COLUMNS).initialOffset()
    made = StreamReader(stream_options(with_homes(url, cold, later, UNNEEDED)), COLUMNS)
    end = made.latestOffset(start, ALL) if asked else {**start, "offsets": {"0": 11, "1": 1}}
    parts = made.partitions(start, end)
    assert {frozenset(part.spec.homes) for part in parts if isinstance(part, StretchPartition)} == {
        frozenset((cold, later))
    }
    assert sum(batch.num_rows for part in parts for batch in made.read(part)) == 12
