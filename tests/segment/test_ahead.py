"""Reading ahead (docs/rfcs/0028): how many round trips are waited for, and what is left behind by whoever stops."""

import os
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lithify.log.tables import normalise
from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.segment import ahead, read, verify
from lithify.segment.check import CheckTask, check_segments
from lithify.segment.footer import TAIL_BYTES
from lithify.segment.offset_order import in_offset_order
from lithify.segment.scan import latest_by_key
from lithify.segment.segments import Segments
from lithify.segment.write import encode_append
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from tests.far import FarStore, waves

KEYS = PartitionKeys("orders", "0a", 3)


def append(store: MemoryStore, base: int, rows: int, value_bytes: int = 10, order: Any = "key") -> SegmentRef:
    keys = pa.array([b"k%06d" % ((base + row) * 7919 % 1_000_003) for row in range(rows)], pa.binary())
    values = pa.array([os.urandom(value_bytes // 2).hex().encode() for _ in range(rows)], pa.binary())
    body, ref = encode_append(normalise(pa.table({"key": keys, "value": values}), 7), order, f"1-{base}")
    store.put(KEYS.segment(ref.id), body)
    last = base + rows - 1
    return msgspec.structs.replace(ref, base_offset=base, min_offset=base, max_offset=last)


def appends(store: MemoryStore, count: int, rows: int, value_bytes: int = 10, order: Any = "key") -> list[SegmentRef]:
    return [append(store, at * rows, rows, value_bytes, order) for at in range(count)]


def reader(store: MemoryStore) -> Any:
    return Segments(KEYS, only_here(store)).reader


def log(store: MemoryStore, refs: list[SegmentRef], wanted: Bounds = EVERYTHING) -> Any:
    return in_offset_order((), refs, reader(store), wanted)


def scan(store: MemoryStore, refs: list[SegmentRef], runs: Any = ()) -> Any:
    return latest_by_key(runs, refs, reader(store), EVERYTHING, tombstones=False)


def rows(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize("order", ["key", "offset"])
def test_twenty_small_segments_are_one_round_trip(order: Any) -> None:
    """Each is fetched whole, with its footer."""
    store = FarStore()
    refs = appends(store, 20, 5, order=order)
    with waves(store) as found:
        assert rows(log(store, refs)) == 100
    assert (found.count, found.largest) == (1, 20)
    with waves(store) as found:
        assert rows(scan(store, refs)) == 100
    assert found.count == 1


def test_all_sources_are_opened_at_once_and_then_their_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 0)
    store = FarStore()
    refs = appends(store, 8, 12_000, 100)
    assert min(ref.bytes for ref in refs) > 600_000
    with waves(store) as found:
        assert rows(scan(store, refs)) == 96_000
    assert (found.count, found.largest) == (1, 16)  # footers, and what the segments begin with


def test_larger_sources_are_two_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "EARLY_BYTES_MAX", 300_000)
    store = FarStore()
    refs = appends(store, 8, 20_000, 100)
    with waves(store) as found:
        assert rows(scan(store, refs)) == 160_000
    assert (found.count, found.largest) == (2, 16)


def run_of(store: MemoryStore, rows: int) -> SortedRun:
    return SortedRun(id="1-r", segments=(append(store, 0, rows, 80),))


def test_a_run_within_the_budget_is_one_round_trip_over_several_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its footer, and the rest in pieces: none of them waits for what the footer says."""
    monkeypatch.setattr(ahead, "_PIECE_BYTES", 500_000)
    store = FarStore()
    run = run_of(store, 100_000)
    assert run.segments[0].bytes > 4_000_000
    with waves(store) as found:
        assert rows(scan(store, [], [run])) == 100_000
    assert (found.count, found.largest) == (1, 1 + -(-(run.segments[0].bytes - TAIL_BYTES) // 500_000))


@pytest.mark.parametrize("piece_bytes", [70_000, 1 << 20])
def test_pieces_need_not_end_where_row_groups_do(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    """The budget ends within the object, too: what follows is requested when its row groups are known."""
    monkeypatch.setattr(ahead, "_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(ahead, "AHEAD_BYTES_MAX", 2_500_000)
    store = FarStore()
    run = run_of(store, 100_000)
    read_ahead = pa.Table.from_batches(scan(store, [], [run]))
    near = MemoryStore()
    near.put(KEYS.segment(run.segments[0].id), store.read(KEYS.segment(run.segments[0].id), 0, run.segments[0].bytes))
    assert read_ahead == pa.Table.from_batches(scan(near, [], [run]))


def test_many_large_sources_are_all_opened_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they begin with leaves room in the budget for the footers of all of them."""
    monkeypatch.setattr(ahead, "AHEAD_BYTES_MAX", 3 << 20)
    monkeypatch.setattr(ahead, "EARLY_BYTES_MAX", 400_000)
    store = FarStore()
    refs = appends(store, 8, 20_000, 100)
    assert min(ref.bytes for ref in refs) > 1_000_000
    with waves(store) as found:
        next(scan(store, refs))
    assert found.largest == 16


def test_no_more_is_under_way_than_the_budget_says(monkeypatch: pytest.MonkeyPatch) -> None:
    most: list[int] = []
    held = ahead.ReadAhead.fetch

    def fetch(self: ahead.ReadAhead, *wanted: Any) -> Any:
        most.append(self.held_bytes)
        return held(self, *wanted)

    monkeypatch.setattr(ahead.ReadAhead, "fetch", fetch)
    monkeypatch.setattr(ahead, "AHEAD_BYTES_MAX", 2 << 20)
    monkeypatch.setattr(read, "FAR_FETCH_BYTES_MAX", 1)  # each row group by itself
    for count, each in ((1, 50_000), (3, 25_000), (6, 20_000)):
        store = FarStore()
        refs = appends(store, count, each, 80)
        assert sum(ref.bytes for ref in refs) > ahead.AHEAD_BYTES_MAX
        assert rows(scan(store, refs)) == count * each
    assert max(most) <= ahead.AHEAD_BYTES_MAX + (2 << 20)  # what is needed now may come on top: a row group


@pytest.mark.slow
def test_a_run_is_read_as_far_ahead_as_the_budget_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "FAR_FETCH_BYTES_MAX", 1)  # each row group by itself
    monkeypatch.setattr(ahead, "EARLY_BYTES_MAX", 0)
    monkeypatch.setattr(ahead, "_FEW_LANES", 0)
    store = FarStore()
    run = run_of(store, 300_000)
    groups = len(reader(store)(run.segments[0], 1 << 20).row_groups)
    assert groups > 7
    with waves(store) as found:
        assert rows(scan(store, [], [run])) == 300_000
    assert found.count < groups / 2


def test_what_is_read_ahead_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 2_000)
    monkeypatch.setattr(read, "FAR_FETCH_BYTES_MAX", 100_000)
    far, near = FarStore(), MemoryStore()
    refs = [append(far, at * 3_000, count) for at, count in enumerate((5, 3_000, 20, 2_500))]
    for found in far.list(KEYS.segments).objects:
        body = far.get(found.key)
        assert body is not None
        near.put(found.key, body.body)
    for wanted in (EVERYTHING, Bounds(b"k3", b"k7"), Bounds(from_offset=3_100, to_offset=6_010), Bounds(low=b"k99")):
        assert pa.Table.from_batches(log(far, refs, wanted)) == pa.Table.from_batches(log(near, refs, wanted))
    assert pa.Table.from_batches(scan(far, refs)) == pa.Table.from_batches(scan(near, refs))


def test_checks_of_several_segments_ask_together() -> None:
    """Their footers, and what they begin with; small ones are one request beside the look at the size."""
    store = FarStore()
    refs = appends(store, 6, 20)
    with waves(store) as found:
        assert check_segments(only_here(store), CheckTask(deep=False, keys=KEYS, segments=tuple(refs))) == ()
    assert found.count == 1


def test_a_check_of_a_large_object_has_pieces_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_FAR_STEP_BYTES", 100_000)
    store = FarStore()
    ref = append(store, 0, 12_000, 100)
    pieces = -(-ref.bytes // 100_000)
    with waves(store) as found:
        assert check_segments(only_here(store), CheckTask(deep=False, keys=KEYS, segments=(ref,))) == ()
    assert pieces > 6
    assert found.count <= 2 + pieces / 2
