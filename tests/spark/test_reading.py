"""spark.read against `Partition.scan` and `Partition.read` (docs/rfcs/0021, 0022)."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import col

import lithify
from lithify.log.partition import Partition
from lithify.log.topic import Topic
from tests.log.compaction import compact

pytestmark = pytest.mark.spark


def read(spark: Any, url: str, topic: str = "t", **options: Any) -> Any:
    return spark.read.format("lithify").options(topic=topic, **options).load(url)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(as_plain(value) for value in row) for row in frame.collect()), key=repr)


def as_plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [(header["key"], as_plain(header["value"])) for header in value]
    return value


def of_partitions(parts: list[Partition], view: str = "latest", tombstones: bool = False) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for part in parts:
        table = part.scan(tombstones).read_all() if view == "latest" else part.read_batches().read_all()
        for row in table.to_pylist():
            headers = row["headers"] and [(header["key"], header["value"]) for header in row["headers"]]
            found.append((row["key"], row["value"], row["offset"], row["timestamp_ms"], headers, part.number))
    return sorted(found, key=repr)


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> Topic:
    """Two partitions, of which each has a run, what came after it, tombstones, and headers."""
    made = warehouse.create_topic("t", partitions=2, config={"cleanup.policy": "compact"})
    made.append(
        [lithify.Record(b"k%02d" % n, b"old", 1_700_000_000_000 + n, (("h", b"x"), ("n", None))) for n in range(20)]
    )
    compact(warehouse, "t", 0)
    made.append([lithify.Record(b"k%02d" % n, b"new") for n in range(5, 10)])
    made.append([lithify.Record(b"k%02d" % n, None) for n in range(3)])
    return made


def test_the_latest_and_the_log_are_what_the_partitions_show(spark: Any, url: str, topic: Topic) -> None:
    parts = [topic.partition(0), topic.partition(1)]
    assert rows(read(spark, url)) == of_partitions(parts)
    assert rows(read(spark, url, view="log")) == of_partitions(parts, "log")
    assert rows(read(spark, url, tombstones=True)) == of_partitions(parts, tombstones=True)
    assert rows(read(spark, url, partition="1")) == of_partitions(parts[1:])


def test_the_schema_is_known_without_a_request(spark: Any, url: str) -> None:
    frame = read(spark, url, topic="not there")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,offset:bigint,timestamp_ms:bigint,"
        "headers:array<struct<key:string,value:binary>>,partition:int>"
    )


@pytest.mark.parametrize("tasks", [1, 3])
def test_ranges_of_keys_and_offsets(spark: Any, url: str, topic: Topic, tasks: int) -> None:
    parts = [topic.partition(0), topic.partition(1)]
    found = rows(read(spark, url, key_from="k05", key_to="k15", tasks=tasks))
    assert found == [row for row in of_partitions(parts) if b"k05" <= row[0] < b"k15"]
    found = rows(read(spark, url, view="log", offset_from=4, offset_to=9, tasks=tasks))
    assert found == [row for row in of_partitions(parts, "log") if 4 <= row[2] < 9]


def test_columns_come_in_the_order_that_was_asked_for(spark: Any, url: str, topic: Topic) -> None:
    frame = read(spark, url, columns="partition,key")
    assert frame.columns == ["partition", "key"]
    expected = [(row[5], row[0]) for row in of_partitions([topic.partition(0), topic.partition(1)])]
    assert rows(frame) == sorted(expected, key=repr)
    assert rows(read(spark, url, columns="partition").groupBy("partition").count()) == sorted(
        (number, sum(row[0] == number for row in expected)) for number in (0, 1)
    )


def test_a_frame_shows_one_snapshot_for_ever(spark: Any, url: str, topic: Topic) -> None:
    frame = read(spark, url)
    before = rows(frame)
    topic.append([lithify.Record(b"k19", b"later"), lithify.Record(b"z", b"later")])
    assert rows(frame) == before
    assert frame.alias("a").join(frame.alias("b"), col("a.key") == col("b.key")).count() == len(before)
    assert frame.count() == len(before)
    assert len(rows(read(spark, url))) == len(before) + 1


def test_a_checkpoint_and_a_manifest_are_read_as_they_were(spark: Any, url: str, topic: Topic) -> None:
    part = topic.partition(0)
    snapshot, before = part.snapshot(pin="k"), of_partitions([part])
    topic.append([lithify.Record(b"k%02d" % n, b"later") for n in range(20)])
    assert rows(read(spark, url, partition=0, checkpoint="k")) == before
    assert rows(read(spark, url, partition=0, manifest=snapshot.manifest_id)) == before
    assert rows(read(spark, url, partition=0)) != before


def test_a_reader_without_the_right_to_write_pins_nothing(spark: Any, url: str, topic: Topic) -> None:
    heads = [topic.partition(number).snapshot().manifest_id for number in range(2)]
    assert rows(read(spark, url, pin=False)) == of_partitions([topic.partition(0), topic.partition(1)])
    assert [topic.partition(number).snapshot().manifest_id for number in range(2)] == heads


def test_nothing_is_read_as_nothing(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    made = warehouse.create_topic("t", partitions=3, config={"cleanup.policy": "compact"})
    assert read(spark, url).count() == 0
    made.append([lithify.Record(b"k", None)])
    assert read(spark, url).count() == 0
    assert read(spark, url, tombstones=True).count() == 1
    assert read(spark, url, view="log").select("value").collect()[0][0] is None


def test_gaps(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    """Of offsets that compaction, retention and a deletion left behind; in one partition, and none in the other."""
    made = warehouse.create_topic("t", partitions=2, config={"cleanup.policy": "compact,delete"})
    for value in (b"1", b"2", b"3"):
        made.append([lithify.Record(b"k%02d" % n, value) for n in range(12) if value == b"1" or n % 3])
        made.append([lithify.Record(b"only %s" % value, value), lithify.Record(b"k00", None)])
    compact(warehouse, "t", 0)
    parts = [made.partition(0), made.partition(1)]
    made.append([lithify.Record(b"k%02d" % n, b"4") for n in range(12)])
    floor = next(parts[0].read()).offset + 1
    made.delete_records({0: floor})
    offsets = [row.offset for row in parts[0].read()]
    assert offsets[0] >= floor
    assert len(offsets) < offsets[-1] - offsets[0] + 1  # there are gaps
    for tasks in (1, 4):
        assert rows(read(spark, url, tasks=tasks)) == of_partitions(parts)
        assert rows(read(spark, url, view="log", tasks=tasks)) == of_partitions(parts, "log")
    inside = next(n for n in range(offsets[0], offsets[-1]) if n not in offsets)
    found = rows(read(spark, url, view="log", partition="0", offset_from=inside))
    assert found == [row for row in of_partitions(parts[:1], "log") if row[2] >= inside]


def test_keys_that_are_no_text(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    made = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    made.append([lithify.Record(bytes([n, 255 - n]), b"v") for n in range(0, 250, 10)])
    found = read(spark, url, key_from="Ce0=", key_to="/wA=", key_format="base64").collect()  # 09 ed to ff 00
    assert sorted(bytes(row.key) for row in found) == [bytes([n, 255 - n]) for n in range(10, 250, 10)]


def test_records_without_keys_and_ten_partitions(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    made = warehouse.create_topic("t", partitions=10)
    for number in range(30):
        made.append([lithify.Record(None, b"%d" % number)])
    found = rows(read(spark, url, view="log"))
    assert found == of_partitions([made.partition(number) for number in range(10)], "log")
    assert {row[5] for row in found} == set(range(10))


def test_it_is_there_in_sql(spark: Any, url: str, topic: Topic) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW lithify_t USING lithify OPTIONS (topic 't', path '{url}')")
    assert spark.sql("SELECT count(*), count(DISTINCT key) FROM lithify_t").collect()[0][0] == read(spark, url).count()
    assert spark.sql("SELECT value FROM lithify_t WHERE key = CAST('k05' AS BINARY)").collect()[0][0] == b"new"


def test_a_schema_of_ones_own_is_some_of_the_columns(spark: Any, url: str, topic: Topic) -> None:
    given = spark.read.format("lithify").options(topic="t").schema("key binary, offset bigint").load(url)
    assert given.columns == ["key", "offset"]
    assert given.count() == read(spark, url).count()


@pytest.mark.parametrize(
    ("options", "schema", "said"),
    [
        ({"topic": "none"}, None, "topic none"),
        ({"partition": "7"}, None, "partition 7"),
        ({"view": "log", "offset_from": "1000"}, None, "1000"),
        ({"checkpoint": "none"}, None, "checkpoint"),
        ({"vieww": "log"}, None, "did you mean view"),
        ({}, "key string", "it is binary"),
        ({}, "id binary", "names a column 'id'"),
    ],
)
def test_what_cannot_be_read_is_said(
    spark: Any, url: str, topic: Topic, options: dict[str, str], schema: str | None, said: str
) -> None:
    reader = spark.read.format("lithify").options(**{"topic": "t"} | options)
    with pytest.raises(PySparkException) as refused:
        (reader if schema is None else reader.schema(schema)).load(url).collect()
    assert said in str(refused.value)
