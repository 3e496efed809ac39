"""Topics that grow: where their keys are then, and what scan and get say of them, whatever is compacted (RFC 0013)."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lithify.compactor.compactor import Compactor
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import alter_topic, live_topic, topic_lineage
from lithify.manifest.codec import LaterFormat
from lithify.manifest.compacted import CompactedState, compacted
from lithify.manifest.keys import TopicKeys
from lithify.manifest.model import GROWTHS_MAX
from lithify.manifest.retention import floor_at
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, Fenced, NotFound
from lithify.store.memory import MemoryStore
from lithify.store.port import Create
from tests.clock import HandClock
from tests.log.compaction import files_of
from tests.log.conftest import TEN_SECONDS_MS
from tests.slow import Slow
from tests.unreadable import UNREADABLE, Rewrite, rewrite

CLEANED = {"cleanup.policy": "compact", "delete.retention.ms": 1_000, "min.cleanable.dirty.ratio": 0}


def key_of(*places: tuple[int, int]) -> bytes:
    """A key that each of these counts puts into the partition beside it."""
    candidates = (b"key-%d" % number for number in range(10_000))
    return next(key for key in candidates if all(partition_for_key(key, n) == at for n, at in places))


AWAY_FOR_TWO = key_of((1, 0), (2, 1), (3, 1), (5, 0))
KEYS = [*(b"%d" % number for number in range(8)), AWAY_FOR_TWO, key_of((1, 0), (2, 1), (3, 0))]
KEYS += [key_of((2, 1), (3, 0), (4, 1)), key_of((2, 0), (3, 2), (4, 2), (5, 0))]


def announces(request: Any) -> bool:
    return isinstance(request, Create) and request.key == TopicKeys("t").config.key(2)


def scanned(topic: Topic) -> dict[bytes | None, bytes | None]:
    rows = topic.scan().read_all().to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows), "a key is shown twice"
    return found


def clean(warehouse: Warehouse, clock: HandClock) -> None:
    """Twice, and late enough that tombstones go."""
    for _ in range(2):
        clock.now_ms += 2_000
        Compactor(warehouse, engine="local").run_once()


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_topic_does_not_grow_while_nobody_knows_where_a_partition_ends(change: Rewrite, warehouse: Warehouse) -> None:
    """1. A key is in partition 1. 2. The topic grows; the key is in 0, and is deleted there. 3. It grows again, and the
    key is in 1, whose file cannot be read just now. Its old record there must not come back."""
    returns = key_of((2, 1), (3, 0), (4, 1))
    topic = warehouse.create_topic("t", 2, CLEANED)
    topic.append([Record(returns, b"long ago")])
    topic.alter(partitions=3)
    topic.append([Record(returns, None)])
    keys = files_of(warehouse, "t", 1).keys
    key = keys.manifest.key(topic.partition(1).describe().manifest_id)
    found = rewrite(warehouse.store, key, change)
    with pytest.raises((Corrupt, LaterFormat)):
        warehouse.topic("t").alter(partitions=4)
    assert warehouse.topic("t").partitions == 3
    warehouse.store.put(key, found)
    topic.alter(partitions=4)
    assert [growth.ends for growth in topic.key_places().growths] == [(0, 1), (1, 1, 0)]
    assert (scanned(topic), topic.get(returns)) == ({}, None)


def test_two_who_grow_a_topic_at_once_bring_no_deleted_key_back(warehouse: Warehouse) -> None:
    """1. Both have read where the partitions end. 2. A key is written, one grows the topic, and the key, which moved,
    is deleted. 3. The other grows it further, and the key moves back."""
    returns = key_of((2, 1), (3, 0), (4, 1))
    topic = warehouse.create_topic("t", 2, CLEANED)
    topic.append([Record(returns, b"v1")])
    lineage = topic_lineage("t")
    growing = alter_topic(lineage, warehouse.driver.run(live_topic(lineage, "t")), {}, 4)
    other = Slow(warehouse, growing, announces)
    topic.append([Record(returns, b"v2")])
    warehouse.topic("t").alter(partitions=3)
    warehouse.topic("t").append([Record(returns, None)])
    other.end()
    grown = warehouse.topic("t")
    assert [growth.ends for growth in grown.key_places().growths] == [(0, 2), (1, 2, 0)]
    assert (scanned(grown), grown.get(returns)) == ({}, None)


def test_a_key_that_moved_is_shown_once_and_as_it_is_now(warehouse: Warehouse, clock: HandClock) -> None:
    moves, stays = key_of((1, 0), (4, 3)), key_of((1, 0), (4, 0))
    topic, elsewhere = warehouse.create_topic("t", config=CLEANED), warehouse.topic("t")
    topic.append([Record(moves, b"old"), Record(stays, b"old")])
    topic.alter(partitions=4)
    assert (scanned(topic), topic.get(moves)) == ({stays: b"old"}, None)  # left behind, and not written since
    clock.now_ms += TEN_SECONDS_MS
    elsewhere.append([Record(moves, b"new")])
    assert scanned(topic) == scanned(elsewhere) == {stays: b"old", moves: b"new"}
    elsewhere.append([Record(moves, None)])
    clean(warehouse, clock)
    assert topic.partition(3).describe().rows == 0
    assert (scanned(topic), topic.get(moves)) == ({stays: b"old"}, None)  # though its tombstone is gone
    # What it left behind is in the log of its former partition.
    assert {row["key"] for row in topic.partition(0).scan().read_all().to_pylist()} == {moves, stays}


def test_a_scan_says_how_many_records_it_leaves_out(warehouse: Warehouse) -> None:
    """Tried on log/topic_snapshot.py, and caught: not a word."""
    left = [key_of((1, 0), (4, number)) for number in (1, 2, 3)]
    topic = warehouse.create_topic("t")
    topic.append([Record(key, b"v") for key in (*left, key_of((1, 0), (4, 0)))])
    for expected in ([], [("t/0", 3)]):
        with capture_logs() as told:
            topic.scan().read_all()
        words = [(each["partition"], each["records"]) for each in told if each["log_level"] == "warning"]
        assert words == expected
        topic.alter(partitions=4)


def test_a_key_that_comes_back_does_not_find_what_it_left(warehouse: Warehouse) -> None:
    returns = key_of((2, 1), (3, 0), (4, 1))
    topic = warehouse.create_topic("t", partitions=2)
    topic.append([Record(returns, b"long ago")])
    topic.alter(partitions=3)
    topic.append([Record(returns, None)])
    topic.alter(partitions=4)
    assert (scanned(topic), topic.get(returns)) == ({}, None)
    topic.append([Record(returns, b"now")])
    assert topic.get(returns) is not None
    assert scanned(topic) == {returns: b"now"}


def test_what_was_put_elsewhere_by_hand_stays_in_sight(warehouse: Warehouse) -> None:
    key = key_of((2, 0), (4, 2))
    topic = warehouse.create_topic("t", partitions=2)
    topic.partition(1).append([Record(key, b"by hand")])
    topic.append([Record(None, b"keyless")])
    topic.alter(partitions=4)
    assert scanned(topic)[key] == b"by hand"


def test_a_topic_that_an_earlier_release_grew_is_known_by_its_versions(warehouse: Warehouse) -> None:
    moves = key_of((1, 0), (3, 2))
    topic = warehouse.create_topic("t")
    topic.append([Record(moves, b"old")])
    topic.alter(partitions=3)
    forgotten = warehouse.topic("t")
    forgotten._topic = type(forgotten._topic)(
        **{name: getattr(forgotten._topic, name) for name in forgotten._topic.__struct_fields__ if name != "growths"}
    )
    assert forgotten.key_places().counts == (1, 3)
    assert scanned(forgotten) == {}


def test_of_many_growths_the_last_ends_are_kept_and_all_counts(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")
    for count in range(2, GROWTHS_MAX + 5):
        topic.partition(count - 2).append([Record(b"k", b"v")])
        topic.alter(partitions=count)
    growths = topic.key_places().growths
    assert [growth.partitions for growth in growths] == list(range(1, GROWTHS_MAX + 4))
    assert [len(growth.ends) for growth in growths] == [0] * 3 + list(range(4, GROWTHS_MAX + 4))
    assert growths[-1].ends == (1,) * (GROWTHS_MAX + 3)
    assert warehouse.driver.run(live_topic(topic_lineage("t"), "t")).growths == growths


def test_added_partitions_are_found_within_ten_seconds(warehouse: Warehouse, clock: HandClock) -> None:
    topic, elsewhere = warehouse.create_topic("t"), warehouse.topic("t")
    topic.alter(partitions=2)
    with pytest.raises(NotFound, match="it has partition 0"):
        elsewhere.partition(1)
    clock.now_ms += TEN_SECONDS_MS
    assert elsewhere.partition(1).number == 1
    with pytest.raises(NotFound, match="it has partitions 0, 1"):
        elsewhere.partition(2)


@dataclass
class Model:
    """What each key's records mean, told by the history alone: (key, value, partition, number of growths before it)."""

    written: list[tuple[bytes, bytes | None, int, int]] = field(
        default_factory=list[tuple[bytes, bytes | None, int, int]]
    )
    counts: list[int] = field(default_factory=lambda: [1])

    def value(self, key: bytes) -> bytes | None:
        """Its latest record where it lives now counts; if it lived there before, only what came since it came back."""
        places = [partition_for_key(key, count) for count in self.counts]
        came = len(places)
        while came and places[came - 1] == places[-1]:
            came -= 1
        since = came if places[-1] in places[:came] else 0
        mine = [
            value
            for known, value, partition, era in self.written
            if known == key and partition == places[-1] and era >= since
        ]
        return mine[-1] if mine else None


