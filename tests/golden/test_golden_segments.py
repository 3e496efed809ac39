"""Segments that an earlier lithify wrote are read, row by row, also where a key looks like a part of the format."""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.manifest.bounds import Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.read import SegmentReader
from lithify.segment.verify import verify_quick, verify_rows
from lithify.store.errors import Corrupt
from lithify.store.memory import MemoryStore
from tests.golden.make_segments import FOLDER, NAME, ROWS, ZEROS, appended, compacted
from tests.segment.points import KEYS, manifest, points

MISPLACED = [name for name in ROWS if name.endswith("zeros")]


def stored(name: str) -> tuple[bytes, SegmentRef]:
    described = (FOLDER / f"{name}.json").read_bytes()
    return (FOLDER / f"{name}.parquet").read_bytes(), msgspec.json.decode(described, type=SegmentRef)


def opened(body: bytes, ref: SegmentRef) -> SegmentReader:
    return SegmentReader(in_store(body), "s", ref)


def in_store(body: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put("s", body)
    return store


def rows_of(name: str, base: int) -> list[dict[str, Any]]:
    """By offset."""
    numbered = enumerate(ROWS[name], base)
    return [
        {**row, "offset": offset, "horizon_ms": 99 if base and row["value"] is None else None}
        for offset, row in numbered
    ]


def test_every_golden_segment_is_there() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_it_is_read_as_it_was_written(name: str) -> None:
    body, ref = stored(name)
    found = [row for batch in opened(body, ref).batches() for row in batch.to_pylist()]
    assert sorted(found, key=lambda row: row["offset"]) == rows_of(name, 0 if name.startswith("append") else 10)
    verify_quick(in_store(body), "s", ref)
    verify_rows(in_store(body), "s", ref)


@pytest.mark.parametrize("name", ROWS)
def test_each_of_its_keys_is_found(name: str) -> None:
    body, ref = stored(name)
    for key in {row["key"] for row in ROWS[name]} - {None}:
        found = [row for batch in opened(body, ref).batches(Bounds.of_key(key)) for row in batch.to_pylist()]
        assert [row["value"] for row in found] == [row["value"] for row in ROWS[name] if row["key"] == key]


@pytest.mark.parametrize("name", ROWS)
def test_point_reads_find_each_of_its_keys(name: str) -> None:
    body, ref = stored(name)
    store = MemoryStore()
    store.put(KEYS.segment(ref.id), body)
    known = rows_of(name, 0 if name.startswith("append") else 10)
    keys = {row["key"] for row in known} - {None}
    found = points(store, manifest([ref])).latest([*keys, b"nowhere"], 0)
    latest = {row["key"]: (row["value"], row["offset"]) for row in known if row["key"] is not None}
    assert {key: (row.value, row.offset) for key, row in found.items()} == latest


@pytest.mark.parametrize("name", ROWS)
def test_it_is_still_written_so(name: str) -> None:
    """By the same release of pyarrow byte for byte, but where an earlier writer put the checksum over a key."""
    body, ref = appended(name) if name.startswith("append") else compacted(name)
    before, ref_before = stored(name)
    footer, footer_before = (pq.read_metadata(pa.BufferReader(each)) for each in (body, before))
    if footer.created_by == footer_before.created_by:
        assert (body == before) is (name not in MISPLACED)
    unsized = {"checksum": "", "bytes": 0}
    assert msgspec.structs.replace(ref, **unsized) == msgspec.structs.replace(ref_before, **unsized)
    assert footer.metadata[NAME] != ZEROS


@pytest.mark.parametrize("name", ROWS)
def test_every_flipped_bit_of_its_footer_is_found(name: str) -> None:
    body, ref = stored(name)
    length = int.from_bytes(body[-8:-4], "little") + 8
    for at in range(len(body) - length, len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(Corrupt):
            opened(bytes(damaged), ref)


@pytest.mark.parametrize("name", ROWS)
def test_anybody_reads_it_as_parquet(name: str) -> None:
    body, ref = stored(name)
    table = pq.read_table(pa.BufferReader(body))
    assert sorted(table.column("value").to_pylist(), key=repr) == sorted((r["value"] for r in ROWS[name]), key=repr)
    assert table.num_rows == ref.rows
