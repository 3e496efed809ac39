"""A head that is known to be recent enough, for readers who may see a partition as it was a moment ago
(docs/rfcs/0025). A protocol coroutine."""

from lithify.manifest.ages import young
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import InvalidRequest
from lithify.store.own_lock import OwnLock
from lithify.store.port import Now

__all__ = ["STALENESS_MS_MAX", "RecentHead", "check_staleness_ms"]

STALENESS_MS_MAX = 3_600_000


def check_staleness_ms(given: object, where: str) -> int:
    if type(given) is int and 0 <= given <= STALENESS_MS_MAX:
        return given
    raise InvalidRequest(
        f"{where}: max_staleness_ms is {given!r}: it must be a whole number from 0 to {STALENESS_MS_MAX} (an hour)"
    )


class RecentHead:
    """Only `appended` and `known` are thread-safe; `within` is for one coroutine at a time."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        self._known: Manifest | None = None
        self._asked_ms = 0
        self._lock = OwnLock()
        self._appended_to = 0

    def appended(self, offsets: range) -> None:
        """From now on, gets of this handle see this append.

        SUBTLE! `seen` of these files alone does not say so: appends have files of their own, and what they learned is
        passed on only if nobody reads just then. Test: tests/log/test_staleness.py"""
        with self._lock.mine():
            self._appended_to = max(self._appended_to, offsets.stop)

    def known(self, staleness_ms: int, now_ms: int) -> Manifest | None:
        """The answer of `within`, if no request is needed. Thread-safe: a get that can be answered from memory does not
        wait for a thread that asks the store. If another thread finds a newer head meanwhile, `seen` says so."""
        known = self._known
        # SUBTLE! What was committed here is newer than what is known, but is not taken from `seen`: 1. We commit 8. 2.
        # Others commit 9, which `seen` now has from a race that we lost. 3. Whether 9 is dead was not asked. Test:
        # tests/log/test_staleness.py
        if (
            known is not None
            and young(self._asked_ms, now_ms, staleness_ms)
            and self._files.manifest.seen.number <= known.id
            and self._appended_to <= known.next_offset
        ):
            return known
        return None

    async def within(self, staleness_ms: int) -> Manifest:
        """A manifest that was the head less than `staleness_ms` ago, by the store's clock; 0: the head, as every reader
        finds it. What this process has committed through the same files is in it. Raises NotFound."""
        now_ms = await Now()
        known = self.known(staleness_ms, now_ms)
        if known is not None:
            return known
        # SUBTLE! The head is as old as the question: the process may have slept before the reply. Test:
        # tests/log/test_staleness.py
        self._known = head = await self._files.live_head()
        self._asked_ms = now_ms
        return head
