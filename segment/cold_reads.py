"""Which segments of cold homes an answer has taken (docs/rfcs/0031)."""

from lithify.store.own_lock import OwnLock

__all__ = ["ColdReads"]


class ColdReads:
    """The segments outside the warehouse of which an answer has read something, each counted once, whether its bytes
    came from its home or from the cache on disk. What is still decoded in memory is not read. Thread-safe.

    Those of a whole handle are the sum over its answers: it is given as `of`.
    """

    def __init__(self, of: "ColdReads | None" = None) -> None:
        self._of = of
        self._seen: set[str] = set()  # as many as the manifest has
        self._count = 0
        self._lock = OwnLock()

    @property
    def count(self) -> int:
        return self._count

    def add(self, segment: str) -> None:
        """By its id."""
        with self._lock.mine():
            if segment in self._seen:
                return
            self._seen.add(segment)
            self._count += 1
        if self._of is not None:
            self._of.add_one()

    def add_one(self) -> None:
        """Of one of its answers."""
        with self._lock.mine():
            self._count += 1
