"""Kafka's placement of keys."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.segment.partitioner import murmur2, partition_for_key, partitions_for_keys

# Kafka's own UtilsTest.testMurmur2.
PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), PUBLISHED.items())
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_the_sign_is_cut_off_not_negated() -> None:
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000 == 340


@given(st.lists(st.none() | st.binary(max_size=40), max_size=40), st.integers(1, 10_000), st.integers(0, 5))
def test_many_keys_go_where_each_goes(keys: list[bytes | None], partitions: int, skipped: int) -> None:
    array = pa.array(keys, pa.binary()).slice(skipped)
    expected = [-1 if key is None else partition_for_key(key, partitions) for key in keys[skipped:]]
    assert partitions_for_keys(array, partitions).tolist() == expected
