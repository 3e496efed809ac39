"""What a task holds of a topic with many partitions: whole batches, split a few at a time."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from pyspark_lithify.columns import for_append
from pyspark_lithify.writing import Rows, Written, commit

import lithify
from lithify.segment import partitioner
from tests.spark.test_writing import placing

MIB = 1 << 20


@pytest.mark.parametrize("limits", [(MIB, MIB), (1_000, MIB), (1_000, 1_500), (MIB, 1_500), (1, 1)])
@pytest.mark.parametrize("partitions", [1, 5])
def test_each_partition_has_its_rows_in_their_order(
    url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch, partitions: int, limits: tuple[int, int]
) -> None:
    for name, most in zip(("SPLIT_BYTES", "BUFFERED_BYTES_MAX"), limits, strict=True):
        monkeypatch.setattr(f"pyspark_lithify.writing.{name}", most)
    topic = warehouse.create_topic("t", partitions=partitions)
    place, expected = placing(url, topic), defaultdict[int, list[bytes]](list)
    rows = Rows(place, 3)
    for start in range(0, 60, 12):
        keys = [None if n % 7 == 0 else b"k%d" % (n % 20) for n in range(start, start + 12)]
        values = [b"v%d" % n * 10 for n in range(start, start + 12)]
        for key, value in zip(keys, values, strict=True):
            number = 3 % partitions if key is None else lithify.partition_for_key(key, partitions)
            expected[number].append(value)
        rows.add(for_append(pa.record_batch([keys, values], ["key", "value"]), ("key", "value")))
    written = rows.written()
    commit(place.options, [Written(partitions, written)], None)
    found = {number: [row.value for row in topic.partition(number).read()] for number in range(partitions)}
    assert found == expected
    assert (sum(map(len, written.values())) > partitions) == (limits[1] < MIB)


def test_batches_are_split_together(url: str, warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tables of each batch took gigabytes."""
    topic, split = warehouse.create_topic("t", partitions=2), list[int]()
    rows_by_partition = partitioner.rows_by_partition

    def counted(table: pa.Table, *args: Any) -> Any:
        split.append(table.num_rows)
        return rows_by_partition(table, *args)

    monkeypatch.setattr(partitioner, "rows_by_partition", counted)
    monkeypatch.setattr("pyspark_lithify.writing.SPLIT_BYTES", 10_000)
    rows = Rows(placing(url, topic), 0)
    for _ in range(50):
        rows.add(pa.table({"key": [b"12345678"] * 20, "value": [b"12345678"] * 20}))
    rows.written()
    assert sum(split) == 1_000
    assert 2 <= len(split) <= 4
    assert min(split[:-1]) >= 250
