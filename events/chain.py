"""The changes of a partition, followed and read back by one reader. Protocol coroutines (docs/rfcs/0018, Events).

A number that is dead (P4) counts as gone, even if a file is there: it may be one that a stalled writer created again.
So the boundary is read after the files, and what is then not above it is not used.
"""

from typing import Any, NamedTuple

from lithify.events.changes import changes_of
from lithify.events.notices import Gap
from lithify.events.types import ChainName, Change, Event
from lithify.manifest.ages import young
from lithify.manifest.catalog import partition_keys
from lithify.manifest.commit import FRESH_MS, Lineage
from lithify.manifest.ended import Known
from lithify.manifest.keys import EndKeys, PartitionKeys
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import File, PartitionFiles
from lithify.manifest.version import Version
from lithify.store.listing import pages
from lithify.store.port import Head, Now

__all__ = ["FILES_MAX", "MARGIN_MS", "FollowedChain", "Since", "followed", "partitions_since", "topics_since"]

FILES_MAX = 1_000  # of one chain, read at once; where there are more, the rest is a gap
MARGIN_MS = 60_000  # read back this much more than a time says: clocks differ
READS_MAX = 2  # of a damaged file: a reply may be damaged on its way


class _At(NamedTuple):
    """A file of a chain; number 0: the chain is empty."""

    number: int
    file: File | None
    at_ms: int


_EMPTY = _At(0, None, 0)


class _Step(NamedTuple):
    """What one file changed."""

    number: int
    changes: tuple[Change, ...]
    before_ms: int  # the time of the file before it


def _seen_ms(version: Version[Any]) -> int:
    """From when on others could read this file, by the store's clock; if the store does not say, the time in the file,
    which is a little earlier."""
    if version.modified_ms is not None:
        return version.modified_ms
    return 0 if version.value is None else version.value.committed_at_ms


class FollowedChain:
    """Where a reader is in one chain. One coroutine at a time for all chains of a partition."""

    def __init__(self, files: PartitionFiles, name: ChainName, since_ms: int) -> None:
        self.keys = files.keys
        self._files = files
        self._name: ChainName = name
        self._lineage = files.manifest if name == "manifest" else files.compactor
        self._proved_ms = 0
        self._at: _At | None = None  # all changes up to this file have been told; None: nobody has looked
        self.looked_ms = since_ms  # the changes of all files that others could read before this have been told
        self.failing = False  # the last look did
        self.given_up = False  # and that has been told as a gap

    @property
    def begun(self) -> bool:
        return self._at is not None

    def ended(self, before_ms: int) -> bool:
        """Whether its topic was deleted, and nothing came since `before_ms`."""
        at = self._at
        return at is not None and isinstance(at.file, Manifest) and at.file.sealed and at.at_ms < before_ms

    async def look(self) -> list[Event]:
        """What came since the last look; at the first one, since the time it was made with. If it fails, the next look
        tells all; if the first one does, also what came in the minute before. Costs one GET if nothing came, and once
        a minute one of the boundary."""
        now_ms = await Now()
        # SUBTLE! 1. Our clock is ahead of the store's, and our first look fails. 2. A file is created; the store dates
        # it before that look. 3. The next look would take it for older than our beginning. So after a failure we go
        # back further; after a success files are known by their numbers. Test: tests/events/test_feed_lost.py
        since_ms = self.looked_ms - (MARGIN_MS if self.failing else 0)
        self.failing = True
        told = await self._look(now_ms, since_ms)
        self.looked_ms, self.failing, self.given_up = now_ms, False, False
        return told

    async def _look(self, now_ms: int, since_ms: int) -> list[Event]:
        """What came since the last look; if there was none, since `since_ms`.

        SUBTLE! 1. We have read file 7. 2. We sleep for hours; files 7 to 90 are collected. 3. We find no file 8, and
        wait for it for ever. Within a minute after the boundary was seen below 7, no file 8 has come and gone; later
        the boundary is read again. Test: tests/events/test_chain.py
        """
        fresh = self._at is not None and self._lineage.seen.number == self._at.number
        if fresh and young(self._proved_ms, now_ms, FRESH_MS) and not await self._lineage.moved():
            return []
        head = _at(await self._lineage.refresh())
        told = await self._between(self._at or _EMPTY, head, since_ms if self._at is None else 0)
        self._at, self._proved_ms = head, now_ms
        return told

    def here(self) -> "FollowedChain":
        """Another reader that is where this one is now, to read back from while this one goes on."""
        other = FollowedChain(self._files.again(), self._name, self.looked_ms)
        other._at = self._at
        return other

    async def back(self, since_ms: int) -> list[Event]:
        """The changes up to the last look, of files that others could not read before `since_ms`. Before the first look
        a gap: when that will be is not known, and whoever asks may have gone by then."""
        if self._at is None:
            return [self.gap(0, await Now())]
        return await self._between(_EMPTY, self._at, since_ms)

    def gap(self, number: int | None = None, from_ms: int | None = None) -> Gap:
        """That the changes up to here, or up to file `number`, cannot be told."""
        keys = self.keys
        return Gap(
            topic=keys.topic,
            topic_id=keys.topic_id,
            partition=keys.partition,
            chain=self._name,
            number=(0 if self._at is None else self._at.number) if number is None else number,
            from_ms=self.looked_ms if from_ms is None else from_ms,
        )

    async def _between(self, base: _At, head: _At, since_ms: int) -> list[Event]:
        """The changes of the files above `base` up to `head` that are not older than `since_ms`. Where files are gone,
        first a gap."""
        steps: list[_Step] = []
        newer = head
        while True:
            whole = newer.number == base.number or newer.at_ms < since_ms
            if whole or len(steps) == FILES_MAX:
                break
            older = base if newer.number == base.number + 1 else await self._read(newer.number - 1)
            if older is None or newer.file is None:
                break
            steps.append(_Step(newer.number, changes_of(older.file, newer.file), older.at_ms))
            newer = older
        if whole and not steps:
            return []
        dead = await self._dead()
        first = base.number if dead <= base.number else dead + 1  # what is known to be the file that it says
        known = [step for step in steps if step.number > first]
        changes = [change for step in reversed(known) for change in step.changes]
        if whole and len(known) == len(steps):
            return [*changes]
        number, from_ms = (known[-1].number - 1, known[-1].before_ms) if known else (head.number, head.at_ms)
        return [self.gap(number, from_ms), *changes]

    async def _read(self, number: int) -> _At | None:
        """None: it is gone, or cannot be read."""
        for _ in range(READS_MAX):
            version = await self._lineage.glance(number)
            if version is None or version.value is not None or version.lacks:
                return None if version is None else _at(version)
        return None

    async def _dead(self) -> int:
        boundary = (await self._files.boundary.refresh()).value
        if boundary is None:
            return 0
        return boundary.manifest if self._name == "manifest" else boundary.compactor


