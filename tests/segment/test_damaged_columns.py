"""Damage under column pruning: whatever byte of a file is changed, a reader of some columns gets what was written, or
Corrupt (RFC 0021: Parquet's page checksums, and what the footer says of each page)."""

import random
from unittest.mock import patch

import pytest

from lithify.log.intake import prepare
from lithify.log.record import Record
from lithify.manifest.config import parse
from lithify.manifest.model import SegmentRef
from lithify.segment.columns import Columns
from lithify.segment.read import SegmentReader
from lithify.segment.write import encode_append
from lithify.store.errors import Corrupt
from lithify.store.memory import MemoryStore

WANTED = [Columns(frozenset(names), tombstones=True) for names in (["key"], ["offset"], ["timestamp_ms"], ["headers"])]
WANTED += [Columns(frozenset(["value"])), Columns(frozenset(["key", "offset"]), tombstones=False)]


def segment() -> tuple[bytes, SegmentRef]:
    dice = random.Random(7)
    records = [
        Record(
            b"%04d" % dice.randrange(60),
            None if number % 7 == 0 else dice.randbytes(dice.randrange(30)),
            number * number,
            (("h", dice.randbytes(3)), ("i", None)) if number % 3 else (),
        )
        for number in range(90)
    ]
    return encode_append(prepare(records, parse({}), 0, "t"), "key", "s")


def rows(body: bytes, ref: SegmentRef, columns: Columns) -> list[object]:
    store = MemoryStore()
    store.put("s", body)
    with patch("lithify.segment.read.GAP_BYTES_MAX", -1), patch("lithify.segment.columns.GAP_BYTES_MAX", 0):
        batches = list(SegmentReader(store, "s", ref, columns=columns).batches())
    names = sorted(columns.names)
    found: list[object] = [row for batch in batches for row in batch.select(names).to_pylist()]
    return [*found, [value is None for batch in batches for value in batch.column("value").to_pylist()]]


@pytest.mark.parametrize("columns", WANTED, ids=lambda columns: "-".join(sorted(columns.names)))
@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_every_changed_byte_is_noticed_or_changes_nothing(columns: Columns, step: int) -> None:
    body, ref = segment()
    expected, noticed = rows(body, ref, columns), 0
    for at in range(0, len(body), step):
        damaged = bytearray(body)
        damaged[at] ^= 1 << at % 8
        try:
            assert rows(bytes(damaged), ref, columns) == expected, at
        except Corrupt:
            noticed += 1
    assert noticed * step > 300


def test_a_whole_row_group_is_checked_where_little_would_be_saved() -> None:
    body, ref = segment()
    damaged = bytearray(body)
    damaged[200] ^= 1  # in the keys
    store = MemoryStore()
    store.put("s", bytes(damaged))
    with pytest.raises(Corrupt, match="row group 0 fails its checksum"):
        list(SegmentReader(store, "s", ref, columns=Columns(frozenset(["offset"]))).batches())
