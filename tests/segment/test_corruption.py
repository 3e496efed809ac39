"""Damage anywhere in a segment: `verify` always finds it, and a reader never answers with wrong rows."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lithify.log.tables import normalise
from lithify.manifest.model import SegmentRef
from lithify.segment.read import SegmentReader
from lithify.segment.schema import RUN
from lithify.segment.verify import verify, verify_quick, verify_rows
from lithify.segment.write import SegmentWriter, encode_append
from lithify.store.errors import Corrupt, NotFound
from lithify.store.memory import MemoryStore


def rows() -> list[dict[str, Any]]:
    headers = [{"key": "h", "value": b"x"}]
    return [
        {
            "key": b"k%03d" % (i // 2),
            "value": None if i % 5 == 0 else b"value %d" % i,
            "offset": 10 + i,
            "timestamp_ms": 1000 + i,
            "headers": headers if i % 3 else None,
            "horizon_ms": 99 if i % 5 == 0 else None,
        }
        for i in range(12)
    ]


def written() -> tuple[bytes, SegmentRef]:
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", "key", row_group_rows=6)
    writer.write(pa.RecordBatch.from_pylist(rows(), schema=RUN))
    ref = writer.close()
    return store.read("s", 0, ref.bytes), ref


def with_body(body: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put("s", body)
    return store


def read_all(body: bytes, ref: SegmentRef) -> list[dict[str, Any]]:
    reader = SegmentReader(with_body(body), "s", ref)
    return [row for batch in reader.batches() for row in batch.to_pylist()]


def test_the_undamaged_segment_passes_every_check() -> None:
    body, ref = written()
    verify_rows(with_body(body), "s", ref)
    assert read_all(body, ref) == rows()
    assert len(SegmentReader(with_body(body), "s", ref).row_groups) == 2


@pytest.mark.slow
def test_every_flipped_bit_is_found_and_none_gives_wrong_rows() -> None:
    body, ref = written()
    undetected = 0
    for at in range(len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(Corrupt):
            verify(with_body(bytes(damaged)), "s", ref)
        try:
            found = read_all(bytes(damaged), ref)
        except Corrupt as error:
            assert "segment s" in str(error)  # noqa: PT017 - most flips raise; the rest must be harmless
        else:
            assert found == rows()
            undetected += 1
    # Only the leading magic, the bloom filters and the page indexes, which no reader here uses, may go unnoticed.
    reader = SegmentReader(with_body(body), "s", ref)
    used = sum(group.stored_bytes for group in reader.row_groups) + int.from_bytes(body[-8:-4], "little") + 8
    assert undetected == len(body) - used


@pytest.mark.parametrize("keep", [0, 4, 11, 100, -9, -1])
def test_a_truncated_object_is_corrupt(keep: int) -> None:
    body, ref = written()
    store = with_body(body[:keep])
    for check in (verify_quick, verify, verify_rows, lambda *given: list(SegmentReader(*given).batches())):
        with pytest.raises(Corrupt):
            check(store, "s", ref)


def test_bytes_appended_are_found() -> None:
    body, ref = written()
    for check in (verify_quick, verify):
        with pytest.raises(Corrupt, match="manifest says"):
            check(with_body(body + b"\0"), "s", ref)


def test_another_segment_under_the_name_is_found() -> None:
    body, ref = written()
    other, other_ref = encode_append(normalise(pa.table({"key": ["a"], "value": ["b"]}), 1), "key")
    with pytest.raises(Corrupt, match="row count"):
        SegmentReader(with_body(other), "s", msgspec.structs.replace(ref, bytes=other_ref.bytes))
    swapped = with_body(body[:-1] + b"2")
    with pytest.raises(Corrupt, match="Parquet"):
        SegmentReader(swapped, "s", ref)


def test_a_missing_object_is_not_found() -> None:
    _, ref = written()
    store = MemoryStore()
    for check in (verify_quick, verify, verify_rows, SegmentReader):
        with pytest.raises(NotFound):
            check(store, "s", ref)


@pytest.mark.parametrize(
    ("change", "naming"),
    [
        ({"min_key": b"k001"}, "keys"),
        ({"max_key": b"k004"}, "keys"),
        ({"min_offset": 11}, "offsets"),
        ({"max_timestamp_ms": 1}, "timestamps"),
        ({"tombstones": 0}, "tombstones"),
        ({"min_horizon_ms": 98}, "horizons"),
        ({"max_horizon_ms": 100}, "horizons"),
    ],
)
def test_a_reference_that_lies_is_found(change: dict[str, Any], naming: str) -> None:
    body, ref = written()
    with pytest.raises(Corrupt, match=naming):
        verify_rows(with_body(body), "s", msgspec.structs.replace(ref, **change))


def test_rows_out_of_order_are_found() -> None:
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", "key")
    writer.write(pa.RecordBatch.from_pylist([rows()[0], *rows()[10:0:-1], rows()[11]], schema=RUN))
    ref = writer.close()
    with pytest.raises(Corrupt, match="key order"):
        verify_rows(store, "s", ref)


def test_a_segment_that_disagrees_with_its_reference_is_not_written() -> None:
    """Its keys' statistics do: Parquet takes the extremes, the writer takes the first and the last of rows in order."""
    store = MemoryStore()
    writer = SegmentWriter(store.output("s"), "1-a", "key")
    writer.write(pa.RecordBatch.from_pylist(rows()[::-1], schema=RUN))
    with pytest.raises(Corrupt, match="1-a was not written: its footer disagrees on keys"):
        writer.close()
    writer.abort()
    assert store.head("s") is None


def test_an_object_of_the_right_size_that_does_not_open_is_found_by_the_quick_look() -> None:
    body, ref = written()
    damaged = body[:-20] + bytes([body[-20] ^ 1]) + body[-19:]
    with pytest.raises(Corrupt, match="footer"):
        verify_quick(with_body(damaged), "s", ref)


@pytest.mark.parametrize(("change", "naming"), [({"min_key": b"k001"}, "keys"), ({"max_offset": 22}, "offsets")])
def test_a_footer_that_disagrees_with_the_reference_is_found_by_the_quick_look(
    change: dict[str, Any], naming: str
) -> None:
    body, ref = written()
    with pytest.raises(Corrupt, match=f"footer disagrees with the manifest on {naming}"):
        verify_quick(with_body(body), "s", msgspec.structs.replace(ref, **change))


def test_errors_do_not_repeat_contents() -> None:
    body, ref = written()
    at = body.index(b"value") if b"value 1" in body else 40
    damaged = body[:at] + b"\xff" + body[at + 1 :]
    with pytest.raises(Corrupt) as raised:
        read_all(damaged, ref)
    assert "k00" not in str(raised.value)
    assert raised.value.__cause__ is None
