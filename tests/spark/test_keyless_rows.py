"""Rows without a key in a write with a transaction: once each, however many tasks an earlier attempt had, and whichever
partitions it reached (RFC 0011, 0022)."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from pyspark_lithify.columns import for_append
from pyspark_lithify.options import write_options
from pyspark_lithify.writing import Placing, Rows, Written, commit, of_transaction, placing

import lithify
from lithify.log.topic import Topic

COLUMNS = StructType([StructField("key", StringType()), StructField("value", StringType())])
ROWS = 60


def placed(url: str, txn: tuple[str, int], *, stream: bool) -> Placing:
    """As the tasks of a writer that Spark makes now have it."""
    named = {} if stream else {"txnAppId": txn[0], "txnVersion": str(txn[1])}
    options = write_options({"topic": "t", "path": url, **named}, stream=stream)
    made = placing(options, COLUMNS, options.txn, stream=stream)
    return of_transaction(made, txn) if stream else made


def messages(place: Placing, tasks: int, keyed: bool) -> list[Written]:
    """Of tasks that each have an equal share of the rows, one after the other; a third has keys if `keyed`."""
    found: list[Written] = []
    for number in range(tasks):
        mine = range(ROWS * number // tasks, ROWS * (number + 1) // tasks)
        keys = [f"k{n}" if keyed and n % 3 == 0 else None for n in mine]
        batch = pa.record_batch({"key": pa.array(keys, pa.string()), "value": [f"v{n}" for n in mine]})
        rows = Rows(place, number)
        rows.add(for_append(batch, ("key", "value")))
        found.append(Written(place.partitions_count, rows.written()))
    return found


def reached(made: Sequence[Written], numbers: tuple[int, ...]) -> list[Written]:
    """What a driver appends that dies after these partitions."""
    return [
        Written(each.partitions_count, {n: given for n, given in each.segments.items() if n in numbers})
        for each in made
    ]


def values(topic: Topic) -> Counter[bytes | None]:
    parts = [topic.partition(number) for number in range(topic.partitions_now())]
    return Counter(row.value for part in parts for row in part.read())


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("first", "later", "grown"), [(4, 2, None), (1, 3, None), (4, 2, 5)])
def test_an_attempt_with_another_number_of_tasks_completes_what_the_first_reached_in_part(
    url: str, warehouse: lithify.Warehouse, stream: bool, first: int, later: int, grown: int | None
) -> None:
    warehouse.create_topic("t", partitions=3)
    expected: Counter[bytes | None] = Counter()
    for version, some in enumerate([(0,), (1,), (0, 2)]):
        txn, keyed = ("job", version), version != 1
        before = placed(url, txn, stream=stream)
        commit(before.options, reached(messages(before, first, keyed), some), txn)
        if grown and version == 1:
            lithify.open(url).topic("t").alter(partitions=grown)
        again = placed(url, txn, stream=stream)
        commit(again.options, messages(again, later, keyed), txn)
        expected.update(f"v{n}".encode() for n in range(ROWS))
        assert values(lithify.open(url).topic("t")) == expected


@pytest.mark.slow
def test_each_version_goes_to_the_next_partition(url: str, warehouse: lithify.Warehouse) -> None:
    """A stream whose batches are one task each filled partition 0 alone."""
    topic = warehouse.create_topic("t", partitions=3)
    for version in range(3):
        place = placed(url, ("query", version), stream=True)
        commit(place.options, messages(place, 1, keyed=False), ("query", version))
    assert [topic.partition(number).snapshot().next_offset for number in range(3)] == [ROWS] * 3
