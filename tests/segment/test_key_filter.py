"""Bloom filters as Parquet defines them: what pyarrow and DuckDB write is understood."""

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.log.tables import normalise
from lithify.segment.key_filter import KeyFilter, key_hash
from lithify.segment.write import encode_append

DICE = random.Random(5)
THERE = [DICE.randbytes(DICE.randrange(1, 60)) for _ in range(3_000)] + [b""]
ELSEWHERE = [b"elsewhere %d" % at for at in range(3_000)]


def filter_of(body: bytes) -> KeyFilter:
    column: Any = pq.read_metadata(io.BytesIO(body)).row_group(0).column(0)
    return KeyFilter(body[column.bloom_filter_offset :][: column.bloom_filter_length])


def check(found: KeyFilter) -> None:
    assert all(found.may_have(key_hash(key)) for key in THERE)
    assert sum(found.may_have(key_hash(key)) for key in ELSEWHERE) < len(ELSEWHERE) // 10


def test_what_pyarrow_writes() -> None:
    body, _ = encode_append(normalise(pa.table({"key": pa.array(THERE, pa.binary()), "value": THERE}), 1), "key")
    check(filter_of(body))


def test_what_duckdb_writes(tmp_path: Path) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    target = tmp_path / "keys.parquet"
    keys = pa.table({"key": pa.array(THERE * 20, pa.binary())})
    with duckdb.connect() as connection:
        connection.register("keys", keys)
        connection.sql(f"COPY keys TO '{target}' (FORMAT parquet)")
    body = target.read_bytes()
    column: Any = pq.read_metadata(io.BytesIO(body)).row_group(0).column(0)
    assert column.bloom_filter_offset
    length = column.bloom_filter_length or len(body)
    check(KeyFilter(body[column.bloom_filter_offset :][:length]))


def test_a_hash_of_the_specification() -> None:
    assert key_hash(b"") == 0xEF46DB3751D8E999


@pytest.mark.parametrize("content", [b"", b"\0", b"\x15\x40\x1c\x1c\0\0\x1c\x1c\0\0\x1c\x1c\0\0\0", bytes(40)])
def test_what_is_no_filter_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"bloom filter|struct"):
        KeyFilter(content)
