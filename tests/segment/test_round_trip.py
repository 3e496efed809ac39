"""What is written comes back, and the reference tells the truth about it."""

import io
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.log.tables import normalise
from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.model import KEY_BOUND_BYTES, SegmentRef
from lithify.segment.extent import key_bounds, row_bytes
from lithify.segment.read import SegmentReader
from lithify.segment.schema import L0, RUN
from lithify.segment.write import SegmentWriter, encode_append
from lithify.store.memory import MemoryStore

KEYS = st.one_of(
    st.none(),
    st.sampled_from(
        [b"", b"\0", b"\0\0", b"\xff", b"\xff" * 32, b"\xff" * 33, b"p" * 32, b"p" * 32 + b"\0", b"p" * 40]
    ),
    st.binary(max_size=40),
)
HEADERS = st.one_of(
    st.none(),
    st.lists(
        st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.one_of(st.none(), st.binary(max_size=3))}),
        max_size=3,
    ),
)
ROW = st.fixed_dictionaries(
    {
        "key": KEYS,
        "value": st.one_of(st.none(), st.binary(max_size=50)),
        "timestamp_ms": st.integers(-(1 << 62), 1 << 62),
        "headers": HEADERS,
    }
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {name: L0.field(name).type for name in ("key", "value", "timestamp_ms", "headers")}
    return normalise(pa.table({name: pa.array([row[name] for row in rows], kinds[name]) for name in kinds}), 0)


def in_key_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["key"] is not None, row["key"] or b"", row["offset"]))


def read_all(store: MemoryStore, ref: SegmentRef, wanted: Bounds = EVERYTHING) -> list[dict[str, Any]]:
    batches = list(SegmentReader(store, "s", ref).batches(wanted))
    assert all(batch.schema == RUN for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=6 * settings.default.max_examples // 5, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=30), order=st.sampled_from(["key", "offset"]), base=st.integers(0, 1 << 60)
)
def test_an_append_comes_back_with_absolute_offsets(rows: list[dict[str, Any]], order: Any, base: int) -> None:
    body, ref = encode_append(table(rows), order, "1-a")
    store = MemoryStore()
    store.put("s", body)
    ref = msgspec.structs.replace(ref, base_offset=base, min_offset=base, max_offset=base + len(rows) - 1)
    expected = [{**row, "offset": base + i, "horizon_ms": None} for i, row in enumerate(rows)]
    assert read_all(store, ref) == (in_key_order(expected) if order == "key" else expected)
    assert (ref.bytes, ref.checksum) == (len(body), xxhash.xxh3_64_hexdigest(body))
    assert ref.rows == len(rows)
    assert ref.tombstones == sum(row["value"] is None for row in rows)
    assert ref.min_timestamp_ms == min(row["timestamp_ms"] for row in rows)
    assert ref.max_timestamp_ms == max(row["timestamp_ms"] for row in rows)
    keys = [row["key"] for row in rows if row["key"] is not None]
    assert (ref.min_key, ref.max_key) == (key_bounds(min(keys), max(keys)) if keys else (None, None))


@settings(max_examples=6 * settings.default.max_examples // 5, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=30),
    order=st.sampled_from(["key", "offset"]),
    row_group_rows=st.integers(1, 7),
    low=st.none() | KEYS,
    high=st.none() | KEYS,
    from_offset=st.one_of(st.none(), st.integers(0, 35)),
    to_offset=st.one_of(st.none(), st.integers(0, 35)),
)
def test_ranges_and_offsets_select_exactly(
    rows: list[dict[str, Any]],
    order: Any,
    row_group_rows: int,
    low: Any,
    high: Any,
    from_offset: int | None,
    to_offset: int | None,
) -> None:
    rows = [{**row, "offset": i, "horizon_ms": i if row["value"] is None else None} for i, row in enumerate(rows)]
    if order == "key":
        rows = in_key_order(rows)
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", order, row_group_rows=row_group_rows)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=RUN))
    ref = writer.close()
    expected = [
        row
        for row in rows
        if (low is None or (row["key"] is not None and row["key"] >= low))
        and (high is None or row["key"] is None or row["key"] < high)
        and (from_offset is None or row["offset"] >= from_offset)
        and (to_offset is None or row["offset"] < to_offset)
    ]
    assert read_all(store, ref, Bounds(low, high, from_offset, to_offset)) == expected
    horizons = [row["horizon_ms"] for row in rows if row["horizon_ms"] is not None]
    assert (ref.min_horizon_ms, ref.max_horizon_ms) == (min(horizons, default=None), max(horizons, default=None))
    assert (ref.min_offset, ref.max_offset) == (0, len(rows) - 1)


