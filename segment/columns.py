"""Which columns of a segment are read, and where their bytes lie. Pure.

Every batch has the schema RUN, whatever is read: a column that is not wanted stands there without its contents.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lithify.segment.schema import RUN

__all__ = [
    "ALL",
    "GAP_BYTES_MAX",
    "MOST",
    "Columns",
    "Window",
    "chunk_pieces",
    "joined",
    "stand_in",
    "without_contents",
]

_LONG = 1 << 16  # rows; no row group has more that this version writes
GAP_BYTES_MAX = 256 << 10  # between wanted columns: below that, one fetch of both is cheaper than two


class Columns(msgspec.Struct, frozen=True):
    """The columns of RUN whose contents are wanted. `tombstones`: whether a record without a value must be recognised
    as one, even if values are not wanted."""

    names: frozenset[str]
    tombstones: bool = True


ALL = Columns(frozenset(RUN.names))
MOST = ALL.names - {"horizon_ms"}  # what nearly all bytes are of


def stand_in(name: str, rows: int) -> pa.Array:
    """The column `name` where nobody looks at it."""
    return _long_stand_in(name).slice(0, rows) if rows <= _LONG else _made(name, rows)


@cache
def _long_stand_in(name: str) -> pa.Array:
    """Made once: all row groups of a reader show a part of it."""
    return _made(name, _LONG)


def _made(name: str, rows: int) -> pa.Array:
    return _values(rows, None) if name == "value" else pa.nulls(rows, RUN.field(name).type)


def without_contents(values: pa.Array) -> pa.Array:
    """Empty values, null where `values` are null: enough to tell tombstones."""
    if values.null_count == 0:
        return _values(len(values), None)
    valid = values.is_valid()
    return _values(len(values), valid.buffers()[1] if valid.offset == 0 else pa.concat_arrays([valid]).buffers()[1])


def _values(rows: int, validity: pa.Buffer | None) -> pa.Array:
    starts = pa.py_buffer(np.zeros(rows + 1, np.int32))
    return pa.Array.from_buffers(pa.binary(), rows, [validity, starts, pa.py_buffer(b"")])


def chunk_pieces(group: Any, wanted: Iterable[str], gap_bytes_max: int | None = None) -> list[tuple[int, int]]:
    """Where the column chunks of `wanted` lie in the object, as (start, end), those with small gaps in one. `group` is
    pyarrow's row group metadata."""
    gap_max = GAP_BYTES_MAX if gap_bytes_max is None else gap_bytes_max
    names, found = frozenset(wanted), list[tuple[int, int]]()
    for number in range(group.num_columns):
        chunk = group.column(number)
        if chunk.path_in_schema.partition(".")[0] not in names:
            continue
        start = chunk.data_page_offset
        end = start + chunk.total_compressed_size
        if found and start - found[-1][1] <= gap_max:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def joined(pieces: list[tuple[int, memoryview]], start: int, end: int) -> memoryview:
    """A part of the object, from pieces in its order. Raises ValueError if they do not hold all of it."""
    found = [piece[max(start - at, 0) : end - at] for at, piece in pieces if at < end and at + len(piece) > start]
    if sum(map(len, found)) != end - start:
        raise ValueError("a read outside what was fetched")
    return found[0] if len(found) == 1 else memoryview(b"".join(found))


class Window:
    """Pieces of an object as a file of its size, since pyarrow asks for absolute positions."""

    closed = False

    def __init__(self, size: int) -> None:
        self._pieces: list[tuple[int, memoryview]] = []
        self._size = size
        self._at = 0

    @contextmanager
    def showing(self, pieces: list[tuple[int, memoryview]]) -> Generator[None]:
        """Within the block, these can be read: each with its position in the object."""
        self._pieces = pieces
        try:
            yield
        finally:
            self._pieces = []

    def seek(self, position: int, whence: int = 0) -> int:
        self._at = position + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int) -> memoryview:
        found = joined(self._pieces, self._at, self._at + length)
        self._at += length
        return found

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True
