"""The external sort and the cutting of ranges, as pure functions."""

import itertools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.segment.ranges import BOUNDARY_BYTES_MAX, Weight, split_ranges
from lithify.segment.schema import RUN
from lithify.segment.sort import external_sort
from tests.refs import segment_ref
from tests.store.disks import ScriptedDisk

Row = dict[str, Any]
KEYS = [None, b"", b"\0", b"a", b"p" * 32, b"p" * 33]


def row(offset: int, key: bytes | None, size: int = 3) -> Row:
    return {
        "key": key,
        "value": b"%d" % offset * size if offset % 7 else None,
        "offset": offset,
        "timestamp_ms": -offset,
        "headers": [{"key": "h", "value": None}] if offset % 3 else None,
        "horizon_ms": None,
    }


def in_order(rows: list[Row], order: str) -> list[Row]:
    if order == "offset":
        return sorted(rows, key=lambda each: each["offset"])
    return sorted(rows, key=lambda each: (each["key"] is not None, each["key"] or b"", each["offset"]))


@settings(max_examples=8 * settings.default.max_examples // 5, deadline=None)
@given(
    given_rows=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(KEYS)), unique_by=lambda pair: pair[0]),
    order=st.sampled_from(["key", "offset"]),
    memory_bytes=st.sampled_from([1, 100, 1000, 1 << 20]),
    batch_rows=st.integers(1, 9),
)
def test_the_sort_sorts(given_rows: list[tuple[int, bytes]], order: Any, memory_bytes: int, batch_rows: int) -> None:
    rows = [row(offset, key) for offset, key in given_rows]
    batches = [
        pa.RecordBatch.from_pylist(rows[i : i + batch_rows], schema=RUN) for i in range(0, len(rows), batch_rows)
    ]
    out = external_sort(batches, order, memory_bytes=memory_bytes)
    assert [each for batch in out for each in batch.to_pylist()] == in_order(rows, order)


def test_memory_stays_bounded_and_the_folder_is_left_empty(tmp_path: Path) -> None:
    memory_bytes = 4 << 20
    base = pa.total_allocated_bytes()
    peak = spilled = 0
    disk = ScriptedDisk()

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal peak, spilled
        for n in range(64):
            rows = [row(i * 64 + (n * 29) % 64, b"k", 1000) for i in range(200)]
            yield pa.RecordBatch.from_pylist(rows, schema=RUN)
            peak = max(peak, pa.total_allocated_bytes() - base)
            spilled = sum(name == "write" for name in disk.calls)

    count = total = 0
    for batch in external_sort(batches(), "offset", memory_bytes=memory_bytes, spill_dir=tmp_path, disk=disk):
        assert batch.column("offset").to_pylist() == list(range(count, count + batch.num_rows))
        count += batch.num_rows
        total += batch.nbytes
        peak = max(peak, pa.total_allocated_bytes() - base)
    assert count == 64 * 200
    assert total > 8 * memory_bytes
    assert spilled > 7 * 16  # pieces of a sixteenth of the memory
    assert peak < 6 * memory_bytes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [7, 40])
def test_rows_larger_than_the_memory_are_merged_two_runs_at_a_time(tmp_path: Path, count: int) -> None:
    """Before, the merge held one of each run."""
    large = 1 << 20
    rows = ({**row(number, b"k"), "value": b"x" * large} for number in reversed(range(count)))
    batches = (pa.RecordBatch.from_pylist([each], schema=RUN) for each in rows)
    tracemalloc.start()  # what was spilled is read into Python's memory
    try:
        found = external_sort(batches, "offset", memory_bytes=large, spill_dir=tmp_path)
        assert [batch.column("offset").to_pylist() for batch in found] == [[number] for number in range(count)]
        assert tracemalloc.get_traced_memory()[1] < 8 * large
    finally:
        tracemalloc.stop()


