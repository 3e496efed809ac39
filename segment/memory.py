"""Keep freed memory, in a process that merges for a while.

A merge frees and requests a few megabytes thousands of times. By default glibc and Arrow's own allocator return such
pieces to the kernel, which clears every page before it hands them out again: measured, a fifth of a merge's CPU time.
So glibc is told to keep them, and Arrow to use glibc.
"""

import ctypes
import functools

import pyarrow as pa

__all__ = ["keep_freed_memory"]

# The names and numbers are those of <malloc.h>; see mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES_MAX = 256 << 20  # what may lie free before it is returned
_PIECE_BYTES_MAX = 32 << 20  # larger pieces come from the kernel and are returned at once (glibc's maximum)


@functools.cache
def keep_freed_memory() -> None:
    """Set it for the whole process; it cannot be undone. Does nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    if mallopt(_M_MMAP_THRESHOLD, _PIECE_BYTES_MAX) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX):
        pa.set_memory_pool(pa.system_memory_pool())
