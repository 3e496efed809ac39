"""Where a stream is: a rate limit starves no partition, and a checkpoint that does not fit the log is an error that
says so (RFC 0022)."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark_lithify.offsets import ends_in_order, limited, read_offsets, spell_offsets, stretches
from pyspark_lithify.options import COLUMNS, stream_options
from pyspark_lithify.streaming import StreamReader, Stretch, StretchPartition

import lithify
from lithify.log.partition import Partition
from lithify.log.topic import Topic
from lithify.manifest.model import Growth
from lithify.store.errors import InvalidRequest, OffsetOutOfRange
from lithify.store.opening import open_store

ALL = ReadAllAvailable()
LOGS = st.dictionaries(st.integers(0, 7), st.integers(0, 1_000), min_size=1)


def taken(begin: dict[int, int], ends: dict[int, int], most: int) -> dict[int, int]:
    found = limited(begin, ends, most)
    return {number: found.get(number, begin.get(number, 0)) - begin.get(number, 0) for number in ends}


@given(LOGS, st.integers(1, 300), st.integers(0, 10_000))
def test_a_limit_is_used_up_and_shared_in_proportion(there: dict[int, int], most: int, before: int) -> None:
    begin = dict.fromkeys(there, before)
    found = taken(begin, {number: before + count for number, count in there.items()}, most)
    assert sum(found.values()) == min(most, sum(there.values()))
    with_rows = [number for number in there if there[number]]
    assert all(0 <= found[number] <= there[number] for number in there)
    if len(with_rows) <= most:
        assert all(found[number] for number in with_rows)
        for number in with_rows:
            ideal = most * there[number] / sum(there.values())
            assert found[number] >= min(there[number], ideal) - len(with_rows) - 1


def test_a_large_partition_gets_its_share_beside_small_ones_that_never_run_dry() -> None:
    begin, read = dict.fromkeys(range(11), 0), Counter[int]()
    ends = dict.fromkeys(range(10), 1) | {10: 1_000_000}
    for _ in range(20):
        found = limited(begin, ends, 20)
        read.update({number: found[number] - begin[number] for number in found})
        begin, ends = found, {number: found[number] + 1 for number in range(10)} | {10: ends[10]}
    assert [read[number] for number in range(10)] == [20] * 10
    assert read[10] == 200


@pytest.mark.parametrize("most", [1, 3, 4])
def test_more_partitions_than_the_limit_take_turns(most: int) -> None:
    begin, read = dict.fromkeys(range(5), 7), Counter[int]()
    for _ in range(5):
        found = limited(begin, dict.fromkeys(range(5), 1_000), most)
        read.update({number: found[number] - begin[number] for number in found})
        begin = found
    assert read == dict.fromkeys(range(5), most)


def test_an_added_partition_is_named_once_it_is_read() -> None:
    assert limited({0: 5}, {0: 6, 1: 4}, 1) in ({0: 6}, {0: 5, 1: 1})
    assert limited({0: 5}, {0: 5, 1: 0}, 10) == {0: 5}
    assert limited({0: 5}, {0: 5, 1: 4}, 2) == {0: 5, 1: 2}


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 30))
def test_stretches_cover_what_there_is(start: int, end: int, most: int) -> None:
    found = list(stretches(start, end, most))
    assert [offset for stretch in found for offset in range(*stretch)] == list(range(start, end))
    assert all(0 < stop - first <= most for first, stop in found)


OF_ANOTHER: dict[str, tuple[object, str]] = {
    "another name": (
        spell_offsets("orders", "id0", {0: 5}),
        "the checkpoint belongs to topic orders: each topic needs",
    ),
    "made anew": (spell_offsets("users", "id0", {0: 5}), "was deleted and created again, or .* another warehouse"),
    "an older lithify": ({"topic": "id0", "offsets": {"0": 5}}, "another topic: one with another name, or one with"),
    "Kafka": ({"users": {"0": 5}}, "no offsets of lithify: another source wrote it"),
    "the rate source": (17, "no offsets of lithify: another source wrote it"),
}


@pytest.mark.parametrize("case", OF_ANOTHER)
def test_a_checkpoint_of_something_else_says_whose_it_is(case: str) -> None:
    spelled, said = OF_ANOTHER[case]
    with pytest.raises(InvalidRequest, match=f"^topic users: .*{said}.*new checkpointLocation"):
        read_offsets(json.loads(json.dumps(spelled)), "users", "id1")


@pytest.mark.parametrize("offsets", [{"0": "5"}, {"x": 5}, {"0": None}, {"0": -3}, {"0": 1.5}, {"-1": 5}, {"0": True}])
def test_offsets_of_another_shape_are_one_clear_refusal(offsets: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"^topic t: .* cannot be read: .*new checkpointLocation"):
        read_offsets({"topic": "id1", "name": "t", "offsets": offsets}, "t", "id1")


def test_a_checkpoint_of_an_older_lithify_is_read() -> None:
    assert read_offsets({"topic": "id1", "offsets": {"0": 5, "10": 6}}, "users", "id1") == {0: 5, 10: 6}


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> Topic:
    topic = warehouse.create_topic("t", partitions=2)
    for number, count in ((0, 10), (1, 4)):
        topic.partition(number).append([lithify.Record(b"%d" % n, b"v") for n in range(count)])
    return topic


def reader(url: str, **options: Any) -> StreamReader:
    given = {name: str(value) for name, value in options.items()}
    return StreamReader(stream_options({"topic": "t", "path": url} | given), COLUMNS)


def rows(made: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    parts = made.partitions(start, end)
    found = [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]
    return [(row["partition"], row["offset"]) for row in found]


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("lost", [{0: 25, 1: 4}, {0: 10, 1: 4, 2: 0}])
def test_a_log_that_was_restored_to_an_earlier_point(
    url: str, topic: Topic, available_now: bool, lost: dict[int, int]
) -> None:
    """It ends before the checkpoint, or lacks a partition that the checkpoint knows."""
    at = spell_offsets("t", topic.topic_id, lost)
    made, lax = reader(url), reader(url, fail_on_data_loss=False)
    if available_now:
        made.prepareForTriggerAvailableNow()
        lax.prepareForTriggerAvailableNow()
    with pytest.raises(OffsetOutOfRange, match=r"restored to an earlier point.*new checkpointLocation.*failOnDataLoss"):
        made.latestOffset(at, ALL)
    for limit in (ALL, ReadMaxRows(5)):
        end = lax.latestOffset(at, limit)
        assert end["offsets"] == {"0": 10, "1": 4}
        assert rows(lax, at, end) == []
    topic.partition(0).append([lithify.Record(b"new", b"v")])
    later = reader(url, fail_on_data_loss=False)
    assert rows(later, end, later.latestOffset(end, ALL)) == [(0, 10)]


def test_a_batch_that_was_planned_before_the_log_was_restored(url: str, topic: Topic) -> None:
    """Spark plans it again from its own notes, and asks for no latest offset before."""
    spec = open_store(url).spec()
    for start, left in ((6, [6, 7, 8, 9]), (20, [])):
        part = StretchPartition(Stretch("t", topic.topic_id, 0, start, 30), spec)
        with pytest.raises(OffsetOutOfRange, match="restored to an earlier point"):
            list(reader(url).read(part))
        found = [batch.column("offset").to_pylist() for batch in reader(url, fail_on_data_loss=False).read(part)]
        assert [offset for each in found for offset in each] == left


def test_a_limit_is_not_spent_on_what_retention_took(url: str, topic: Topic) -> None:
    """Otherwise a query under `failOnDataLoss=false` would need a batch for each of so many offsets that are gone."""
    topic.delete_records({0: 8})
    made = reader(url, fail_on_data_loss=False)
    at = spell_offsets("t", topic.topic_id, {0: 0, 1: 4})
    end = made.latestOffset(at, ReadMaxRows(1))
    assert end["offsets"] == {"0": 9, "1": 4}
    assert rows(made, at, end) == [(0, 8)]


def test_partitions_are_asked_together_and_the_report_asks_nothing(
    url: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle trigger: one look for all partitions, side by side where the store is far."""
    made = reader(url)
    at = made.latestOffset(made.initialOffset(), ALL)
    together, looks = list[int](), list[Partition]()
    store, snapshot = type(open_store(url)), Partition.snapshot
    side_by_side = store.side_by_side

    def beside(self: Any, calls: Any) -> Any:
        together.append(len(calls))
        return side_by_side(self, calls)

    def looked(self: Partition, *args: Any, **named: Any) -> Any:
        looks.append(self)
        return snapshot(self, *args, **named)

    monkeypatch.setattr(store, "side_by_side", beside)
    monkeypatch.setattr(Partition, "snapshot", looked)
    assert made.latestOffset(at, ALL) == at == made.reportLatestOffset()
    assert len(looks) == 2
    assert 2 in together


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("starting", ["latest", '{"0": 10}'])
@pytest.mark.parametrize("busy_before", range(5))
def test_a_query_that_begins_while_others_append_and_the_topic_grows(
    url: str, topic: Topic, monkeypatch: pytest.MonkeyPatch, available_now: bool, starting: str, busy_before: int
) -> None:
    """Before one of the calls that Spark makes, or before all of them (4)."""
    monkeypatch.setattr("lithify.log.topic.CONFIG_FRESH_MS", 0)
    made, other = reader(url, startingOffsets=starting), lithify.open(url).topic("t")

    def busy(call: int) -> None:
        if busy_before in (call, 4):
            other.alter(partitions=other.partitions + 1)
            for number in range(other.partitions):
                other.partition(number).append([lithify.Record(b"new", b"v")])

    busy(0)
    if available_now:
        made.prepareForTriggerAvailableNow()
    busy(1)
    at = start = made.initialOffset()
    found = list[tuple[int, int]]()
    end = at
    for call in (2, 3):
        busy(call)
        end = made.latestOffset(at, ALL)
        found += rows(made, at, end)
        at = end
    begin = start["offsets"]
    assert sorted(found) == [(int(n), at) for n, stop in end["offsets"].items() for at in range(begin.get(n, 0), stop)]