def test_a_sort_left_early_leaves_the_folder_empty(tmp_path: Path) -> None:
    batches = [pa.RecordBatch.from_pylist([row(9 - i, b"k", 1000)], schema=RUN) for i in range(9)]
    disk = ScriptedDisk()
    out = external_sort(batches, "offset", memory_bytes=5000, spill_dir=tmp_path, disk=disk)
    assert next(out).num_rows
    assert disk.open_files == 1
    out.close()  # type: ignore[attr-defined]
    assert disk.open_files == 0
    assert list(tmp_path.iterdir()) == []


WEIGHT = st.tuples(st.binary(max_size=80), st.binary(max_size=80), st.integers(0, 1 << 40)).map(
    lambda drawn: Weight(min(drawn[:2]), max(drawn[:2]), drawn[2])
)


@settings(deadline=None)
@given(weights=st.lists(WEIGHT | st.builds(Weight, st.none(), st.none(), st.integers(0, 9))), parts=st.integers(1, 50))
def test_ranges_cover_all_keys_once(weights: list[Weight], parts: int) -> None:
    total = sum(weight.weight_bytes for weight in weights)
    ranges = split_ranges(weights, total // parts)
    assert ranges[0].low is None
    assert ranges[-1].high is None
    for one, two in itertools.pairwise(ranges):
        assert one.high == two.low
        assert one.high is not None
        assert len(one.high) <= BOUNDARY_BYTES_MAX
    cuts = [each.low for each in ranges if each.low is not None]
    assert cuts == sorted(set(cuts))
    assert ranges == split_ranges(weights[::-1], total // parts)
    assert len(ranges) <= max(1, total)


@pytest.mark.parametrize(("width", "ranges_min"), [(100, 40), (1000, 10), (9000, 2), (30_000, 1), (100_000, 1)])
def test_little_is_read_twice(width: int, ranges_min: int) -> None:
    """However many ranges are asked for, the row groups on both sides of a cut are at most an eighth of all; of small
    jobs, which may read all twice, as many come out as were asked for."""
    weights = [Weight(b"%08d" % low, b"%08d" % (low + width - 1), width) for low in range(0, 200_000, width)]
    assert 38 <= len(split_ranges(weights, 5000)) <= 43
    heavy = [msgspec.structs.replace(weight, weight_bytes=weight.weight_bytes << 20) for weight in weights]
    ranges = split_ranges(heavy, 5000 << 20)
    assert ranges_min <= len(ranges) <= 43
    cuts = [each.low for each in ranges if each.low is not None]
    twice = sum(w.weight_bytes for cut in cuts for w in heavy if (w.min_key or b"") < cut <= (w.max_key or b""))
    assert twice * 8 <= sum(weight.weight_bytes for weight in heavy)


@pytest.mark.parametrize("parts", [1, 2, 7, 40])
def test_even_weights_give_even_ranges(parts: int) -> None:
    weights = [Weight(i.to_bytes(8, "big"), (i + 200).to_bytes(8, "big"), 100) for i in range(0, 100_000, 50)]
    ranges = split_ranges(weights, -(-200_000 // parts))
    assert len(ranges) == parts
    starts = [int.from_bytes((each.low or b"").ljust(8, b"\0")[:8], "big") for each in ranges]
    widths = [b - a for a, b in zip(starts, [*starts[1:], 100_150], strict=True)]
    assert max(widths) < 100_150 / parts * 1.5


def test_references_alone_give_even_ranges() -> None:
    """For a scan, which needs no more than that: nothing is read. Overlapping segments, and one without keys."""
    refs = [segment_ref(f"{i}", bytes=100, min_key=b"%06d" % i, max_key=b"%06d" % (i + 200)) for i in range(0, 9000, 9)]
    refs.append(segment_ref("none", bytes=50))
    ranges = split_ranges(map(Weight.of, refs), 100_000 // 8)
    assert len(ranges) == 8
    starts = [int(each.low[:6].ljust(6, b"0")) for each in ranges if each.low is not None]
    widths = [b - a for a, b in zip([0, *starts], [*starts, 9200], strict=True)]
    assert max(widths) < 9200 / 8 * 1.5
