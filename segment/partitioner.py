"""Which partition a key belongs to: Kafka's default partitioner, so that a topic moved here keeps its keys' places.

Source: Kafka's BuiltInPartitioner and Utils.murmur2 (Austin Appleby's MurmurHash2, seed 0x9747b28c), Apache-2.0.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lithify.segment.arrays import from_longs, nulls
from lithify.store.errors import InvalidRequest

__all__ = ["murmur2", "partition_for_key", "partitions_for_keys", "rows_by_partition"]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_WORD = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(key: bytes) -> int:
    """The signed 32-bit MurmurHash2 of `key`, as Kafka computes it."""
    whole = len(key) & ~3
    h = (_SEED ^ len(key)) & _WORD
    for word in struct.unpack_from(f"<{whole >> 2}I", key):
        k = word * _M & _WORD
        k = (k ^ k >> _R) * _M & _WORD
        h = h * _M & _WORD ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    h = (h ^ h >> 13) * _M & _WORD
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition for a record of `key`, in a topic of so many partitions. Raises InvalidRequest."""
    if type(key) is not bytes or type(partitions) is not int or partitions < 1:
        raise InvalidRequest(
            "give a key as bytes, and a number of partitions from 1; records without a key go anywhere"
        )
    return 0 if partitions == 1 else (murmur2(key) & _POSITIVE) % partitions


def partitions_for_keys(keys: pa.Array, partitions: int) -> npt.NDArray[np.int64]:
    """`partition_for_key` of each key in a binary array; -1 for null. All keys advance one word at a time."""
    array: Any = keys
    if len(array) == 0:
        return np.zeros(0, np.int64)
    _, offsets, content = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    text = np.frombuffer(content or b"", np.uint8)
    text = np.concatenate([text[: ends[-1]], np.zeros(4, np.uint8)]).astype(np.uint32)
    start, length = ends[:-1], np.diff(ends)
    h = np.uint32(_SEED) ^ length.astype(np.uint32)
    rows = np.arange(len(array))
    for done in range(0, int(length.max()) & ~3, 4):
        rows = rows[length[rows] >= done + 4]
        k = _word(text, start[rows] + done, 4) * np.uint32(_M)
        k = (k ^ k >> np.uint32(_R)) * np.uint32(_M)
        h[rows] = h[rows] * np.uint32(_M) ^ k
    for rest in (1, 2, 3):
        rows = np.flatnonzero(length & 3 == rest)
        h[rows] = (h[rows] ^ _word(text, start[rows] + length[rows] - rest, rest)) * np.uint32(_M)
    h = (h ^ h >> np.uint32(13)) * np.uint32(_M)
    h ^= h >> np.uint32(15)
    result = (h & np.uint32(_POSITIVE)).astype(np.int64) % partitions
    if array.null_count:
        result[nulls(array)] = -1
    return result


def rows_by_partition(table: pa.Table, partitions: int, keyless: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each partition that has some, in their order. `table` has its rows in one chunk. `keyless`: the
    partition of those without a key."""
    if not table.num_rows:
        return
    if partitions == 1:
        yield 0, table
        return
    places = partitions_for_keys(table.column("key").chunk(0), partitions)
    places[places < 0] = keyless
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        yield int(places[rows[0]]), table.take(from_longs(rows)).combine_chunks()


def _word(text: npt.NDArray[np.uint32], at: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.uint32]:
    """`count` bytes at each position, little-endian."""
    word = text[at]
    for byte in range(1, count):
        word = word | text[at + byte] << np.uint32(8 * byte)
    return word
