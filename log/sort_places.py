"""How many of the partitions read in turn may keep a sort open (docs/rfcs/0009)."""

__all__ = ["LITTLE_SORTS_MAX", "SORTS_MAX", "SortPlaces"]

# Sorts open at once, of some 200 MiB each. Several, so that partitions catch up in parallel while one place is left for
# those that have caught up.
SORTS_MAX = 4
LITTLE_SORTS_MAX = 64  # open at once beside those, of 1 MiB of records each


class SortPlaces:
    """Shared by readers that one caller asks, always in the same order. `take`: one thread at a time. `take_little` and
    `give_back`: any thread; a few more than LITTLE_SORTS_MAX may get in.

    A reader keeps its place until the end of its snapshot, so nothing is sorted twice. Readers of their first snapshot,
    which may take hours, leave one place to those that have caught up and have little to sort.

    SUBTLE! After the end of a snapshot, a reader takes no place again until the others were asked. So a place goes
    round to the next one that waits, and skips no reader, however much is written to any partition. There is no list of
    waiting readers: if one failed before its turn, it would keep the place from the others.
    Test: tests/log/test_sort_places.py
    """

    def __init__(self) -> None:
        self._held: dict[object, bool] = {}  # by reader: whether it is reading its first snapshot
        self._little: set[object] = set()
        # How often a reader was told to wait. A caller that found nothing meanwhile asks all of them again.
        self.refused = 0

    def take(self, reader: object, *, first: bool, again: bool) -> bool:
        """Whether `reader` may sort now. `again`: it has come to the end of a snapshot since it was last asked."""
        if reader in self._held:
            return True
        is_full = len(self._held) == SORTS_MAX or (first and sum(self._held.values()) == SORTS_MAX - 1)
        if again or is_full:
            self.refused += 1
            return False
        self._held[reader] = first
        return True

    def take_little(self, reader: object) -> bool:
        """Whether `reader` may sort a little now."""
        if reader not in self._little and len(self._little) >= LITTLE_SORTS_MAX:
            return False
        self._little.add(reader)
        return True

    def give_back(self, reader: object) -> None:
        """Harmless if `reader` has no place."""
        self._held.pop(reader, None)
        self._little.discard(reader)
