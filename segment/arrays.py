"""Arrow columns as numpy arrays and back, without copies where possible.

pyarrow's own conversions import pandas at their first call: more than a second and 60 MB in every worker.
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ByteStrings", "Flags", "Longs", "flags", "from_flags", "from_longs", "longs", "nulls", "starts"]

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


def longs(column: Any) -> Longs:
    """The values of a 64-bit integer column; those under nulls are arbitrary."""
    whole = np.frombuffer(column.buffers()[1] or b"", np.int64)
    return whole[column.offset : column.offset + len(column)]


def from_longs(values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def flags(column: Any) -> Flags:
    """The values of a boolean column; those under nulls are arbitrary."""
    return _bits(column.buffers()[1], column)


def from_flags(values: Flags) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def nulls(column: Any) -> Flags:
    """Where the column is null."""
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    return ~_bits(column.buffers()[0], column)


def starts(column: Any) -> Longs:
    """For a column of variable-size values: where each begins in the column's content, and where the last ends."""
    if len(column) == 0:
        return np.zeros(1, np.int64)
    whole = np.frombuffer(column.buffers()[1], np.int32)
    return whole[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _bits(buffer: Any, column: Any) -> Flags:
    content = np.frombuffer(buffer or b"", np.uint8)
    first = column.offset // 8
    bits = np.unpackbits(content[first:], bitorder="little", count=column.offset - 8 * first + len(column))
    return bits[column.offset - 8 * first :].view(np.bool_)


class ByteStrings(Sequence[bytes]):
    """A column of bytes as a sequence, for searching: each row costs a tenth of what Arrow's own scalars cost.

    A null reads as arbitrary bytes.
    """

    def __init__(self, column: Any) -> None:
        self._first: int = column.offset
        self._rows = len(column)
        _, starts, content = column.buffers()
        self._starts = memoryview(starts).cast("B").cast("i") if len(column) else memoryview(b"")
        self._content = memoryview(content or b"")

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...
    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(self._rows))]
        at = self._first + (row if row >= 0 else row + self._rows)
        return bytes(self._content[self._starts[at] : self._starts[at + 1]])
