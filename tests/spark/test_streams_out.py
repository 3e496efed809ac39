"""writeStream: each batch of a query once, whatever is tried again (RFC 0011, 0019, 0022)."""

from pathlib import Path
from typing import Any

import pytest

import lithify

pytestmark = pytest.mark.spark


def source(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).json(str(folder))


def put(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(f'{{"key": "{n:04}", "value": "v"}}\n' for n in numbers)
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def run(frame: Any, url: str, checkpoint: Path) -> None:
    query = frame.writeStream.format("lithify").options(topic="t", checkpointLocation=str(checkpoint))
    query.trigger(availableNow=True).start(url).awaitTermination()


def forget(places: Path, batch: int) -> None:
    (places / "commits" / str(batch)).unlink()
    (places / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def kept(topic: lithify.Topic) -> list[int]:
    parts = [topic.partition(number) for number in range(topic.partitions_now())]
    return sorted(int(row.key or b"") for part in parts for row in part.read())


def test_each_batch_is_appended_once(spark: Any, url: str, warehouse: lithify.Warehouse, tmp_path: Path) -> None:
    """Spark's checkpoint forgets that the last batch was committed, as after a kill between our commit and Spark's note
    of it. Spark sends the batch again, and nothing is appended."""
    topic, files, places = warehouse.create_topic("t", partitions=2), tmp_path / "in", tmp_path / "checkpoint"
    for index in range(3):
        put(files, f"{index}", range(10 * index, 10 * index + 10))
    run(source(spark, files), url, places)
    assert kept(topic) == list(range(30))
    forget(places, 2)
    put(files, "3", range(30, 40))
    run(source(spark, files), url, places)
    assert kept(topic) == list(range(40))
    applications = {known.application for number in range(2) for known in topic.partition(number).transactions()}
    assert len(applications) == 1


def test_a_batch_that_is_tried_again_after_growth_goes_where_it_was(
    spark: Any, url: str, warehouse: lithify.Warehouse, tmp_path: Path
) -> None:
    topic, files, places = warehouse.create_topic("t", partitions=2), tmp_path / "in", tmp_path / "checkpoint"
    put(files, "0", range(20))
    run(source(spark, files), url, places)
    forget(places, 0)
    topic.alter(partitions=5)
    put(files, "1", range(20, 40))
    run(source(spark, files), url, places)
    assert kept(topic) == list(range(40))


def test_from_a_topic_to_a_topic(spark: Any, url: str, warehouse: lithify.Warehouse, tmp_path: Path) -> None:
    first = warehouse.create_topic("first", partitions=2)
    topic = warehouse.create_topic("t", partitions=3)
    for start in (0, 25):
        first.append([lithify.Record(b"%04d" % n, b"v", None, (("h", b"x"),)) for n in range(start, start + 25)])
        stream = spark.readStream.format("lithify").options(topic="first").load(url)
        run(stream, url, tmp_path / "checkpoint")
    assert kept(topic) == list(range(50))
    assert next(topic.partition(0).read()).headers == (("h", b"x"),)
