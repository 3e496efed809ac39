"""How many of the partitions that are read in turn may hold a sort open (docs/rfcs/0009)."""

__all__ = ["SORTS_MAX", "SortPlaces"]

# Sorts held open at once, of some 200 MiB each. Several, so that partitions catch up side by side, and one place is
# left for those that have caught up.
SORTS_MAX = 4


class SortPlaces:
    """Shared by readers that one caller asks in turn, always in the same order. One thread at a time.

    A place is kept until its reader comes to the end of its snapshot, so nothing is sorted twice. Whoever reads its
    first snapshot, which may take hours, leaves one place to those that were at their ends and have little to sort.

    SUBTLE! Who came to its end takes no place again before the others were asked. So a place goes round, to the next
    one that waits for it, and passes nobody over, however much is written to whom. No list of those who wait is kept:
    one that fails before it comes to its turn would keep the place from the others.
    Test: tests/log/test_sort_places.py
    """

    def __init__(self) -> None:
        self._held: dict[object, bool] = {}  # by reader: whether it reads its first snapshot
        self.refused = 0  # so often somebody was told to wait: who found nothing meanwhile asks all of them again

    def take(self, reader: object, *, first: bool, again: bool) -> bool:
        """Whether `reader` may sort now. `again`: it has come to the end of a snapshot since it was asked."""
        if reader in self._held:
            return True
        is_full = len(self._held) == SORTS_MAX or (first and sum(self._held.values()) == SORTS_MAX - 1)
        if again or is_full:
            self.refused += 1
            return False
        self._held[reader] = first
        return True

    def give_back(self, reader: object) -> None:
        """Harmless where it has none."""
        self._held.pop(reader, None)
