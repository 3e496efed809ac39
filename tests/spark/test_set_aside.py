"""Python workers of Spark's do not look at the same objects after every task (lithify.segment.set_aside)."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import lithify
from lithify.segment import set_aside

pytestmark = pytest.mark.spark
Rows = Iterator[pa.RecordBatch]


@pytest.fixture
def fresh(spark: Any) -> Any:
    """A session in whose workers nothing is set aside, as if they had just begun."""
    while any(in_workers(spark, forget)):
        pass
    return spark


def in_workers(spark: Any, look: Callable[[], int]) -> set[int]:
    """What `look` returns in the workers, of which two have tasks at a time. Those of RDDs are others."""

    def looking(rows: Rows) -> Rows:
        for row in rows:
            yield pa.RecordBatch.from_pydict({"found": pa.array([look()] * row.num_rows, pa.int64())})

    found = {row["found"] for row in spark.range(0, 64, 1, 16).mapInArrow(looking, "found long").collect()}
    return found | set(spark.sparkContext.parallelize(range(16), 16).map(lambda _: look()).collect())


def forget() -> int:
    before = gc.get_freeze_count()
    gc.unfreeze()
    set_aside._done_ms.clear()
    return before


def reads(spark: Any, url: str) -> None:
    assert spark.read.format("lithify").option("topic", "t").load(url).repartition(4).count() == 8


def writes(spark: Any, url: str) -> None:
    given = spark.createDataFrame([(b"%d" % n, b"v") for n in range(8)], "key binary, value binary").repartition(8)
    given.write.format("lithify").option("topic", "t").mode("append").save(url)


def compacts(spark: Any, url: str) -> None:
    with lithify.Compactor(lithify.open(url), lithify.SparkEngine(spark)) as compactor:
        assert compactor.run_once().jobs


@pytest.mark.parametrize("work", [reads, writes, compacts])
def test_a_worker_sets_its_objects_aside_once(
    fresh: Any, url: str, warehouse: lithify.Warehouse, work: Callable[[Any, str], None]
) -> None:
    topic = warehouse.create_topic("t", partitions=4, config={"cleanup.policy": "compact"})
    for n in range(8):
        topic.append([lithify.Record(b"%d" % n, b"v")])
    work(fresh, url)
    assert any(in_workers(fresh, gc.get_freeze_count))


def test_nothing_is_set_aside_in_the_program_itself(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    before = gc.get_freeze_count()
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    topic.append([lithify.Record(b"%d" % n, b"v") for n in range(8)])
    reads(spark, url)
    assert gc.get_freeze_count() == before