@pytest.mark.parametrize(
    ("wanted", "offsets", "groups"),
    [
        (Bounds(from_offset=7, to_offset=13), range(7, 13), (1, 2)),
        (Bounds(from_offset=5, to_offset=10), range(5, 10), (1,)),
        (Bounds(from_offset=28), range(28, 30), (5,)),
        (Bounds(to_offset=1), range(1), (0,)),
        (Bounds(b"k07", b"k18", 9, 12), range(9, 12), (1, 2)),
        (Bounds(b"k07", b"k09", 20), range(0), ()),
        (Bounds(from_offset=30), range(0), ()),
        (Bounds(to_offset=0), range(0), ()),
    ],
)
@pytest.mark.parametrize("order", ["key", "offset"])
def test_only_row_groups_that_may_hold_some_are_read(
    order: Any, wanted: Bounds, offsets: range, groups: tuple[int, ...]
) -> None:
    rows = [
        {"key": b"k%02d" % i, "value": b"v", "offset": i, "timestamp_ms": 0, "headers": None, "horizon_ms": None}
        for i in range(30)
    ]
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", order, row_group_rows=5)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=RUN))
    reader = SegmentReader(store, "s", writer.close())
    opened = reader.bytes_read
    found = [row["offset"] for batch in reader.batches(wanted) for row in batch.to_pylist()]
    assert found == list(offsets)
    assert reader.bytes_read - opened == sum(reader.row_groups[index].stored_bytes for index in groups)


@given(st.lists(st.one_of(st.binary(max_size=70), KEYS.filter(lambda key: key is not None)), min_size=1))
def test_key_bounds_bound(keys: list[Any]) -> None:
    low, high = key_bounds(min(keys), max(keys))
    assert all(low <= key and (high is None or key <= high) for key in keys)
    assert len(low) <= KEY_BOUND_BYTES
    assert high is None or len(high) <= KEY_BOUND_BYTES
    if len(max(keys)) <= KEY_BOUND_BYTES:
        assert high == max(keys)
    if high is None:
        assert max(keys).startswith(b"\xff" * KEY_BOUND_BYTES)


def test_keys_too_long_for_statistics_are_still_found() -> None:
    keys = [b"a" * 10_000, b"b" * 10_000, b"c" * 10_000]
    body, ref = encode_append(normalise(pa.table({"key": keys, "value": keys}), 1), "key")
    store = MemoryStore()
    store.put("s", body)
    found = read_all(store, ref, Bounds(b"b", b"c"))
    assert [row["key"] for row in found] == [b"b" * 10_000]


def test_row_groups_are_bounded_in_rows_and_bytes() -> None:
    values = [b"x" * 1_000_000] * 20 + [b""] * 150_000
    rows = normalise(pa.table({"key": [b"%08d" % i for i in range(len(values))], "value": values}), 1)
    body, ref = encode_append(rows, "key")
    groups = pq.read_metadata(io.BytesIO(body))
    sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
    assert max(sizes) == 65_536
    assert sizes[:2] == [4, 4]  # 4 MiB hold four rows of 1 MB
    assert sum(sizes) == ref.rows == len(values)


def test_a_row_larger_than_a_row_group_is_written() -> None:
    values = [b"x" * 3_000, b"y" * 3_000]
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", "key", row_group_bytes=1_000)
    rows = [
        {"key": b"%d" % i, "value": value, "offset": i, "timestamp_ms": 0, "headers": None, "horizon_ms": None}
        for i, value in enumerate(values)
    ]
    writer.write(pa.RecordBatch.from_pylist(rows, schema=RUN))
    ref = writer.close()
    assert read_all(store, ref) == rows
    assert len(SegmentReader(store, "s", ref).row_groups) == 2


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=20), st.data())
def test_row_bytes_of_a_slice_are_the_slice_of_row_bytes(rows: list[dict[str, Any]], data: Any) -> None:
    batch = table(rows).combine_chunks().to_batches()[0]
    whole = row_bytes(batch)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert row_bytes(batch.slice(start, stop - start)).tolist() == whole[start:stop].tolist()
    for row, size in zip(rows, whole, strict=True):
        headers = sum(8 + len(entry["key"].encode()) + len(entry["value"] or b"") for entry in row["headers"] or [])
        assert size == 24 + len(row["key"] or b"") + len(row["value"] or b"") + headers


def test_the_file_has_what_other_engines_prune_by() -> None:
    body, _ = encode_append(normalise(pa.table({"key": ["a", "b"], "value": ["c", "d"]}), 1), "key")
    group = pq.read_metadata(io.BytesIO(body)).row_group(0)
    key = group.column(0)
    assert key.compression == "ZSTD"
    assert key.has_column_index
    assert key.has_offset_index
    assert (key.statistics.min, key.statistics.max) == (b"a", b"b")
    assert [(column.column_index, column.nulls_first) for column in group.sorting_columns] == [(0, True), (2, False)]


def test_the_key_has_a_bloom_filter() -> None:
    body, _ = encode_append(normalise(pa.table({"key": ["a", "b"], "value": ["c", "d"]}), 1), "key")
    assert pq.read_metadata(io.BytesIO(body)).row_group(0).column(0).bloom_filter_length > 0


def test_an_aborted_segment_never_becomes_visible() -> None:
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", "key")
    row = {"key": b"k", "value": b"v", "offset": 1, "timestamp_ms": 0, "headers": None, "horizon_ms": None}
    writer.write(pa.RecordBatch.from_pylist([row], schema=RUN))
    writer.abort()
    assert store.head("s") is None
