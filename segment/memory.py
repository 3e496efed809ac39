"""Keep freed memory, in a process that merges for a while.

A merge frees and requests a few megabytes thousands of times. By default glibc and Arrow's own allocator return such
pieces to the kernel, which clears every page before it hands them out again: measured, a fifth of a merge's CPU time.
So glibc is told to keep them, and Arrow to use glibc.

Rows of megabytes need the opposite: the holes that they leave in kept memory fit no other row, and how large they grow
depends on chance (the same merge of records of 20 MiB took from 468 to 573 MB). Such pieces are returned at once.
"""

import ctypes
import functools
from collections.abc import Callable

import pyarrow as pa

__all__ = ["keep_freed_memory"]

# The names and numbers are those of <malloc.h>; see mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES_MAX = 256 << 20  # what may lie free before it is returned
_PIECE_BYTES_MAX = 32 << 20  # larger pieces come from the kernel and are returned at once (glibc's maximum)
_PIECE_BYTES_LARGE_ROWS = 8 << 20


def keep_freed_memory(*, large_rows: bool) -> None:
    """Set it for the whole process, for the merge that comes. Does nothing without glibc.

    `large_rows`: whether a row may be larger than a usual row group."""
    mallopt = _mallopt()
    if mallopt is None:
        return
    piece_bytes = _PIECE_BYTES_LARGE_ROWS if large_rows else _PIECE_BYTES_MAX
    if mallopt(_M_MMAP_THRESHOLD, piece_bytes) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX):
        pa.set_memory_pool(pa.system_memory_pool())


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    return getattr(ctypes.CDLL(None), "mallopt", None)