@pytest.mark.slow
@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(1), ReadMaxRows(7)])
@pytest.mark.parametrize("counts", [(2, 3, 5), (1, 4, 6, 7)])
def test_the_records_of_a_key_come_in_order_though_the_topic_grew(
    url: str, warehouse: lithify.Warehouse, counts: tuple[int, ...], limit: Any, available_now: bool
) -> None:
    """Keys move to other partitions, to lower ones as well where a count is no multiple of the one before."""
    topic, keys = warehouse.create_topic("t", partitions=counts[0]), [b"%d" % n for n in range(8)]
    for index, count in enumerate(counts):
        if count > topic.partitions:
            topic.alter(partitions=count)
        topic.append([lithify.Record(key, b"%d" % index) for key in keys])
    made = reader(url)
    if available_now:
        made.prepareForTriggerAvailableNow()
    at, found = made.initialOffset(), list[tuple[bytes, int]]()
    while (end := made.latestOffset(at, limit)) != at:
        for part in made.partitions(at, end):
            found += [(row["key"], int(row["value"])) for batch in made.read(part) for row in batch.to_pylist()]
        at = end
    for key in keys:
        assert [value for mine, value in found if mine == key] == list(range(len(counts)))


def test_a_growth_holds_nothing_back_once_its_former_logs_are_read() -> None:
    """Nor where it is not known where they ended, or where one was restored to an earlier point."""
    logs = {0: range(12), 1: range(3, 8), 2: range(4)}
    all_of, known = {0: 12, 1: 8, 2: 4}, Growth(2, (10, 5))
    assert ends_in_order({0: 9, 1: 6}, logs, [known]) == {0: 10, 1: 6, 2: 0}
    assert ends_in_order({0: 10, 1: 5}, logs, [known]) == all_of
    for ends in ((), (10,), (10, None)):
        assert ends_in_order({0: 9, 1: 6}, logs, [Growth(2, ends)]) == all_of
    assert ends_in_order({0: 12, 1: 6}, logs, [Growth(2, (20, 5))]) == all_of
    assert ends_in_order({0: 0}, logs, [Growth(1, (0,)), known]) == {0: 10, 1: 5, 2: 0}
