"""A bounded cache of things that never change, such as parts of segments by their ids (docs/rfcs/0025)."""

import os
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from lithify.store.own_lock import OwnLock

__all__ = ["CACHE_BYTES", "Cache", "CacheCounts"]

CACHE_BYTES = 128 << 20  # of one warehouse in one process
_ENTRY_BYTES = 400  # of the cache's own, for each thing


class CacheCounts(NamedTuple):
    bytes: int  # as their makers estimate them
    entries: int
    hits: int
    misses: int


class Cache:
    """What was used last stays. Thread-safe. Nothing survives a fork or a pickle: another process begins with an empty
    one of the same size."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self.bytes_max = bytes_max
        self._lock = OwnLock()
        self._begin()

    def _begin(self) -> None:
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[type["Cache"], tuple[int]]:
        return Cache, (self.bytes_max,)

    def get(self, name: Hashable) -> Any:
        """The thing, or None. Requires: whoever puts something under a name always puts the same."""
        with self._lock.mine():
            self._own()
            entry = self._found.get(name)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._found.move_to_end(name)
            return entry[0]

    def put(self, name: Hashable, thing: Any, size: int) -> None:
        """Keep `thing`, of about `size` bytes, unless it alone is more than an eighth of the cache."""
        size += _ENTRY_BYTES
        if size > self.bytes_max // 8:
            return
        with self._lock.mine():
            self._own()
            before = self._found.pop(name, None)
            self._bytes += size - (0 if before is None else before[1])
            self._found[name] = thing, size
            while self._bytes > self.bytes_max:
                self._bytes -= self._found.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock.mine():
            self._begin()

    def counts(self) -> CacheCounts:
        with self._lock.mine():
            self._own()
            return CacheCounts(self._bytes, len(self._found), self._hits, self._misses)

    def _own(self) -> None:
        """SUBTLE! Begin anew after a fork: the parent may have forked while another of its threads was half way through
        `put`, so that what is here is no longer what it counts. Test: tests/store/test_cache.py"""
        if self._pid != os.getpid():
            self._begin()
