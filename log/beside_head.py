"""Reads that begin beside the search for the head (docs/rfcs/0030)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lithify.log.snapshot import Snapshot
from lithify.log.whole import Batches
from lithify.store.errors import SnapshotExpired
from lithify.store.port import Store

__all__ = ["BesideHead"]


class BesideHead:
    """Shared by the copies of one handle. Thread-safe."""

    def __init__(self) -> None:
        self._steady = True  # the last search found nothing new

    def batches(
        self,
        store: Store,
        opened: Callable[[], Snapshot],
        likely: Callable[[], Snapshot | None],
        read: Callable[[Snapshot], Batches],
    ) -> Batches:
        """What `read` reads of the head. `opened` opens the head, `likely` what may turn out to be the head (None:
        nothing is known).

        Of a far store the first batch of what is likely is read beside the search: its footers and rows, as far ahead
        as a reader goes. It counts on the terms of `_both` in point_reads.py. If the search finds another manifest, all
        of that was for nothing: so it is not done again until a search has found the manifest that was known.
        Tests: tests/log/test_rows_beside_the_head.py
        """
        guess = likely() if store.far else None
        if guess is None:
            return read(opened())
        if not self._steady:
            head = opened()
            self._steady = head.shows(guess)
            return read(head)
        calls: list[Callable[[], Any]] = [opened, partial(_begun, read, guess)]
        head, begun = store.side_by_side(calls)
        if isinstance(head, Exception):
            raise head
        self._steady = head.shows(guess)
        if self._steady and isinstance(begun, Batches):
            return begun
        # The head may have been collected since it was found: then another one took its place.
        return read(opened() if isinstance(begun, SnapshotExpired) else head)


def _begun(read: Callable[[Snapshot], Batches], snapshot: Snapshot) -> Batches:
    batches = read(snapshot)
    batches.rows.begin()
    return batches
