"""Gets of a partition, from a head that is recent enough, whatever is collected meanwhile (docs/rfcs/0025)."""

from collections.abc import Callable, Iterable

from lithify.log.placed import check_keys
from lithify.log.recent import RecentHead, check_staleness_ms
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.segment.points import Points
from lithify.segment.segments import Segments
from lithify.store.cache import Cache
from lithify.store.errors import SnapshotExpired, Unavailable

__all__ = ["PointReads"]

LOOKS_MAX = 3  # for a manifest whose segments are all there


class PointReads:
    """Shared by the copies of one handle, and as thread-safe as what is done with `recent`."""

    def __init__(self, files: PartitionFiles) -> None:
        self.recent = RecentHead(files)
        self._name = files.name
        self._points: Points | None = None

    def points(self, segments: Segments, cache: Cache, manifest: Manifest) -> Points:
        """Those of the latest manifest are kept."""
        known = self._points  # replaced as a whole
        if known is None or known.manifest is not manifest:
            self._points = known = Points(segments, cache, manifest)
        return known

    def get_many(
        self, keys: Iterable[bytes | str], max_staleness_ms: int, opened: Callable[[int], Snapshot]
    ) -> list[Record | None]:
        """As `Partition.get_many`; `opened` opens a head that is at most so old."""
        wanted = check_keys(keys, self._name)
        staleness_ms = check_staleness_ms(max_staleness_ms, self._name)
        for _ in range(LOOKS_MAX):
            snapshot = opened(staleness_ms)
            try:
                return snapshot.get_many(wanted)
            except SnapshotExpired:
                # SUBTLE! A collection may have deleted what a manifest names that is no longer the head. It says
                # nothing about the keys: ask the head. Test: tests/log/test_staleness.py
                staleness_ms = 0
        raise Unavailable(f"{self._name}: collection overtook {LOOKS_MAX} reads; retry")
