"""df.write: one upload and one commit in each partition, repeatable; what it refuses, on the driver (RFC 0022)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark_lithify.columns import for_append
from pyspark_lithify.distribution import application_over
from pyspark_lithify.options import write_options
from pyspark_lithify.writing import Placing, commit, write

import lithify
from lithify.log.partition import Partition
from lithify.log.topic import Topic
from lithify.store.errors import AccessDenied, InvalidRequest, NotFound, Unavailable
from lithify.store.opening import open_store

LONG_AGO = 1_700_000_000_000


def frame(spark: Any, count: int = 20, columns: str = "key string, value string", start: int = 0) -> Any:
    width = columns.count(",") + 1
    data = [(f"k{n:03}", f"v{n}", LONG_AGO + n)[:width] for n in range(start, start + count)]
    return spark.createDataFrame(data, columns)


def save(frame: Any, url: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("lithify").options(topic="t", **options).mode(mode).save(url)


def kept(topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    parts = [topic.partition(number) for number in range(topic.partitions)]
    return sorted((row.key, row.value) for part in parts for row in part.read())


@pytest.mark.spark
def test_a_write_is_one_commit_in_each_partition(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=3, config={"cleanup.policy": "compact"})
    save(frame(spark, 60, "key string, value string, timestamp_ms bigint").repartition(4), url)
    assert kept(topic) == [(b"k%03d" % n, b"v%d" % n) for n in range(60)]
    for number in range(3):
        part = topic.partition(number)
        assert len(part.describe().l0) <= 4  # one for each task
        assert {lithify.partition_for_key(row.key or b"", 3) for row in part.read()} == {number}
        assert part.transactions() == ()
    (found,) = topic.partition(0).read(0, 1)
    assert found.timestamp_ms is not None
    assert LONG_AGO <= found.timestamp_ms < LONG_AGO + 60


@pytest.mark.spark
def test_what_was_read_is_written_as_it_is(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    source = warehouse.create_topic("source", partitions=2)
    target = warehouse.create_topic("t", partitions=3)
    source.append([lithify.Record(b"%d" % n, b"x", LONG_AGO, (("h", b"y"), ("none", None))) for n in range(10)])
    source.append([lithify.Record(None, b"keyless", LONG_AGO), lithify.Record(b"5", None, LONG_AGO)])
    save(spark.read.format("lithify").options(topic="source", view="log").load(url), url)
    parts = [target.partition(number) for number in range(3)]
    found = [(row.key, row.value, row.timestamp_ms, row.headers) for part in parts for row in part.read()]
    parts = [source.partition(number) for number in range(2)]
    assert sorted(found, key=repr) == sorted(
        ((row.key, row.value, row.timestamp_ms, row.headers) for part in parts for row in part.read()), key=repr
    )


@pytest.mark.spark
def test_the_same_version_is_appended_once(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    for version, again in ((4, 1), (4, 2), (3, 3), (5, 4)):
        save(frame(spark, 10, start=100 * again), url, txnAppId="job", txnVersion=version)
    assert [key for key, _ in kept(topic)] == [
        b"k%03d" % n for again in (1, 4) for n in range(100 * again, 100 * again + 10)
    ]
    (known,) = topic.partition(0).transactions()
    assert (known.application, known.version) == (application_over("job", 2), 5)


@pytest.mark.spark
def test_insert_into_a_view(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW lithify_in USING lithify OPTIONS (topic 't', path '{url}')")
    spark.sql(
        "INSERT INTO lithify_in SELECT CAST('k' AS BINARY), CAST('v' AS BINARY), CAST(0 AS BIGINT), "
        f"CAST({LONG_AGO} AS BIGINT), CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>), CAST(0 AS INT)"
    )
    (row,) = topic.partition(0).read()
    assert (row.key, row.value, row.offset, row.timestamp_ms) == (b"k", b"v", 0, LONG_AGO)


@pytest.mark.spark
def test_nothing_written_is_no_commit(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t")
    before = topic.partition(0).snapshot().manifest_id
    save(frame(spark, 0), url)
    assert topic.partition(0).snapshot().manifest_id == before


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "mode", "options", "said"),
    [
        ("key string, value string", "overwrite", {}, "a topic is a log"),
        ("key string, value string", "append", {"txnAppId": "x"}, "go together"),
        ("key string, value string", "append", {"topicc": "x"}, "did you mean topic"),
        ("key string, other string", "append", {}, "no column 'value'"),
        ("key string, value string, more bigint", "append", {}, "column 'more' is none of"),
        ("key string, value bigint", "append", {}, "must be binary or string"),
        ("key string, KEY string", "append", {}, "two columns are named 'key'"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_task(
    spark: Any, url: str, warehouse: lithify.Warehouse, columns: str, mode: str, options: dict[str, str], said: str
) -> None:
    topic = warehouse.create_topic("t")
    with spark_case(spark), pytest.raises(PySparkException) as refused:
        save(spark.createDataFrame([], columns), url, mode, **options)
    assert said in str(refused.value)
    assert topic.partition(0).snapshot().next_offset == 0


class spark_case:  # noqa: N801 - used as a word
    """Two columns that differ in case alone are a schema only where case counts."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __enter__(self) -> None:
        self._spark.conf.set("spark.sql.caseSensitive", "true")

    def __exit__(self, *error: object) -> None:
        self._spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
