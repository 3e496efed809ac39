"""What a segment's footer says about its row groups, and the checksum that protects it.

The checksum is the XXH3-64 of the footer, with its own 16 digits read as zeros. It is the last entry of the key-value
metadata. A footer's fields are in the order of their numbers: the statistics, which hold users' keys, come before that
metadata, and what follows it (who wrote the file, how columns are compared) holds none. So the entry is found from the
footer's end, where no key can be mistaken for it.
"""

import re
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from lithify.manifest.bounds import Bounds
from lithify.manifest.model import SegmentRef
from lithify.segment.extent import are_bounds

__all__ = [
    "PLACEHOLDERS",
    "ROW_GROUP_CHECKSUMS",
    "TAIL_BYTES",
    "RowGroup",
    "bounded",
    "decode",
    "footer_in",
    "footer_length",
    "problem",
    "row_groups",
    "seal",
    "verified",
]

TAIL_BYTES = 64 << 10  # of the end of an object, requested for its footer: few footers are longer
ROW_GROUP_CHECKSUMS = "lithify.row_groups.xxh3"
_FOOTER_CHECKSUM = "lithify.footer.xxh3"
_MAGIC = b"PAR1"
_ZEROS = b"0" * 16
_DIGEST = len(_ZEROS)
PLACEHOLDERS = {_FOOTER_CHECKSUM: _ZEROS.decode()}  # must be written to the metadata last
_NAME = _FOOTER_CHECKSUM.encode()
# Thrift's compact protocol: the name, then the header of field 2, a string of 16 bytes.
_ENTRY = _NAME + bytes([0x18, _DIGEST])


class RowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What the footer says about one row group.

    `min_key` and `max_key` are the exact bounds of its keys. Both are None if it has no keyed record, or if its keys
    are too long for statistics (`bounded` False: nothing is known about its keys).
    """

    index: int
    start: int  # byte position in the object
    stored_bytes: int
    raw_bytes: int  # uncompressed
    rows: int
    bounded: bool
    min_key: bytes | None
    max_key: bytes | None
    null_keys: bool
    min_offset: int
    max_offset: int  # inclusive
    checksum: str

    def meets(self, wanted: Bounds) -> bool:
        """False only if no row of it is within; it knows more than a reference does (`may_hold`)."""
        if wanted.from_offset is not None and self.max_offset < wanted.from_offset:
            return False
        if wanted.to_offset is not None and self.min_offset >= wanted.to_offset:
            return False
        if not self.bounded or (wanted.low is None and self.null_keys):
            return True
        if self.min_key is None or self.max_key is None:
            return False
        return (wanted.high is None or self.min_key < wanted.high) and (
            wanted.low is None or self.max_key >= wanted.low
        )


def seal(footer: bytes) -> bytes:
    """`footer` with its checksum in place of the zeros. Requires: PLACEHOLDERS were written last."""
    at = _place(footer)
    if footer[at : at + _DIGEST] != _ZEROS:
        raise ValueError("the footer has no place for its checksum")
    return footer[:at] + xxhash.xxh3_64_hexdigest(footer).encode() + footer[at + _DIGEST :]


def footer_length(tail: bytes | memoryview, size: int) -> int:
    """Of the footer with its length and the magic number, from the end of an object of `size` bytes. Raises
    ValueError."""
    if size < 12 or tail[-4:] != _MAGIC:
        raise ValueError("it does not end as a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > size - 4:
        raise ValueError("its footer is longer than the object")
    return length


def footer_in(tail: bytes | memoryview, length: int) -> bytes:
    """The footer, checked. Raises ValueError."""
    footer = verified(bytes(tail[-length:]))
    if footer is None:
        raise ValueError("its footer fails its checksum")
    return footer


def verified(footer: bytes) -> bytes | None:
    """`footer` as it was written, if it matches its checksum; else None."""
    at = _place(footer)
    claimed = footer[at : at + _DIGEST]
    if claimed == _ZEROS:
        return _misplaced(footer)
    return footer if _digest(_blank(footer, at)) == claimed else None


def _place(footer: bytes) -> int:
    """Where the digits begin; beyond the footer's end if it has no such entry."""
    at = footer.rfind(_ENTRY)
    return len(footer) if at < 0 else at + len(_ENTRY)


def _digest(plain: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(plain).encode()


def _blank(footer: bytes, at: int) -> bytes:
    return footer[:at] + _ZEROS + footer[at + _DIGEST :]


def _misplaced(footer: bytes) -> bytes | None:
    """The first writers searched for the name from the footer's beginning, and put the checksum over the next zeros. If
    a key's bound contains both, the checksum is there, and the entry is still blank. Nothing is lost in such a file:
    the right place is the one whose digits are the checksum of everything else."""
    name = footer.find(_NAME)
    for found in re.finditer(rb"(?=([0-9a-f]{16}))", footer[name:]):
        at = name + found.start()
        plain = _blank(footer, at)
        if plain.find(_ZEROS, name) == at and _digest(plain) == found[1]:
            return plain
    return None


def decode(footer: bytes) -> pq.FileMetaData:
    """Requires: `footer` is verified."""
    return pq.read_metadata(pa.BufferReader(footer))


def row_groups(footer: pq.FileMetaData, base_offset: int) -> tuple[RowGroup, ...]:
    digests = (footer.metadata or {})[ROW_GROUP_CHECKSUMS.encode()].decode()
    return tuple(
        _row_group(footer.row_group(index), index, digests[index * _DIGEST :][:_DIGEST], base_offset)
        for index in range(footer.num_row_groups)
    )


def _row_group(group: Any, index: int, checksum: str, base_offset: int) -> RowGroup:
    columns: list[Any] = [group.column(number) for number in range(group.num_columns)]
    start = columns[0].data_page_offset
    keys: Any = columns[0].statistics
    offsets: Any = columns[2].statistics
    nulls = keys.null_count if keys is not None else group.num_rows
    has_keys: bool = keys is not None and keys.has_min_max
    bounds = (keys.min, keys.max) if keys is not None and has_keys else (None, None)
    return RowGroup(
        index=index,
        start=start,
        stored_bytes=columns[-1].data_page_offset + columns[-1].total_compressed_size - start,
        raw_bytes=sum(column.total_uncompressed_size for column in columns),
        rows=group.num_rows,
        bounded=has_keys or (keys is not None and nulls == group.num_rows),
        min_key=bounds[0],
        max_key=bounds[1],
        null_keys=nulls > 0,
        min_offset=offsets.min + base_offset,
        max_offset=offsets.max + base_offset,
        checksum=checksum,
    )


def problem(groups: tuple[RowGroup, ...], ref: SegmentRef) -> str | None:
    """In what the row groups disagree with the reference; None: they agree. Keys too long for statistics are not
    compared."""
    if sum(group.rows for group in groups) != ref.rows:
        return "rows"
    if (min(g.min_offset for g in groups), max(g.max_offset for g in groups)) != (ref.min_offset, ref.max_offset):
        return "offsets"
    lows = [group.min_key for group in groups if group.min_key is not None]
    highs = [group.max_key for group in groups if group.max_key is not None]
    extremes = (min(lows), max(highs)) if lows and highs else None
    if all(group.bounded for group in groups) and not bounded(extremes, ref):
        return "keys"
    return None


def bounded(extremes: tuple[bytes, bytes] | None, ref: SegmentRef) -> bool:
    """Whether the reference's bounds fit its smallest and its largest key; None: it has no keys."""
    if extremes is None:
        return ref.min_key is None and ref.max_key is None
    return are_bounds(ref.min_key, ref.max_key, *extremes)
