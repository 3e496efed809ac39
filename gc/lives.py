"""Every life of a topic's name: a topic deleted and made again leaves partitions under its old id (P21). Coroutines."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lithify.manifest.catalog import partition_keys, topic_lineage
from lithify.manifest.commit import Version
from lithify.manifest.ended import Marks, say_again, say_over
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.store.errors import Corrupt

__all__ = ["Lives"]


class Lives:
    """The lives of `name` after version `over`: those up to there are said to be over and collected."""

    def __init__(self, name: str, over: int) -> None:
        self._name = name
        self._lineage = topic_lineage(name)
        self._over = over
        self._newest: Version[TopicFile] | None = None
        self._past: dict[str, TopicFile] = {}  # by topic id, oldest first: the last version of each earlier life
        self._finished: set[PartitionKeys] = set()
        self.damage: Corrupt | None = None  # of an older version: lives may be missing, or partitions of one

    async def refresh(self) -> list[TopicFile]:
        """Each life at its last version, oldest first; one that is over counts as deleted, whatever that says. Where an
        older version is damaged (`damage`), all that the others tell: what is over by them is over."""
        head = await self._lineage.refresh()
        if head.value is None:
            return []
        if self.damage is not None:  # it may be restored by now
            self._newest, self._past, self.damage = None, {}, None
        if self._newest is None:
            self._newest = await self._readable(range(self._over + 1, head.number)) or head
        await self._ends_between(self._newest, head)
        self._newest = head
        return [*(replace(topic, deleted=True) for topic in self._past.values()), head.value]

    async def _ends_between(self, low: Version[TopicFile], high: Version[TopicFile]) -> None:
        """Finds the last versions of lives that ended between the two by halving: an id never comes back, so where both
        ends have one, all between have it."""
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
        """The first of these versions that is neither damaged nor missing."""
        for number in numbers:
            try:
                return await self._version(number)
            except Corrupt as error:
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
        """The partition is sealed and empty: nothing will ever come of it but orphans, which a sweep looks for."""
        self._finished.add(keys)

    async def say_what_is_over(self, marks: Marks) -> None:
        """Says up to which version everything is over, once it is; later passes and processes do not look there."""
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
            await say_again(self._name, over)  # an older lithify made it again
        await say_over(self._name, over)
        for topic_id in [topic_id for topic_id, topic in self._past.items() if topic.id <= over]:
            self._finished -= set(partition_keys(self._past.pop(topic_id)))


def _from_the_middle(low: int, high: int) -> Iterator[int]:
    """The numbers between the two, those in the middle first."""
    middle = (low + high) // 2
    for away in range(high - low):
        yield from (number for number in dict.fromkeys((middle + away, middle - away)) if low < number < high)
