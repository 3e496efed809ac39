"""Parquet's bloom filter of the keys of a row group: split blocks of 256 bits, by the XXH64 of the key. Pure.

Source: https://github.com/apache/parquet-format/blob/master/BloomFilter.md. pyarrow writes such filters, but does not
read them.
"""

import xxhash

from lithify.segment import thrift

__all__ = ["KeyFilter", "key_hash"]

_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_WORD = 0xFFFFFFFF
_BLOCK_BYTES = 32


def key_hash(key: bytes) -> int:
    return xxhash.xxh64_intdigest(key)


class KeyFilter:
    """Says which keys a row group cannot have. Requires: `content`, the filter with its header, is verified. Raises
    ValueError if it is none, or of another kind."""

    def __init__(self, content: bytes) -> None:
        header, start = thrift.read(content)
        kinds = [header.get(field) for field in (2, 3, 4)]  # split blocks; XXH64; not compressed
        if any(not isinstance(kind, dict) or list(kind) != [1] for kind in kinds):
            raise ValueError("a bloom filter of another kind")
        self._bits = content[start:]
        self._blocks = len(self._bits) // _BLOCK_BYTES
        if header.get(1) != len(self._bits) or self._blocks * _BLOCK_BYTES != len(self._bits) or not self._blocks:
            raise ValueError("a bloom filter of another size")

    @property
    def bytes(self) -> int:
        return len(self._bits)

    def may_have(self, hashed: int) -> bool:
        """False only if no key has this `key_hash`."""
        start = ((hashed >> 32) * self._blocks >> 32) * _BLOCK_BYTES
        block = int.from_bytes(self._bits[start : start + _BLOCK_BYTES], "little")
        low = hashed & _WORD
        for salt in _SALTS:
            if not block >> ((low * salt & _WORD) >> 27) & 1:
                return False
            block >>= 32
        return True
