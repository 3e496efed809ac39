"""Every life of a topic's name: one deleted and created again leaves partitions under its old id (P21). Coroutines."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lithify.manifest.catalog import partition_keys, topic_lineage
from lithify.manifest.codec import LaterFormat
from lithify.manifest.ended import Marks, say_again, say_over
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.version import Version
from lithify.store.errors import Corrupt

__all__ = ["Lives"]


class Lives:
    """The lives of `name` after version `over`. Those up to there are marked as over and collected."""

    def __init__(self, name: str, over: int) -> None:
        self._name = name
        self._lineage = topic_lineage(name)
        self._over = over
        self._newest: Version[TopicFile] | None = None
        self._past: dict[str, TopicFile] = {}  # by topic id, oldest first: the last version of each earlier life
        self._finished: set[PartitionKeys] = set()
        # Of an older version, or a later lithify wrote it: lives, or partitions of one, may be missing.
        self.damage: Corrupt | LaterFormat | None = None

    async def refresh(self) -> list[TopicFile]:
        """Each life at its last version, oldest first; former lives count as deleted, whatever their version says. If
        an older version cannot be read (`damage`), the result is based on the others, and what they show to be over is
        over."""
        head = await self._lineage.refresh()
        if head.value is None:
            return []
        if self.damage is not None:  # it may have been restored since
            self._newest, self._past, self.damage = None, {}, None
        if self._newest is None:
            self._newest = await self._readable(range(self._over + 1, head.number)) or head
        await self._ends_between(self._newest, head)
        self._newest = head
        return [*(replace(topic, deleted=True) for topic in self._past.values()), head.value]

    async def _ends_between(self, low: Version[TopicFile], high: Version[TopicFile]) -> None:
        """Find the last versions of lives that ended between the two, by halving. An id never comes back: if both ends
        have the same one, so has everything between."""
        assert low.value is not None
        assert high.value is not None
        if low.value.topic_id == high.value.topic_id:
            return
        middle = await self._readable(_from_the_middle(low.number, high.number))
        if middle is None:
            self._past[low.value.topic_id] = low.value
            return
        await self._ends_between(low, middle)
        await self._ends_between(middle, high)

    async def _readable(self, numbers: Iterable[int]) -> Version[TopicFile] | None:
        """The first of these versions that is there and can be read."""
        for number in numbers:
            try:
                return await self._version(number)
            except (Corrupt, LaterFormat) as error:
                self.damage = error
        return None

    async def _version(self, number: int) -> Version[TopicFile]:
        found = await self._lineage.read(number)
        if found is None:
            key = self._lineage.chain.key(number)
            raise Corrupt(f"{key} is missing, and versions of a topic are never deleted: restore the object", key)
        return found

    def is_finished(self, keys: PartitionKeys) -> bool:
        return keys in self._finished

    def finished(self, keys: PartitionKeys) -> None:
        """The partition is sealed and empty: nothing can appear there except orphans, which a sweep looks for."""
        self._finished.add(keys)

    async def say_what_is_over(self, marks: Marks) -> None:
        """Mark up to which version everything is over; later passes and processes do not look there again."""
        head = None if self._newest is None else self._newest.value
        if head is None or self.damage is not None:
            return  # what cannot be read is not known to be over
        over = marks.over
        for topic in (*self._past.values(), *((head,) if head.deleted else ())):
            if not all(map(self.is_finished, partition_keys(topic))):
                break
            over = topic.id
        if over <= marks.over:
            return
        if over < head.id and marks.again < over:
            await say_again(self._name, over)  # an older lithify created the topic again
        await say_over(self._name, over)
        for topic_id in [topic_id for topic_id, topic in self._past.items() if topic.id <= over]:
            self._finished -= set(partition_keys(self._past.pop(topic_id)))


def _from_the_middle(low: int, high: int) -> Iterator[int]:
    """The numbers between the two, from the middle outward."""
    middle = (low + high) // 2
    for away in range(high - low):
        yield from (number for number in dict.fromkeys((middle + away, middle - away)) if low < number < high)
