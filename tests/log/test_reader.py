"""Reading from any offset, over any shape that appends and compactions leave; held against a list of records."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from tests.log.compaction import compact, raise_floor

Row = tuple[int, bytes | None, bytes | None]

KEYS = st.sampled_from([b"a", b"b", b"c", b"dd", b""])
APPENDS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=5)
STEPS = st.lists(APPENDS | st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=9)


def rows(records: Sequence[Record]) -> list[Row]:
    assert [record.offset for record in records] == sorted(record.offset or 0 for record in records)
    return [(record.offset or 0, record.key, record.value) for record in records]


def merged(stored: list[Row], low: int, high: int) -> list[Row]:
    """What a merge of everything in [low, high) keeps."""
    latest = {key: offset for offset, key, _ in stored if low <= offset < high}
    return [row for row in stored if not low <= row[0] < high or latest[row[1]] == row[0]]


def check(part: Partition | Snapshot, stored: list[Row], end: int) -> None:
    for start in {0, min(1, end), end // 2, max(end - 1, 0), end}:
        assert rows(list(part.read(start))) == [row for row in stored if row[0] >= start]
        batches = part.read_batches(start, end - 1 if end > start else end).read_all()
        assert batches.column("offset").to_pylist() == [row[0] for row in stored if start <= row[0] < end - 1]
    latest = {key: (offset, value) for offset, key, value in stored}
    found = part.scan(tombstones=True).read_all().to_pylist()
    assert [(row["key"], row["offset"], row["value"]) for row in found] == [
        (key, *latest[key]) for key in sorted(latest, key=lambda key: key or b"")
    ]
    live = {key for key, (_, value) in latest.items() if value is not None}
    assert set(part.scan().read_all().column("key").to_pylist()) == live
    for key in (b"a", b"dd", b"zz"):
        record = part.get(key)
        assert (None if record is None else (record.offset, record.value)) == (latest.get(key) if key in live else None)


@pytest.mark.slow
@given(STEPS, st.sampled_from([1, 1 << 28]))
def test_every_shape_reads_as_its_records(steps: list[list[tuple[bytes, bytes | None]] | set[int]], cut: int) -> None:
    """A step appends, or merges a stretch of neighbouring units."""
    warehouse = Warehouse(Driver(MemoryStore()))
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    stored: list[Row] = []
    stretches: list[tuple[str, int, int]] = []  # unit id, first offset, end
    end = 0
    for step in steps:
        if isinstance(step, list):
            part.append([Record(key, value) for key, value in step])
            stored += [(end + index, key, value) for index, (key, value) in enumerate(step)]
            stretches.append((part.describe().l0[-1].id, end, end + len(step)))
            end += len(step)
        elif stretches:
            low, high = min(step) % len(stretches), max(step) % len(stretches)
            chosen = stretches[min(low, high) : max(low, high) + 1]
            head = compact(warehouse, "t", take=[unit for unit, _, _ in chosen], output_bytes=cut)
            stretches[min(low, high) : max(low, high) + 1] = [(head.completed_jobs[-1].id, chosen[0][1], chosen[-1][2])]
            stored = merged(stored, chosen[0][1], chosen[-1][2])
    check(part, stored, end)
    check(part.snapshot(), stored, end)
    check(part.snapshot("pinned"), stored, end)


def test_a_clean_around_a_stretch_left_out_interleaves(any_warehouse: Warehouse) -> None:
    """A run may hold offsets on both sides of an L0 segment that was left out."""
    part = any_warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    for number in range(5):
        part.append([Record(b"x%d" % number, b"1"), Record(b"shared", b"%d" % number)])
    l0 = [segment.id for segment in part.describe().l0]
    compact(any_warehouse, "t", take=[l0[0], l0[2], l0[4]])
    info = part.describe()
    assert [(s.min_offset, s.max_offset) for run in info.runs for s in run.segments] == [(0, 9)]
    assert len(info.l0) == 2
    stored: list[Row] = []
    for number in range(5):
        stored.append((2 * number, b"x%d" % number, b"1"))
        if number in (1, 3, 4):
            stored.append((2 * number + 1, b"shared", b"%d" % number))
    check(part, stored, 10)


def test_topics_that_delete_are_read_in_their_own_order(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    given_rows: list[Row] = [(offset, [b"k", None, b"j"][offset % 3], b"%d" % offset) for offset in range(30)]
    for start in range(0, 30, 3):
        part.append([Record(key, value) for _, key, value in given_rows[start : start + 3]])
    units = [segment.id for segment in part.describe().l0]
    compact(warehouse, "t", take=units[:4], order="offset", output_bytes=1)
    compact(warehouse, "t", take=units[6:9], order="offset")
    assert [len(part.describe().l0), len(part.describe().runs)] == [3, 2]
    for start in range(31):
        assert rows(list(part.read(start))) == given_rows[start:]
    assert [(row["key"], row["offset"]) for row in part.scan().read_all().to_pylist()] == [(b"j", 29), (b"k", 27)]


def test_a_policy_that_changed_leaves_both_orders_readable(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")
    part = topic.partition(0)
    part.append([Record(b"b", b"0"), Record(b"a", b"1")])
    part.append([Record(b"b", b"2"), Record(None, b"3")])
    compact(warehouse, "t", order="offset")
    part.append([Record(b"c", b"4"), Record(b"a", b"5")])
    topic.alter({"cleanup.policy": "compact"})
    part.append([Record(b"c", b"6"), Record(b"a", b"7")])
    assert [record.value for record in part.read()] == [b"%d" % number for number in range(8)]
    assert [(row["key"], row["value"]) for row in part.scan().read_all().to_pylist()] == [
        (b"a", b"7"),
        (b"b", b"2"),
        (b"c", b"6"),
    ]
    compact(warehouse, "t", drop=False)
    assert [record.value for record in part.read(3)] == [b"%d" % number for number in range(3, 8)]


def test_to_tail_reads_the_newest_segment_only(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    for number in range(20):
        part.append([Record(b"k%d" % number, b"v")])
        if number == 9:
            compact(warehouse, "t")
    before = warehouse.store.requests()
    assert [record.offset for record in part.read(19)] == [19]
    spent = warehouse.store.requests() - before
    assert (spent.gets, spent.reads) == (2, 2)  # the head; the segment's footer and its row group


def test_more_runs_than_are_streamed(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.segment.scan.STREAMS_MAX", 2)
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    for number in range(12):
        part.append([Record(b"k%d" % (number % 5), b"%d" % number), Record(b"j", b"%d" % number)])
        if number % 2:
            l0 = part.describe().l0
            compact(warehouse, "t", take=[segment.id for segment in l0])
    assert len(part.describe().runs) == 6
    latest = {b"k%d" % (number % 5): b"%d" % number for number in range(12)} | {b"j": b"11"}
    found = part.scan().read_all().to_pylist()
    assert [(row["key"], row["value"]) for row in found] == sorted(latest.items())


def test_records_below_the_log_start_offset_are_not_shown(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}).partition(0)
    part.append([Record(b"a", b"0"), Record(b"b", b"1"), Record(b"a", b"2"), Record(b"c", b"3")])
    raise_floor(warehouse, 2)
    assert [record.offset for record in part.read()] == [2, 3]
    assert [record.offset for record in part.read(1)] == [2, 3]
    assert part.scan().read_all().column("key").to_pylist() == [b"a", b"c"]
    assert part.get(b"b") is None
    assert part.describe().log_start_offset == part.snapshot().log_start_offset == 2
