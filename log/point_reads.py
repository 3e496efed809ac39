"""Gets of a partition, from a head that is recent enough, whatever is collected meanwhile (docs/rfcs/0025)."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lithify.log.placed import check_keys
from lithify.log.recent import RecentHead, check_staleness_ms
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.segment.points import Points
from lithify.segment.room import Room
from lithify.segment.segments import Segments
from lithify.store.cache import Cache
from lithify.store.errors import SnapshotExpired, Unavailable
from lithify.store.port import Store

__all__ = ["PointReads"]

LOOKS_MAX = 3  # for a manifest none of whose segments was collected meanwhile


class PointReads:
    """Shared by the copies of one handle. Thread-safe, if `recent` is used as `RecentHead` says."""

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
        self,
        keys: Iterable[bytes | str],
        max_staleness_ms: int,
        opened: Callable[[int], Snapshot],
        likely: Callable[[], Snapshot | None],
        store: Store,
        room: Room | None,
    ) -> list[Record | None]:
        """As `Partition.get_many_beside`. `opened` opens a head that is at most so old, `likely` what may turn out to
        be the head (None: nothing is known)."""
        wanted = check_keys(keys, self._name)
        staleness_ms = check_staleness_ms(max_staleness_ms, self._name)
        for _ in range(LOOKS_MAX):
            guess = likely() if store.far and not staleness_ms else None
            snapshot, found = (
                (opened(staleness_ms), None) if guess is None else _both(store, opened, guess, wanted, room)
            )
            if found is not None:
                return found
            try:
                return snapshot.get_many_beside(wanted, room, here_only=room is not None)
            except SnapshotExpired:
                # SUBTLE! A collection may have deleted what a manifest names that is no longer the head. It says
                # nothing about the keys: ask the head. Test: tests/log/test_staleness.py
                staleness_ms = 0
        raise Unavailable(f"{self._name}: collection overtook {LOOKS_MAX} reads; retry")


def _both(
    store: Store, opened: Callable[[int], Snapshot], guess: Snapshot, wanted: list[bytes], room: Room | None
) -> tuple[Snapshot, list[Record | None] | None]:
    """The head, and what `guess` has of the keys if that is the head: asked for side by side (docs/rfcs/0030).

    SUBTLE! 1. Rows are read by manifest 7. 2. Somebody appends, in 8, and is acknowledged. 3. We ask for the head, and
    answer by 7. So the rows count only if the search, which began with this call, ends at the very manifest that they
    were read by; they are the same whenever they are read, for segments never change. An error of reading them counts
    for nothing, either: they are read again, by the head. Tests: tests/log/test_rows_beside_the_head.py

    SUBTLE! Threads of the warehouse's store do this, so no other home is asked here: 1. Gets of what is cold wait for a
    slow home, in all of these threads. 2. Gets of what is hot find none, and search and read one after the other.
    Whatever takes another home is read by the caller, once the head is known. Test: tests/log/test_gets_across_homes.py
    """
    calls: list[Callable[[], Any]] = [partial(opened, 0), partial(guess.get_many_beside, wanted, room, here_only=True)]
    head, found = store.side_by_side(calls)
    if isinstance(head, Exception):
        raise head
    return head, None if isinstance(found, Exception) or not head.shows(guess) else found
