"""readStream: every record once, whatever is appended, compacted, removed and added beneath it (RFC 0022)."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark_lithify.options import COLUMNS, stream_options
from pyspark_lithify.streaming import StreamReader, StretchPartition

import lithify
from lithify.log.topic import Topic
from lithify.store.errors import InvalidRequest, OffsetOutOfRange
from lithify.store.opening_homes import opened_homes
from tests.log.compaction import collect, compact

ALL = ReadAllAvailable()


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> Topic:
    return warehouse.create_topic("t", partitions=2, config={"cleanup.policy": "compact"})


def reader(url: str, columns: tuple[str, ...] = COLUMNS, **options: Any) -> StreamReader:
    given = {name: str(value) for name, value in options.items()}
    return StreamReader(stream_options({"topic": "t", "path": url} | given), columns)


def append(topic: Topic, start: int, count: int) -> None:
    topic.append([lithify.Record(b"%04d" % n, b"v%d" % n) for n in range(start, start + count)])


def keys_of(made: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    found: list[bytes] = []
    for part in made.partitions(start, end):
        for batch in made.read(part):
            found += batch.column(0).to_pylist()
    return sorted(found)


def keys(*numbers: int) -> list[bytes]:
    return [b"%04d" % n for n in range(*numbers)]


def test_every_record_once_from_offset_to_offset(url: str, topic: Topic) -> None:
    made, found = reader(url), list[bytes]()
    at = made.initialOffset()
    for start in (0, 30, 60):
        append(topic, start, 30)
        end = made.latestOffset(at, ALL)
        found += keys_of(made, at, end)
        at = end
        compact(topic_warehouse(url), "t", 0)
    assert sorted(found) == keys(90)
    assert made.latestOffset(at, ALL) == at
    assert keys_of(made, at, at) == []


def topic_warehouse(url: str) -> lithify.Warehouse:
    return lithify.open(url)


def test_a_batch_that_is_read_again_after_compaction_is_the_same(url: str, topic: Topic) -> None:
    append(topic, 0, 50)
    made = reader(url)
    start = made.initialOffset()
    end = made.latestOffset(start, ALL)
    for number in (0, 1):
        compact(topic_warehouse(url), "t", number)
        collect(topic_warehouse(url), "t", number)
    assert keys_of(reader(url), start, end) == keys(50)


def test_offsets_are_the_same_text_each_time(url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=12)
    append(topic, 0, 50)
    made = reader(url)
    at = made.latestOffset(made.initialOffset(), ALL)
    assert list(at["offsets"]) == [str(number) for number in range(12)]
    again = json.loads(json.dumps(at, sort_keys=True))
    assert json.dumps(made.latestOffset(again, ALL)) == json.dumps(at)


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_a_limit_is_kept_and_starves_no_partition(url: str, topic: Topic, limit: int) -> None:
    append(topic, 0, 40)
    made = reader(url, max_offsets_per_trigger=limit)
    assert made.getDefaultReadLimit() == ReadMaxRows(limit)
    at, found = made.initialOffset(), list[bytes]()
    for _ in range(40):
        end = made.latestOffset(at, ReadMaxRows(limit))
        if end == at:
            break
        keys_now = keys_of(made, at, end)
        assert 1 <= len(keys_now) <= limit
        found += keys_now
        at = end
    assert sorted(found) == keys(40)


def test_where_it_starts(url: str, topic: Topic) -> None:
    append(topic, 0, 10)
    ends = {str(n): topic.partition(n).describe().next_offset for n in (0, 1)}
    assert reader(url, starting_offsets="latest").initialOffset()["offsets"] == ends
    assert reader(url).initialOffset()["offsets"] == {"0": 0, "1": 0}
    assert reader(url, starting_offsets='{"1": 2}').initialOffset()["offsets"] == {"0": 0, "1": 2}
    with pytest.raises(OffsetOutOfRange, match="startingOffsets says 99"):
        reader(url, starting_offsets='{"1": 99}').initialOffset()
    with pytest.raises(InvalidRequest, match="names partition 5"):
        reader(url, starting_offsets='{"5": 0}').initialOffset()


def test_added_partitions_are_read_from_their_first_record(url: str, topic: Topic) -> None:
    append(topic, 0, 10)
    made = reader(url)
    at = made.latestOffset(made.initialOffset(), ALL)
    topic.alter(partitions=4)
    append(topic, 100, 40)
    made = reader(url)  # as after a restart
    end = made.latestOffset(at, ALL)
    assert set(end["offsets"]) == {"0", "1", "2", "3"}
    assert keys_of(made, at, end) == keys(100, 140)


def test_available_now_ends_with_what_was_there(url: str, topic: Topic) -> None:
    append(topic, 0, 20)
    made = reader(url)
    start = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    append(topic, 100, 20)
    topic.alter(partitions=3)
    append(topic, 200, 20)
    at, found = start, list[bytes]()
    for _ in range(10):
        end = made.latestOffset(at, ReadMaxRows(7))
        if end == at:
            break
        found += keys_of(made, at, end)
        at = end
    assert sorted(found) == keys(20)


def test_what_retention_took_is_an_error_or_left_out(url: str, topic: Topic) -> None:
    append(topic, 0, 20)
    made = reader(url)
    start = made.initialOffset()
    end = made.latestOffset(start, ALL)
    topic.delete_records({0: -1})
    with pytest.raises(OffsetOutOfRange, match="failOnDataLoss=false"):
        keys_of(made, start, end)
    left = [row.key for row in topic.partition(1).read()]
    assert keys_of(reader(url, fail_on_data_loss=False), start, end) == sorted(key for key in left if key)


@pytest.mark.parametrize("floor", [1, 9, 10, 11, 25, 40])
def test_a_start_of_the_log_inside_at_and_beyond_each_stretch(
    url: str, warehouse: lithify.Warehouse, floor: int
) -> None:
    """A query that is started again after days reads a batch that retention has passed: stretches of 5 up to 20."""
    topic = warehouse.create_topic("one")
    append(topic, 0, 20)
    options = {"topic": "one", "path": url, "failOnDataLoss": "false", "rows_per_task": "5"}
    made = StreamReader(stream_options(options), COLUMNS)
    start = made.initialOffset()
    end = made.latestOffset(start, ALL)
    append(topic, 20, 20)
    topic.delete_records({0: floor})
    assert keys_of(StreamReader(stream_options(options), COLUMNS), start, end) == keys(floor, 20)


def test_a_topic_that_was_made_anew_is_another(url: str, warehouse: lithify.Warehouse, topic: Topic) -> None:
    append(topic, 0, 5)
    at = reader(url).initialOffset()
    warehouse.delete_topic("t")
    warehouse.create_topic("t", partitions=2)
    with pytest.raises(InvalidRequest, match="new checkpointLocation"):
        reader(url).latestOffset(at, ALL)


def test_long_stretches_are_split_evenly_and_columns_are_pruned(url: str, topic: Topic) -> None:
    append(topic, 0, 100)
    made = reader(url, ("offset", "partition"), rows_per_task=20)
    start = made.initialOffset()
    parts = made.partitions(start, made.latestOffset(start, ALL))
    assert len(parts) == 6
    sizes = [
        part.stretch.end - part.stretch.start for part in parts if isinstance(part, StretchPartition) and part.stretch
    ]
    assert max(sizes) <= 20
    assert min(sizes) >= 14
    rows = [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]
    assert {tuple(row) for row in rows} == {("offset", "partition")}
    assert len({(row["partition"], row["offset"]) for row in rows}) == 100


def test_what_travels_names_no_secret_and_no_record(url: str, topic: Topic) -> None:
    append(topic, 0, 5)
    made = reader(url)
    start = made.initialOffset()
    (first, *_) = made.partitions(start, made.latestOffset(start, ALL))
    assert isinstance(first, StretchPartition)
    assert first.spec == opened_homes(url).spec()
    assert "000" not in repr(first.stretch)


@pytest.mark.spark
def test_a_query_goes_on_where_it_was_stopped(spark: Any, url: str, topic: Topic, tmp_path: Path) -> None:
    """Into Parquet, with AvailableNow: before growth, after compaction, and after growth."""
    out, places = tmp_path / "out", tmp_path / "checkpoint"
    for start in (0, 50, 100):
        append(topic, start, 50)
        stream = spark.readStream.format("lithify").options(topic="t", maxOffsetsPerTrigger=20).load(url)
        query = (
            stream.writeStream.format("parquet").option("checkpointLocation", str(places)).trigger(availableNow=True)
        )
        query.start(str(out)).awaitTermination()
        compact(topic_warehouse(url), "t", 0)
        if start == 50:
            topic.alter(partitions=3)
    found = spark.read.parquet(str(out))
    assert found.count() == 150
    assert sorted(bytes(row.key) for row in found.select("key").collect()) == keys(150)


@pytest.mark.spark
def test_a_query_that_cannot_go_on_says_why(spark: Any, url: str, topic: Topic, tmp_path: Path) -> None:
    stream = spark.readStream.format("lithify").options(topic="t", failOnDataLos="false").load(url)
    with pytest.raises(PySparkException, match="did you mean fail_on_data_loss"):
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().processAllAvailable()
