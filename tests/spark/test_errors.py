"""An error of lithify reaches the user of Spark as its message alone; one that nobody foresaw keeps its traceback."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark_lithify import LithifyDataSource
from pyspark_lithify.telling import told, told_while_read

import lithify
from lithify.store.errors import NotFound

HIDDEN = "SPARK_HIDE_TRACEBACK"


class BrokenDataSource(LithifyDataSource):
    @classmethod
    def name(cls) -> str:
        return "broken"

    @told
    def reader(self, schema: Any) -> Any:
        raise ZeroDivisionError("nobody foresaw this")


def write(spark: Any, url: str, row: tuple[Any, ...], columns: str, **options: str) -> None:
    frame = spark.createDataFrame([row], columns)
    frame.write.format("lithify").options(topic="t", **options).mode("append").save(url)


def read(spark: Any, url: str, **options: str) -> Any:
    return spark.read.format("lithify").options(**{"topic": "t"} | options).load(url)


WHERE: dict[str, tuple[Callable[[Any, str], Any], str, type[Exception]]] = {
    "schema": (lambda s, u: read(s, u, columns="kex"), "not 'kex'", AnalysisException),
    "options of a read": (lambda s, u: read(s, u, vieww="log").collect(), "did you mean view", AnalysisException),
    "planning a read": (lambda s, u: read(s, u, topic="none").collect(), "topic none does not", AnalysisException),
    "columns of a write": (lambda s, u: write(s, u, (b"k",), "key binary"), "no column 'value'", AnalysisException),
    "a task": (lambda s, u: write(s, u, (None, "v"), "key string, value string"), "has no key", PySparkException),
    "the commit": (
        lambda s, u: write(s, u, ("k", "v"), "key string, value string", commitWaitMs="0"),
        "Nothing was appended",
        PySparkException,
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("where", WHERE)
def test_the_message_stands_alone(spark: Any, url: str, warehouse: lithify.Warehouse, where: str) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact", "l0.segments.max": 1})
    topic.append([lithify.Record(b"k", b"v")])
    act, said, kind = WHERE[where]
    with pytest.raises(kind) as refused:
        act(spark, url)
    assert said in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert ".py" not in str(refused.value)


@pytest.mark.spark
def test_a_streams_message_stands_alone(spark: Any, url: str, tmp_path: Path) -> None:
    lithify.open(url).create_topic("other")
    stream = spark.readStream.format("lithify").options(topic="none").load(url)
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException) as refused:
        query.trigger(availableNow=True).start().awaitTermination()
    assert "NotFound: topic none does not exist here" in str(refused.value)
    assert "Traceback" not in str(refused.value)


@pytest.mark.spark
def test_an_error_that_nobody_foresaw_keeps_its_traceback(spark: Any, url: str) -> None:
    """Also after others were told by their message: the processes that told them have ended."""
    spark.dataSource.register(BrokenDataSource)
    with pytest.raises(AnalysisException):
        read(spark, url, vieww="log").collect()
    with pytest.raises(AnalysisException, match=r"(?s)Traceback.*test_errors.py.*nobody foresaw this"):
        spark.read.format("broken").options(topic="t").load(url).collect()


def test_only_errors_of_lithify_are_told_so() -> None:
    @told
    def fails(error: Exception) -> None:
        raise error

    @told_while_read
    def reads(error: Exception) -> Any:
        yield 1
        raise error

    for call in (fails, lambda error: list(reads(error))):
        with pytest.raises(ValueError, match="unforeseen"):
            call(ValueError("unforeseen"))
        assert HIDDEN not in os.environ
        with pytest.raises(NotFound):
            call(NotFound("no such topic"))
        assert os.environ.pop(HIDDEN)
