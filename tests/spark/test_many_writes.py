"""Thousands of batch writes leave no transaction behind (RFC 0019, history 3): through the writer's own way, and some
of them through Spark, which shows that its way is the same."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark_lithify.options import write_options
from pyspark_lithify.writing import Placing, commit, write

import lithify
from lithify.store.opening import open_store
from tests.log.compaction import compact

pytestmark = pytest.mark.soak
WRITES, BETWEEN, THROUGH_SPARK = 2_000, 250, 40


def one(number: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"key": [b"%05d" % number], "value": [b"v"]})


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> lithify.Topic:
    return warehouse.create_topic("t", config={"cleanup.policy": "compact", "l0.segments.max": 1_000})


def nothing_left(topic: lithify.Topic, writes: int) -> None:
    part = topic.partition(0)
    assert part.transactions() == ()
    assert part.describe().next_offset == writes
    assert [row.key for row in part.read()] == [b"%05d" % number for number in range(writes)]


def test_two_thousand(url: str, warehouse: lithify.Warehouse, topic: lithify.Topic) -> None:
    given = write_options({"topic": "t", "path": url})
    for number in range(WRITES):
        placing = Placing(given, ("key", "value"), open_store(url).spec(), f"{number:016x}", 1, topic.topic_id)
        commit(given, [write(placing, one(number))], None)
        if number % BETWEEN == BETWEEN - 1:
            compact(warehouse, "t")
    nothing_left(topic, WRITES)


@pytest.mark.xdist_group("spark")
def test_through_spark(spark: Any, url: str, topic: lithify.Topic) -> None:
    for number in range(THROUGH_SPARK):
        frame = spark.range(number, number + 1, 1, 1).selectExpr("lpad(id, 5, '0') AS key", "'v' AS value")
        frame.write.format("lithify").options(topic="t").mode("append").save(url)
    nothing_left(topic, THROUGH_SPARK)