def test_a_task_that_fails_appends_nothing(spark: Any, url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    rows = frame(spark, 10).union(spark.createDataFrame([(None, "no key")], "key string, value string"))
    with pytest.raises(PySparkException, match="key"):
        save(rows.repartition(3), url)
    assert kept(topic) == []


def batches(*keys: str, more: dict[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
    for key in keys:
        yield pa.RecordBatch.from_pydict({"key": [key], "value": ["v"]} | (more or {}))


def placing(
    url: str, topic: Topic, count: int | None = None, upload: str = "0123456789abcdef", **options: Any
) -> Placing:
    given = write_options({"topic": "t", "path": url} | {name: str(value) for name, value in options.items()})
    return Placing(given, ("key", "value"), open_store(url).spec(), upload, count or topic.partitions, topic.topic_id)


def test_a_commit_that_is_repeated_appends_nothing_more(url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    place = placing(url, topic)
    messages = [write(place, batches("a", "b", "c")), None, write(place, batches("d"))]
    for _ in range(3):
        commit(place.options, messages, None)
    assert [key for key, _ in kept(topic)] == [b"a", b"b", b"c", b"d"]


def test_a_task_that_ran_twice_is_appended_once(url: str, warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("t")
    place = placing(url, topic)
    write(place, batches("a", "b"))  # its message was lost with its executor
    commit(place.options, [write(place, batches("a", "b"))], None)
    assert [key for key, _ in kept(topic)] == [b"a", b"b"]


def made_again(url: str, partitions: int = 1) -> Topic:
    """By another process."""
    lithify.open(url).delete_topic("t")
    return lithify.open(url).create_topic("t", partitions=partitions)


@pytest.mark.parametrize("written_before", [0, 1, 2])
def test_a_topic_that_is_made_again_beneath_a_write_gets_nothing_of_it(
    url: str, warehouse: lithify.Warehouse, written_before: int
) -> None:
    """Its segments are the former topic's, though the uploads of both have the same name: the same id, begun by
    manifests of the same number."""
    place = placing(url, warehouse.create_topic("t"))
    messages = [write(place, batches("a")) for _ in range(written_before)]
    topic = made_again(url, 4)
    with pytest.raises(NotFound, match="was deleted"):
        write(place, batches("b"))
    if messages:
        with pytest.raises(NotFound, match="was deleted") as error:
            commit(place.options, messages, None)
        assert error.value.__notes__[-1] == "Nothing was appended."
    assert kept(topic) == []
    assert kept(lithify.open(url).topic("t")) == []


def test_messages_of_two_topics_of_one_name_are_not_appended(url: str, warehouse: lithify.Warehouse) -> None:
    """As of tasks of an earlier release, which looked at the name alone."""
    place = placing(url, warehouse.create_topic("t"))
    old = write(place, batches("a"))
    topic = made_again(url)
    new = write(replace(place, topic_id=topic.topic_id), batches("b"))
    ((task, _),), ((other, _),) = old.segments[0], new.segments[0]
    assert task.name == other.name
    for messages in ([old, new], [new, old]):
        with pytest.raises(NotFound, match="was deleted"):
            commit(place.options, messages, None)
    commit(place.options, [new], None)
    assert [key for key, _ in kept(topic)] == [b"b"]


def test_rows_that_memory_should_not_hold_are_written_before_the_end(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_lithify.writing.BUFFERED_BYTES_MAX", 1)
    topic = warehouse.create_topic("t")
    place = placing(url, topic)
    message = write(place, batches("c", "b", "a"))
    assert len(message.segments[0]) == 3
    commit(place.options, [message], None)
    assert [row.key for row in topic.partition(0).read()] == [b"c", b"b", b"a"]


def test_a_partition_with_too_many_segments_is_waited_for_and_then_said(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []
    monkeypatch.setattr("lithify.store.driver.pause", pauses.append)
    topic = warehouse.create_topic("t", config={"l0.segments.max": 2})
    for n in range(2):
        topic.append([lithify.Record(b"%d" % n, b"x")])
    place = placing(url, topic, commitWaitMs=3_000)
    with pytest.raises(Unavailable) as error:
        commit(place.options, [write(place, batches("a"))], None)
    assert pauses.count(1_000) >= 3
    assert error.value.__notes__[-1] == "Nothing was appended."


class OfTask:
    """What Spark tells a task of itself."""

    def __init__(self, number: int) -> None:
        self._number = number

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self._number


def test_a_task_beyond_those_that_one_commit_takes_says_so_before_it_writes(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the driver said it, after all tasks had done their work."""
    place = placing(url, warehouse.create_topic("t"))
    monkeypatch.setattr("pyspark_lithify.writing.TaskContext.get", lambda: OfTask(4_096))
    assert write(place, iter(())).segments == {}
    rows = batches("a", "b")
    with pytest.raises(InvalidRequest, match=r"more than 4096 tasks.*coalesce"):
        write(place, rows)
    assert next(rows).num_rows == 1, "it looked at the first batch alone"
    monkeypatch.setattr("pyspark_lithify.writing.TaskContext.get", lambda: OfTask(4_095))
    assert len(write(place, batches("a")).segments[0]) == 1


def test_what_one_partition_cannot_take_is_appended_nowhere(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    place = placing(url, topic)
    monkeypatch.setattr("pyspark_lithify.writing.BUFFERED_BYTES_MAX", 1)
    monkeypatch.setattr("lithify.manifest.model.UPLOADED_SEGMENTS_MAX", 3)
    keys = [f"k{n}" for n in range(20)]
    ones = [key for key in keys if lithify.partition_for_key(key.encode(), 2) == 1]
    zero = next(key for key in keys if key not in ones)
    message = write(place, batches(zero, *ones[:4]))
    assert [len(each) for each in message.segments.values()] == [1, 4]
    with pytest.raises(InvalidRequest, match=r"4 segments for t/1.*coalesce") as error:
        commit(place.options, [message], None)
    assert error.value.__notes__[-1] == "Nothing was appended."
    assert kept(topic) == []


@pytest.mark.parametrize("second", [{"other": ["x"]}, {"value": [1]}])
def test_every_batch_is_looked_at(second: dict[str, Any]) -> None:
    names = ("key", "value")
    for_append(next(batches("a")), names)
    with pytest.raises(InvalidRequest):
        for_append(pa.RecordBatch.from_pydict({"key": [{"a": 1}]} | second), names)


@pytest.mark.slow
def test_a_hundred_batches_leave_no_application_behind(url: str, warehouse: lithify.Warehouse) -> None:
    """A transaction for each batch write would fill a bounded list (RFC 0019, history 3)."""
    topic = warehouse.create_topic("t", config={"l0.segments.max": 1_000})
    for n in range(100):
        place = placing(url, topic, upload=f"{n:016x}")
        commit(place.options, [write(place, batches(f"k{n}"))], None)
    assert topic.partition(0).transactions() == ()
    assert len(kept(topic)) == 100


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how long a write would have waited, each time."""
    found: list[int] = []
    monkeypatch.setattr("lithify.store.driver.pause", found.append)
    return found


def test_an_upload_that_is_gone_is_said_at_once(url: str, warehouse: lithify.Warehouse, pauses: list[int]) -> None:
    """No waiting brings it back. Before, the write waited for a minute, and then told of an upload."""
    topic = warehouse.create_topic("t")
    place = placing(url, topic)
    message = write(place, batches("a"))
    later_ms = warehouse.driver.now_ms() + 2 * 86_400_000
    lithify.Collector(lithify.open(url, clock=lambda: later_ms)).run_once()
    with pytest.raises(
        InvalidRequest, match=r"t/0: the write took longer.*Write again, with a larger uploadTtlMs"
    ) as it:
        commit(place.options, [message], None)
    assert it.value.__notes__[-1] == "Nothing was appended."
    assert pauses == []
    assert kept(topic) == []


def test_refused_access_is_said_at_once(
    url: str, warehouse: lithify.Warehouse, pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = warehouse.create_topic("t")
    place = placing(url, topic)
    message = write(place, batches("a"))

    def refused(*_: Any) -> range:
        raise AccessDenied("the store refused access")

    monkeypatch.setattr(Partition, "upload", refused)
    with pytest.raises(AccessDenied):
        commit(place.options, [message], None)
    assert pauses == []