GROW = st.integers(1, 3)
WRITE = st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"a", b"b", b"c"]), st.booleans())
STEPS = st.lists(st.one_of(WRITE, WRITE, WRITE, GROW, st.just("clean")), min_size=3, max_size=25)


@pytest.mark.slow
@example(first=1, steps=[1, (AWAY_FOR_TWO, b"a", True), 1, 2])
@example(first=1, steps=[1, (AWAY_FOR_TWO, b"a", True), (AWAY_FOR_TWO, b"b", False), 3])
@given(first=st.integers(1, 3), steps=STEPS)
def test_scan_and_get_agree_with_the_history(
    first: int, steps: list[tuple[bytes, bytes | None, bool] | int | str]
) -> None:
    """Over growth of any kind, with writers by a former count, and cleaning that drops tombstones. Sabotages that were
    tried in segment/stayed.py, and are caught: what came back counts as there; what left is shown; ends are off by
    one; a key that was put by the first count alone is looked at; what a writer by a former count left is there when
    its key comes back. In manifest/catalog.py: no ends are noted."""
    clock = HandClock()
    warehouse = Warehouse(Driver(MemoryStore(), clock))
    topic = warehouse.create_topic("t", partitions=first, config=CLEANED, probe=False)
    reader, late = warehouse.topic("t"), warehouse.topic("t")
    model = Model(counts=[first])
    for step in steps:
        if isinstance(step, int):
            model.counts.append(model.counts[-1] + step)
            topic.alter(partitions=model.counts[-1])
        elif isinstance(step, str):
            clean(warehouse, clock)
        else:
            key, value, by_a_former_count = step
            (partition,) = (late if by_a_former_count else topic).append([Record(key, value)])
            model.written.append((key, value, partition, len(model.counts) - 1))
    clock.now_ms += TEN_SECONDS_MS
    expected = {key: value for key in KEYS if (value := model.value(key)) is not None}
    for handle in (topic, reader):
        assert scanned(handle) == expected
        found = {key: handle.get(key) for key in KEYS}
        assert {key: record.value for key, record in found.items() if record is not None} == expected


