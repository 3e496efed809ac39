"""Topics: made, found, altered, described, deleted, and made again under the same name."""

import pyarrow as pa
import pytest

from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.errors import AlreadyExists, Corrupt, InvalidRequest, NotFound, Unavailable
from tests.clock import HandClock
from tests.log.compaction import compact, files_of

KEYED = [Record(b"key-%d" % number, b"%d" % number) for number in range(100)]


def test_topics_are_listed_until_they_are_deleted(any_warehouse: Warehouse) -> None:
    assert any_warehouse.topics() == []
    for name in ("b", "a", "c"):
        any_warehouse.create_topic(name)
    any_warehouse.delete_topic("b")
    any_warehouse.store.put("some folder/of somebody else", b"")
    any_warehouse.store.put("no-topic/either", b"")
    assert any_warehouse.topics() == ["a", "c"]
    with pytest.raises(AlreadyExists, match="topic a already exists"):
        any_warehouse.create_topic("a")


@pytest.mark.slow
def test_a_topic_made_anew_under_a_name_is_another_one(any_warehouse: Warehouse) -> None:
    old = any_warehouse.create_topic("users", partitions=2, config={"cleanup.policy": "compact"})
    old.append(KEYED)
    old_part, pinned = old.partition(0), old.partition(1).snapshot("pin")
    any_warehouse.delete_topic("users")
    new = any_warehouse.create_topic("users", partitions=1)
    assert (new.describe().partitions[0].next_offset, new.partitions, new.config) == (0, 1, {})
    new.partition(0).append([Record(b"key-1", b"new")])
    for use in (
        lambda: old_part.append([Record(b"k", b"v")]),
        lambda: old_part.append([]),
        old_part.read,
        old_part.scan,
        lambda: old_part.get(b"key-1"),
        lambda: old_part.snapshot("pin"),
        old_part.checkpoints,
        old_part.describe,
        lambda: old.append(KEYED),
        old.describe,
        lambda: old.alter({"retention.ms": 5}),
        old.scan,
    ):
        with pytest.raises(NotFound, match="open it again"):
            use()
    # Its bytes are there until they are collected.
    assert pinned.next_offset == len(list(pinned.read()))
    assert [record.value for record in new.partition(0).read()] == [b"new"]


def test_altering_is_seen_at_once_here_and_elsewhere_when_described(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"retention.ms": "5", "cleanup.policy": "compact"})
    elsewhere = warehouse.topic("t")
    topic.alter({"cleanup.policy": None, "segment.bytes": 1000})
    assert topic.config == {"retention.ms": "5", "segment.bytes": "1000"}
    topic.partition(0).append([Record(None, b"keyless")])
    with pytest.raises(InvalidRequest, match="has no key"):
        elsewhere.partition(0).append([Record(None, b"keyless")])
    info = elsewhere.describe()
    assert (info.version, info.config) == (2, topic.config)
    assert elsewhere.partition(0).append([Record(None, b"keyless")]) == range(1, 2)
    with pytest.raises(InvalidRequest, match="did you mean"):
        topic.alter({"retention.mss": 1})