def _at(version: Version[Any]) -> _At:
    return _At(version.number, version.value, _seen_ms(version))


def followed(keys: PartitionKeys, since_ms: int) -> tuple[FollowedChain, ...]:
    """Both chains of a partition."""
    files = PartitionFiles(keys)
    return FollowedChain(files, "manifest", since_ms), FollowedChain(files, "compactor", since_ms)


async def topics_since(known: Known, since_ms: int) -> list[str]:
    """The names of topics, but for those that were over before `since_ms`. Costs a LIST per 1,000 names, and if topics
    are over two per 1,000 of these."""
    awake, resting = await known.topics(says=False)
    if not resting:
        return [*awake]
    late: set[str] = set()
    async for page in pages(EndKeys.FOLDER + "/"):
        marks = [each.key for each in page.objects if each.modified_ms is None or each.modified_ms >= since_ms]
        late.update(mark[0] for mark in map(EndKeys.parse, marks) if mark is not None)
    return [*awake, *late.intersection(resting)]


class Since(NamedTuple):
    """The partitions that a topic has, or had since some time, and from when on each is news. `unreadable`: the newest
    version in between that nobody can read; what it alone announced is not among them. 0: there is none."""

    partitions: dict[PartitionKeys, int]
    unreadable: int = 0


async def partitions_since(lineage: Lineage[TopicFile], since_ms: int) -> Since:
    """Those announced since `since_ms` are news from their beginning. Costs one GET if nothing has changed since.
    Raises what the newest version raises that cannot be read."""
    found: dict[PartitionKeys, int] = {}
    unreadable, over = 0, False
    version: Version[TopicFile] | None = await lineage.refresh()
    while version is not None and version.number:
        if version.value is None:
            info = await Head(lineage.chain.key(version.number))
            old = info is not None and info.modified_ms is not None and info.modified_ms < since_ms
            if not old or over:  # else those that it announced were there before, and are named by the next version
                unreadable = unreadable or version.number
        else:
            old, over = _seen_ms(version) < since_ms, version.value.deleted
            if not over:  # of a life that ended since, the version before tells
                found.update(dict.fromkeys(partition_keys(version.value), since_ms if old else 0))
        version = None if old or version.number == 1 else await lineage.glance(version.number - 1)
    return Since(found, unreadable)