@pytest.mark.parametrize("producer_id", [None, "id"])
def test_a_producer_writes_to_where_keys_live_within_ten_seconds(
    warehouse: Warehouse, clock: HandClock, producer_id: str | None
) -> None:
    """Before, its update and its tombstone went to the former partition, and nobody looked for them there."""
    moves, stays = key_of((1, 0), (4, 3)), key_of((1, 0), (4, 0))
    topic, elsewhere = warehouse.create_topic("t", config=CLEANED), warehouse.topic("t")
    with elsewhere.producer(producer_id, {"linger.ms": 0}) as producer:
        assert producer.append(moves, b"old").partition == 0
        topic.alter(partitions=4)
        topic.append([Record(moves, b"by another")])
        clock.now_ms += TEN_SECONDS_MS
        assert [producer.append(key, b"new").partition for key in (moves, stays)] == [3, 0]
        producer.flush()
        assert scanned(topic) == {moves: b"new", stays: b"new"}
        assert producer.append(moves, None).offset() == 2
        assert (topic.get(moves), scanned(topic)) == (None, {stays: b"new"})


def test_a_producer_that_was_replaced_opens_nothing_in_added_partitions(warehouse: Warehouse, clock: HandClock) -> None:
    """Neither where it sees growth first, nor last: its successor is refused nowhere."""
    key = key_of((1, 0), (2, 1))
    topic, first, second = warehouse.create_topic("t"), warehouse.topic("t"), warehouse.topic("t")
    older = first.producer("id", {"linger.ms": 0})
    with second.producer("id", {"linger.ms": 0}) as newer:
        topic.alter(partitions=2)
        clock.now_ms += TEN_SECONDS_MS
        with pytest.raises(Fenced, match="another instance"):
            older.append(key, b"older").offset()
        newer.append(key, b"newer").offset()
        with pytest.raises(Fenced, match="another instance"):
            older.append(key, b"older")
        newer.append(key, b"newer").offset()
    with pytest.raises(Fenced, match="another instance"):
        older.close()
    assert [record.value for record in topic.partition(1).read()] == [b"newer", b"newer"]


@pytest.mark.parametrize("grows", [False, True])
def test_compacted_states_are_the_table_unless_they_hide_records(
    warehouse: Warehouse, clock: HandClock, grows: bool
) -> None:
    topic = warehouse.create_topic("t", config=CLEANED)
    records = [Record(b"%d" % number, b"v") for number in range(20)]
    topic.append(records)
    if grows:
        topic.alter(partitions=2)
        clock.now_ms += TEN_SECONDS_MS
    topic.append(records)
    clean(warehouse, clock)
    states: list[CompactedState] = []
    for number in range(topic.partitions):
        head = warehouse.driver.run(files_of(warehouse, "t", number).head())
        found = compacted(head, floor_at(head, clock.now_ms), grown=bool(topic.key_places().growths))
        states += [] if found is None else [found]
    rows = sum(ref.rows for state in states for ref in state.segments)
    assert len(scanned(topic)) == 20
    assert (rows == 20, any(state.hides for state in states)) == (not grows, grows)
    assert all(state.tombstones == 0 for state in states)
