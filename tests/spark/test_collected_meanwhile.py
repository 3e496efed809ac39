"""A write of Spark's outlives every grace period: what its tasks have uploaded stays until it is committed (P22, RFC
0019), while garbage of the same age goes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lithify
from lithify.log.upload import write_segment

pytestmark = pytest.mark.spark
Rows = Iterator[pa.RecordBatch]


def segments(url: str) -> set[str]:
    return {file.name for file in Path(url.removeprefix("file://")).rglob("segments/*") if file.is_file()}


def while_others_collect(url: str) -> Callable[[Rows], Rows]:
    """A record for each row. The third is there once a collector without a grace period has swept everything: with two
    processors, the first two tasks that were begun, or one of them, have written their segments by then."""

    def made(rows: Rows) -> Rows:
        for row in rows:
            (number,) = row.column(0).to_pylist()
            if number == 2:
                with lithify.open(url) as warehouse:
                    for _ in range(6):
                        lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)
                    warehouse.topic("t").append([lithify.Record(b"collected", b"by then")])
            yield pa.RecordBatch.from_pydict({"key": pa.array([b"k%d" % number]), "value": pa.array([b"v"])})

    return made


def test_what_tasks_have_uploaded_outlives_the_grace_period(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    part = topic.partition(0)
    write_segment(warehouse.store, part.begin_upload(ttl=1), [lithify.Record(b"forgotten", b"v")])
    (garbage,) = segments(url)
    frame = spark.range(0, 3, 1, 3).mapInArrow(while_others_collect(url), "key binary, value binary")
    frame.write.format("lithify").options(topic="t").mode("append").save(url)
    assert garbage not in segments(url)
    kept = [(row.key, row.offset) for row in part.read()]
    assert kept == [(b"collected", 0), (b"k0", 1), (b"k1", 2), (b"k2", 3)]
    assert part.transactions() == ()
    assert len(segments(url)) == 4


def test_a_write_that_takes_longer_than_its_upload_may_says_so(
    spark: Any, url: str, warehouse: lithify.Warehouse
) -> None:
    """With `uploadTtlMs`; nothing of it is appended."""
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    frame = spark.range(0, 3, 1, 3).mapInArrow(while_others_collect(url), "key binary, value binary")
    with pytest.raises(Exception, match=r"larger uploadTtlMs|expired") as error:
        frame.write.format("lithify").options(topic="t", uploadTtlMs=1).mode("append").save(url)
    assert "Traceback" not in str(error.value)
    assert [row.key for row in topic.partition(0).read()] == [b"collected"]
