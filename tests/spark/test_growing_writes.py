"""A topic grows beneath a write, or between its attempts: what was written is where its keys belong, once, or the write
fails before it appends anything (RFC 0013, 0022)."""

import logging

import pytest
from pyspark.sql.types import StringType, StructField, StructType
from pyspark_lithify.distribution import distributed_over, former_of
from pyspark_lithify.options import write_options
from pyspark_lithify.writing import Placing, Written, commit, of_transaction, write
from pyspark_lithify.writing import placing as on_driver

import lithify
from lithify.store.errors import Unavailable
from tests.spark.test_writing import batches, kept, placing

KEYS = [f"k{n}" for n in range(20)]
WRITTEN = sorted(key.encode() for key in KEYS)
COLUMNS = StructType([StructField("key", StringType()), StructField("value", StringType())])


def placed(url: str, version: int | None = None, *, stream: bool = False) -> Placing:
    """As a writer that Spark makes now."""
    txn = {} if version is None else {"txnAppId": "job", "txnVersion": str(version)}
    options = write_options({"topic": "t", "path": url, **txn})
    return on_driver(options, COLUMNS, options.txn, stream=stream)


def run(url: str, version: int, *keys: str) -> None:
    place = placed(url, version)
    commit(place.options, [write(place, batches(*(keys or KEYS)))], place.options.txn)


def grow(url: str, partitions: int) -> lithify.Topic:
    """By another process."""
    topic = lithify.open(url).topic("t")
    topic.alter(partitions=partitions)
    return topic


def keys_of(topic: lithify.Topic) -> list[bytes]:
    return sorted(key or b"" for key, _ in kept(topic))


def test_a_version_that_reached_some_partitions_is_finished_where_its_keys_were_put(
    url: str, warehouse: lithify.Warehouse
) -> None:
    topic, keys = warehouse.create_topic("t", partitions=2), [f"k{n}" for n in range(20)]
    first = placing(url, topic, upload="0" * 16)
    message = write(first, batches(*keys))
    txn = ("job", 7)
    commit(first.options, [Written(2, {0: message.segments[0]})], txn)  # and died there
    topic.alter(partitions=4)
    count = distributed_over(topic, txn, 4)
    assert (count, distributed_over(topic, ("job", 8), 4)) == (2, 4)
    again = placing(url, topic, count, upload="1" * 16)
    commit(again.options, [write(again, batches(*keys))], txn)
    assert [key for key, _ in kept(topic)] == sorted(key.encode() for key in keys)


def test_a_topic_that_grows_beneath_a_write_gets_nothing_of_it(url: str, warehouse: lithify.Warehouse) -> None:
    """Before, the write succeeded, and keys that belong to added partitions now were never shown."""
    warehouse.create_topic("t", partitions=2, config={"cleanup.policy": "compact"})
    place = placed(url)
    message = write(place, batches(*KEYS))
    topic = grow(url, 4)
    with pytest.raises(
        Unavailable, match=r"grew while it was written.*over 2 partitions.*over 4.*Write again"
    ) as error:
        commit(place.options, [message], None)
    assert error.value.__notes__ == ["Nothing was appended."]
    assert kept(topic) == []
    again = placed(url)
    commit(again.options, [write(again, batches(*KEYS))], None)
    assert sorted(topic.scan().read_all()["key"].to_pylist()) == WRITTEN


def test_an_attempt_that_was_believed_to_be_dead_appends_nothing(url: str, warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("t", partitions=2)
    late = placed(url, 7)
    message = write(late, batches(*KEYS))
    topic = grow(url, 4)
    run(url, 7)
    with pytest.raises(Unavailable, match="grew while it was written"):
        commit(late.options, [message], late.options.txn)
    assert keys_of(topic) == WRITTEN


def test_an_attempt_that_was_placed_anew_before_a_former_one_was_appended_in_part(
    url: str, warehouse: lithify.Warehouse
) -> None:
    warehouse.create_topic("t", partitions=2)
    first = placed(url, 7)
    message = write(first, batches(*KEYS))
    now = grow(url, 4)
    again = placed(url, 7)
    new = write(again, batches(*KEYS))
    ((task, ref),) = message.segments[0]
    now.partition(0).upload(task, [ref], ("job over 2", 7))  # by the first attempt, which looked before it grew
    with pytest.raises(Unavailable, match=r"over 4 partitions.*over 2"):
        commit(again.options, [new], again.options.txn)
    run(url, 7)
    assert keys_of(now) == WRITTEN


def test_tasks_that_distributed_differently_are_not_appended(url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=4)
    messages = [
        write(placing(url, topic, 2), batches(*KEYS[:10])),
        write(placing(url, topic, 4), batches(*KEYS[10:])),
    ]
    with pytest.raises(Unavailable, match="over 2 and 4 partitions"):
        commit(placing(url, topic).options, messages, None)
    assert kept(topic) == []


def test_the_tasks_of_a_batch_decide_by_what_the_driver_found(url: str, warehouse: lithify.Warehouse) -> None:
    """Meanwhile another attempt of the batch is appended in part."""
    topic = warehouse.create_topic("t", partitions=2)
    other = placed(url, 7)
    message = write(other, batches(*KEYS))
    grow(url, 4)
    place = placed(url, stream=True)
    counts = [of_transaction(place, ("job", 7)).partitions_count]
    ((task, ref),) = message.segments[0]
    topic.partition(0).upload(task, [ref], ("job over 2", 7))
    counts.append(of_transaction(place, ("job", 7)).partitions_count)
    assert counts == [4, 4]
    assert of_transaction(placed(url, stream=True), ("job", 7)).partitions_count == 2


def test_a_lower_version_is_skipped_after_growth_too(url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    run(url, 4)
    run(url, 5)
    for partitions, version in ((4, 6), (8, 7)):
        topic = grow(url, partitions)
        for earlier in range(4, version):
            run(url, earlier)
        run(url, version)
    assert keys_of(topic) == sorted(4 * WRITTEN)
    assert [former_of(topic).count_for(("job", version), 8) for version in range(4, 9)] == [2, 2, 4, 8, 8]


def test_what_was_appended_in_part_keeps_its_count_and_says_so(
    url: str, warehouse: lithify.Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.create_topic("t", partitions=2)
    first = placed(url, 7)
    message = write(first, batches(*KEYS))
    commit(first.options, [Written(2, {0: message.segments[0]})], first.options.txn)
    topic = grow(url, 4)
    with caplog.at_level(logging.WARNING, "lithify.spark"):
        run(url, 7)
    assert keys_of(topic) == WRITTEN
    assert "grew from 2 to 4 partitions" in caplog.text
