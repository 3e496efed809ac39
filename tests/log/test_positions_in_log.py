"""Where a time, or the last records, begin: the same as by reading everything, whatever was compacted or dropped."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.log.warehouse import open as open_warehouse
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest, SnapshotExpired
from lithify.store.metered import Metered
from tests.log.compaction import collect, compact


def first_at(records: list[Record], timestamp_ms: int) -> int | None:
    late = (record.offset for record in records if (record.timestamp_ms or 0) >= timestamp_ms)
    return min((offset for offset in late if offset is not None), default=None)


TIMES = st.integers(1, 6)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
APPENDS = st.lists(st.lists(st.tuples(KEYS, TIMES), min_size=1, max_size=5), min_size=1, max_size=5)


@given(
    appends=APPENDS, policy=st.sampled_from(["compact", "delete"]), compacts=st.integers(0, 5), floor=st.integers(0, 9)
)
def test_it_is_what_reading_everything_would_find(appends: Any, policy: str, compacts: int, floor: int) -> None:
    warehouse = open_warehouse(f"memory://{new_id()}")
    config = {"cleanup.policy": policy, "retention.ms": -1, "min.cleanable.dirty.ratio": 0}
    part = warehouse.create_topic("t", config=config).partition(0)
    for number, rows in enumerate(appends):
        part.append([Record(key, b"v", time) for key, time in rows])
        if number == compacts:
            compact(warehouse, "t")
    part.delete_records(min(floor, part.describe().next_offset))
    records, end = list(part.read()), part.describe().next_offset
    for time in range(8):
        assert part.offset_for_timestamp(time) == first_at(records, time)
    snapshot = part.snapshot()
    for count in range(len(records) + 2):
        last = records[-count:] if count else []
        assert list(snapshot.read(snapshot.offset_of_last(count))) == last
        assert snapshot.offset_of_last(count) == (last[0].offset if last else end)


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    return warehouse.create_topic("t", config=config).partition(0)


def test_segments_that_end_before_a_time_are_not_read(warehouse: Warehouse, part: Partition) -> None:
    for time in range(1, 5):
        part.append([Record(b"k", b"v" * 100, 10 * time), Record(b"l", b"v" * 100, 10 * time + 5)])
    snapshot, store = part.snapshot(), warehouse.store
    assert isinstance(store, Metered)
    before = store.requests()
    assert snapshot.offset_for_timestamp(46) is None
    assert snapshot.offset_for_timestamp(1) == 0
    assert snapshot.offset_for_timestamp(40) == 6
    assert (store.requests() - before).total == 0
    assert snapshot.offset_for_timestamp(42) == 7
    assert snapshot.offset_of_last(3) == 5
    assert (store.requests() - before).reads <= 2


def test_a_topic_answers_for_each_partition(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("two", partitions=2, config={"retention.ms": -1})
    topic.partition(0).append([Record(b"a", b"1", 5), Record(b"a", b"2", 9)])
    assert topic.offsets_for_timestamp(6) == {0: 1, 1: None}
    topic.partition(1).append([Record(b"b", b"3", 7)])
    assert [record.value for record in topic.read()] == [b"1", b"2", b"3"]


def test_what_is_no_time_or_number_is_refused(part: Partition) -> None:
    wrong: Any
    for wrong in ("2026-01-01", 1.5, True, None):
        with pytest.raises(InvalidRequest, match="milliseconds"):
            part.offset_for_timestamp(wrong)
    for wrong in (-1, "1", True, None):
        with pytest.raises(InvalidRequest, match="number of records"):
            part.snapshot().offset_of_last(wrong)


def test_a_snapshot_that_was_collected_says_so(warehouse: Warehouse, part: Partition) -> None:
    part.append([Record(b"k", b"1", 10), Record(b"k", b"1", 20)])
    snapshot = part.snapshot()
    part.append([Record(b"k", b"2", 30)])
    compact(warehouse, "t")
    part.append([Record(b"k", b"3", 40)])
    collect(warehouse, "t")
    with pytest.raises(SnapshotExpired):
        snapshot.offset_for_timestamp(15)