def test_partitions_grow_and_never_shrink(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    topic.alter(partitions=3)
    assert (topic.partitions, topic.partition(2).append([Record(b"k", b"v")])) == (3, range(1))
    assert warehouse.topic("t").partitions == 3
    with pytest.raises(InvalidRequest, match="cannot shrink"):
        topic.alter(partitions=2)
    with pytest.raises(InvalidRequest, match="partitions must be an integer"):
        topic.alter(partitions="4")  # pyright: ignore


def test_keys_go_to_their_partitions(any_warehouse: Warehouse) -> None:
    topic = any_warehouse.create_topic("t", partitions=3, config={"cleanup.policy": "compact"})
    offsets = topic.append(KEYED)
    assert sum(map(len, offsets.values())) == len(KEYED)
    for number in range(3):
        expected = [record.key for record in KEYED if partition_for_key(record.key or b"", 3) == number]
        assert [record.key for record in topic.partition(number).read()] == expected
    rows = topic.scan().read_all().to_pylist()
    assert {(row["key"], row["value"]) for row in rows} == {(record.key, record.value) for record in KEYED}
    assert topic.get(b"key-42") is not None
    assert topic.get(b"key-100") is None
    table = pa.table({"key": [record.key for record in KEYED], "value": [None] * len(KEYED)})
    topic.append(table)
    assert topic.scan().read_all().num_rows == 0
    assert topic.scan(tombstones=True).read_all().num_rows == len(KEYED)


def test_keyless_records_stay_together_and_take_turns(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=3)
    places = [list(topic.append([Record(None, b"1"), Record(None, b"2")])) for _ in range(6)]
    assert all(len(place) == 1 for place in places)
    assert sorted(place[0] for place in places[:3]) == sorted(place[0] for place in places[3:]) == [0, 1, 2]


def test_a_part_that_fails_says_what_was_appended(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2, config={"l0.segments.max": 1})
    topic.partition(1).append([Record(b"full", b"")])
    with pytest.raises(Unavailable) as failed:
        topic.append(KEYED)
    count = sum(partition_for_key(record.key or b"", 2) == 0 for record in KEYED)
    assert failed.value.__notes__ == [f"appended, by partition: {{0: range(0, {count})}}"]


def test_each_part_that_fails_is_told(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=3, config={"l0.segments.max": 1})
    for number in (0, 2):
        topic.partition(number).append([Record(b"full", b"")])
    with pytest.raises(Unavailable, match="t/0") as failed:
        topic.append(KEYED)
    also, appended = failed.value.__notes__
    assert also.startswith("partition 2 failed, too: t/2")
    assert appended.startswith("appended, by partition: {1: range(0, ")


def test_a_partition_describes_itself(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    part = topic.partition(0)
    empty = part.describe()
    assert (empty.manifest_id, empty.next_offset, empty.due, empty.l0, empty.runs, empty.dirty_ratio) == (
        *(1, 0, None, (), ()),
        0.0,
    )
    part.append([Record(b"a", b"1", 5), Record(b"b", None, 9)])
    compact(warehouse, "t")
    part.append([Record(b"c", b"2", 7)])
    info = part.describe()
    assert (info.topic, info.partition, info.manifest_id, info.next_offset, info.rows) == ("t", 0, 4, 3, 3)
    assert (info.log_start_offset, info.cleaned_to, info.last_compacted_at, info.compactor_epoch) == (
        0,
        2,
        clock.now_ms,
        0,
    )
    assert info.due is None
    assert [(s.min_key, s.max_key, s.min_offset, s.max_offset, s.order) for s in info.l0] == [(b"c", b"c", 2, 2, "key")]
    (run,) = info.runs
    (segment,) = run.segments
    assert (segment.min_key, segment.max_key, segment.tombstones, segment.added_at) == (b"a", b"b", 1, 3)
    assert (segment.min_timestamp_ms, segment.max_timestamp_ms) == (5, 9)
    assert info.bytes == segment.bytes + info.l0[0].bytes
    assert info.dirty_bytes == info.l0[0].bytes
    assert info.dirty_ratio == pytest.approx(info.dirty_bytes / info.bytes)
    part.append([Record(b"d", b"x" * 1000)])
    assert "dirty ratio" in (part.describe().due or "")
    assert topic.describe().partitions == (part.describe(),)


def test_a_missing_object_of_a_retained_manifest_is_corruption(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t").partition(0)
    part.append([Record(b"a", b"1")])
    (segment,) = part.describe().l0
    key = files_of(any_warehouse, "t").keys.segment(segment.id)
    any_warehouse.store.delete([key])
    for use in (lambda: list(part.read()), lambda: part.scan().read_all(), lambda: part.get(b"a")):
        with pytest.raises(Corrupt, match="restore the object"):
            use()
