"""What a cache on disk did (lithify.store.disk_cache)."""

from typing import NamedTuple

__all__ = ["DiskCacheCounts"]


class DiskCacheCounts(NamedTuple):
    """Of one process."""

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    missed_bytes: int = 0  # read from stores
    damaged: int = 0  # entries whose checksum was wrong
    failures: int = 0  # of reading or writing the folder
