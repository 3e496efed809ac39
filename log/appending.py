"""Appending beside other threads of this process: each uploads by itself, and their commits are shared
(docs/rfcs/0024)."""

import os
from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from lithify.log.append import append
from lithify.log.commit_queue import CommitQueue, Member
from lithify.manifest.appends import Append
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver, drive
from lithify.store.own_lock import OwnLock
from lithify.store.port import Request

__all__ = ["Appending"]

_lock = OwnLock()
_queues: WeakValueDictionary[tuple[int, Hashable, PartitionKeys], CommitQueue] = WeakValueDictionary()


class _Share(Request[range], msgspec.Struct, frozen=True):
    """Commit this append in its turn, beside others."""

    edit: Append


async def _share(edit: Append) -> range:
    return await _Share(edit)


class Appending:
    """How the handles of one partition append. Thread-safe; a forked child shares nothing with its parent.

    Handles share commits if they reach the same store in the same way: those of one `lithify.open`, and of others with
    the same URL, options and clock.
    """

    def __init__(self, driver: Driver, keys: PartitionKeys) -> None:
        self._driver = driver
        self._keys = keys
        self._mine: tuple[int, CommitQueue] | None = None  # process, its queue

    def append(
        self,
        driver: Driver,
        files: PartitionFiles,
        body: bytes,
        ref: SegmentRef,
        deadline_ms: int | None = None,
        **how: Any,
    ) -> range:
        """As `lithify.log.append.append`. `files` is used by this call alone. `deadline_ms`: when `driver` stops
        waiting."""
        queue = self._queue()
        # SUBTLE! Not by a handle that has seen nothing yet: 1. Another handle of this process appended. 2. A collection
        # without a grace period passed that manifest. 3. A new handle builds on it, and its number is dead. So a new
        # handle looks for the head. Test: tests/e2e/test_full_disk.py
        if files.manifest.seen.number:
            files.learn(queue.files)

        def answer(request: Request[Any]) -> Any:
            if isinstance(request, _Share):
                return queue.commit(Member(request.edit, files, driver.answer, deadline_ms))
            return driver.answer(request)

        return drive(append(files, body, ref, commit=_share, **how), answer)

    def _shared_by(self) -> Hashable:
        store = self._driver.store
        return self._driver if store.same_as is None else (store.same_as, store.endpoint_url)

    def _queue(self) -> CommitQueue:
        known = self._mine
        if known is None or known[0] != os.getpid():
            key = os.getpid(), self._shared_by(), self._keys
            with _lock.mine():
                queue = _queues.get(key)
                if queue is None or not queue.used:
                    queue = _queues[key] = CommitQueue(self._keys)
                queue.use(self._driver.store)
            known = self._mine = os.getpid(), queue
        return known[1]
