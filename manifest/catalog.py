"""The topics of a warehouse: their configuration, creation and deletion (P21). Protocol coroutines."""

from contextlib import suppress
from dataclasses import dataclass

from msgspec import UNSET
from msgspec.structs import replace

from lithify.manifest.commit import Lineage
from lithify.manifest.config import parse, validate
from lithify.manifest.each import AT_ONCE, commit_to_each, each
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.ended import say_again
from lithify.manifest.floor import SetBounds
from lithify.manifest.invariants import check_topic
from lithify.manifest.keys import PartitionKeys, TopicKeys, check_topic_name, is_topic_name
from lithify.manifest.lifetime import CreatePartition, Seal
from lithify.manifest.model import FORMAT, GROWTHS_MAX, PARTITIONS_MAX, Growth, Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import bounds_before, retention_of
from lithify.manifest.words import counted, numbers_text
from lithify.store.errors import AlreadyExists, Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.port import Folders, Head, NewId

__all__ = [
    "alter_topic",
    "create_topic",
    "delete_topic",
    "ever_had_topics",
    "former_partitions",
    "growths_of",
    "keep_bounds",
    "live_topic",
    "no_partition",
    "partition_keys",
    "partition_of",
    "take_next_version",
    "topic_lineage",
    "topic_names",
]

RETENTION_KEYS = frozenset(("cleanup.policy", "retention.ms", "retention.bytes", "retention.records"))
# These decide what stays, and where: after one was altered, no job commits by its former value (P9).
KEEPING_KEYS = RETENTION_KEYS | {
    "min.compaction.lag.ms",
    "delete.retention.ms",
    "cold.location",
    "cold.storage.class",
}
GROWTH_ATTEMPTS_MAX = 10
FOLDERS_LOOKED_AT_MAX = 1_024  # to tell a warehouse from a folder of something else


def topic_lineage(name: str) -> Lineage[TopicFile]:
    return Lineage(TopicKeys(check_topic_name(name)).config, TopicFile, check_topic)


def partition_keys(topic: TopicFile) -> list[PartitionKeys]:
    return [PartitionKeys(topic.topic, topic.topic_id, index) for index in range(topic.partitions)]


def partition_of(topic: TopicFile, number: int) -> PartitionKeys:
    """Raises NotFound."""
    if not 0 <= number < topic.partitions:
        raise no_partition(topic, number)
    return partition_keys(topic)[number]


def no_partition(topic: TopicFile, number: object) -> NotFound:
    return NotFound(
        f"topic {topic.topic} has no partition {number!r}; it has {numbers_text('partition', range(topic.partitions))}"
    )


async def topic_names() -> list[str]:
    """Names of folders that may be topics. Deleted topics are among them, and other folders with a valid name. One LIST
    per 1,000."""
    return [name for name in await Folders("") if is_topic_name(name)]


async def ever_had_topics() -> bool:
    """Whether a topic was ever created here. One LIST per 1,000 folders, and one HEAD for each folder up to the first
    topic's, after the first folder's many at once; but more than FOLDERS_LOOKED_AT_MAX folders are taken to be
    topics."""
    names = await topic_names()
    if len(names) > FOLDERS_LOOKED_AT_MAX:
        return True
    if names and await _ever_made(names[0]):
        return True
    for start in range(1, len(names), AT_ONCE):
        if any(await each(_ever_made, names[start : start + AT_ONCE])):
            return True
    return False


async def _ever_made(name: str) -> bool:
    return await Head(topic_lineage(name).chain.key(1)) is not None


async def live_topic(lineage: Lineage[TopicFile], name: str) -> TopicFile:
    """The topic's newest configuration. Costs one GET if nothing has changed. Raises NotFound."""
    topic = (await lineage.refresh()).value
    if topic is None or topic.deleted:
        raise NotFound(f"topic {name} does not exist here{' any more' if topic else ''}; create it, or check the name")
    return topic


async def former_partitions(lineage: Lineage[TopicFile], topic: TopicFile) -> tuple[int, ...]:
    """The partition counts that it had before it grew, the latest first. Costs nothing if it was never altered, else a
    GET for each halving of its versions, which never shrink and are never collected."""
    found: list[int] = []
    newest: TopicFile | None = topic
    while newest is not None:
        before, at = 0, newest.id  # the count differed at `before`, and is the same at `at`
        earlier: TopicFile | None = None
        while at - before > 1:
            middle = (before + at) // 2
            version = await _version(lineage, middle)
            if (version.topic_id, version.partitions) == (topic.topic_id, newest.partitions):
                at = middle
            else:
                before, earlier = middle, version
        newest = earlier if earlier is not None and earlier.topic_id == topic.topic_id else None
        if newest is not None:
            found.append(newest.partitions)
    return tuple(found)


async def growths_of(lineage: Lineage[TopicFile], topic: TopicFile) -> tuple[Growth, ...]:
    """The growths, oldest first. Free, but for a topic of an earlier lithify what `former_partitions` costs."""
    if topic.growths is not UNSET:
        return topic.growths
    return tuple(Growth(count, ()) for count in reversed(await former_partitions(lineage, topic)))


def _noted(growths: tuple[Growth, ...]) -> tuple[Growth, ...]:
    """Each growth keeps its partition count; the last GROWTHS_MAX also keep where the logs ended."""
    return (*(replace(old, ends=()) for old in growths[:-GROWTHS_MAX]), *growths[-GROWTHS_MAX:])


async def _version(lineage: Lineage[TopicFile], number: int) -> TopicFile:
    version = await lineage.read(number)
    if version is None or version.value is None:
        key = lineage.chain.key(number)
        raise Corrupt(f"{key} is missing, although lithify never deletes such files. Restore the object", key)
    return version.value


@dataclass(frozen=True, slots=True)
class _Announce:
    topic: TopicFile
    after: int  # the version that this one must follow

    repeatable = True  # by the topic id, new at each creation
    frees = False

    def apply(
        self, head: TopicFile | None, number: int, now_ms: int
    ) -> Next[TopicFile, TopicFile] | Already[TopicFile] | Refused:
        if head is not None and head.topic_id == self.topic.topic_id:
            return Already(head)
        if head is not None and not head.deleted:
            return Refused(AlreadyExists(f"topic {head.topic} already exists; use it, or delete it first"))
        if number != self.after + 1:
            return Refused(Unavailable(f"topic {self.topic.topic} was created and deleted in the meantime; try again"))
        topic = replace(self.topic, created_at_ms=now_ms)
        return Next(topic, topic)


class _Grew(Unavailable):
    """The topic grew after its partitions were asked where they end."""


@dataclass(frozen=True, slots=True)
class _Alter:
    topic_id: str
    changes: dict[str, str | None]  # None: back to the default
    partitions: int | None
    # The growths before this one, if it grows.
    growths: tuple[Growth, ...] = ()
    ends: tuple[int, ...] = ()  # of the logs of the existing partitions, read when there were just these

    repeatable = True  # it sets values
    frees = True

    def apply(
        self, head: TopicFile | None, number: int, now_ms: int
    ) -> Next[TopicFile, tuple[TopicFile, TopicFile]] | Already[tuple[TopicFile, TopicFile]] | Refused:
        """Answers with the topic before and after. Requires: `head` was read after the call began; otherwise "nothing
        to change" could be about a configuration that was altered in the meantime."""
        if head is None or head.deleted or head.topic_id != self.topic_id:
            return Refused(NotFound("the topic was deleted in the meantime; open it again"))
        partitions = head.partitions if self.partitions is None else self.partitions
        if partitions < head.partitions:
            text = f"topic {head.topic} has {counted(head.partitions, 'partition')}, and the number cannot shrink"
            return Refused(InvalidRequest(text))
        merged = {**head.config, **self.changes}
        config = validate({name: value for name, value in merged.items() if value is not None})
        if (config, partitions) == (head.config, head.partitions):
            return Already((head, head))
        altered = retention_of(parse(config)) != retention_of(parse(head.config))
        former = bounds_before(head) if altered else head.former_bounds
        topic = replace(head, id=number, config=config, partitions=partitions, former_bounds=former)
        if partitions > head.partitions:
            if len(self.ends) != head.partitions:
                return Refused(_Grew(f"topic {head.topic} is being grown by others, too; try again"))
            growth = Growth(head.partitions, self.ends)
            earlier = self.growths if head.growths is UNSET else head.growths
            topic = replace(topic, growths=_noted((*earlier, growth)))
        return Next(topic, (head, topic))


@dataclass(frozen=True, slots=True)
class _Delete:
    topic_id: str

    repeatable = True
    frees = True

    def apply(self, head: TopicFile | None, number: int, now_ms: int) -> Next[TopicFile, None] | Already[None]:
        if head is None or head.deleted or head.topic_id != self.topic_id:
            return Already(None)
        return Next(replace(head, deleted=True), None)


@dataclass(frozen=True, slots=True)
class _TakeNext:
    """A version without changes: takes its number, so that nobody can announce a topic under it."""

    after: int
    nobody: TopicFile  # a topic that never existed, used if there was no version before

    repeatable = True  # whoever did it, the number is taken
    frees = True

    def apply(self, head: TopicFile | None, number: int, now_ms: int) -> Next[TopicFile, bool] | Already[bool]:
        if number != self.after + 1 or (head is not None and not head.deleted):
            return Already(False)
        return Next(head or self.nobody, True)


async def take_next_version(lineage: Lineage[TopicFile], name: str, after: int) -> bool:
    """Take the number after `after`, the end of a topic's life (or 0), from anybody who is about to announce a topic
    there. False: it was taken already."""
    nobody = TopicFile(
        format=FORMAT, topic=name, topic_id=await NewId(), partitions=1, config={}, created_at_ms=0, deleted=True
    )
    return (await lineage.commit(_TakeNext(after, nobody))).result


async def create_topic(lineage: Lineage[TopicFile], name: str, partitions: int, config: dict[str, str]) -> TopicFile:
    """Make every partition's first manifest, then announce the topic. Raises AlreadyExists, InvalidRequest."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidRequest(f"topic {name}: {partitions} partitions requested; choose between 1 and {PARTITIONS_MAX}")
    newest = await lineage.refresh()
    known = newest.value
    if known is not None and not known.deleted:
        raise AlreadyExists(f"topic {name} already exists; use it, or delete it first")
    topic = TopicFile(
        format=FORMAT,
        topic=name,
        topic_id=await NewId(),
        partitions=partitions,
        config=config,
        created_at_ms=0,
        growths=(),
    )
    await _create_partitions(partition_keys(topic), topic)
    if known is not None:
        # SUBTLE! Say so before the announcement. Passes do not look again at a topic that is over. 1. We announce the
        # topic. 2. We die before saying so: nobody ever finds the topic. The other way round, an announcement that
        # never comes costs one look per pass. Test: tests/manifest/test_ended.py
        await say_again(name, newest.number)
    return (await lineage.commit(_Announce(topic, newest.number))).result


async def _create_partitions(all_keys: list[PartitionKeys], topic: TopicFile) -> None:
    bounds = retention_of(parse(topic.config))

    async def create(keys: PartitionKeys) -> None:
        first = Manifest(
            format=FORMAT, topic=keys.topic, topic_id=keys.topic_id, partition=keys.partition, retention=bounds
        )
        await PartitionFiles(keys).manifest.commit(CreatePartition(first))

    await each(create, all_keys)


async def alter_topic(
    lineage: Lineage[TopicFile], topic: TopicFile, changes: dict[str, str | None], partitions: int | None
) -> TopicFile:
    """Change configuration values (None: back to the default) or grow the partition count.

    Then the new retention bounds are committed to every partition's manifest, where the floor is computed from them
    (R3); with them the version, so that jobs admitted before are checked again (P9). The version is also committed if
    only what compaction keeps was altered, or the cold home. If this is interrupted, the next alter or a compactor's
    pass finishes it. A partition that cannot be read stops no other; the first error is raised after all were tried.
    """
    if partitions is not None:
        if partitions > PARTITIONS_MAX:
            raise InvalidRequest(f"topic {topic.topic}: {partitions} partitions; the limit is {PARTITIONS_MAX}")
        grown = replace(topic, partitions=partitions)
        await _create_partitions(partition_keys(grown)[topic.partitions :], grown)
    before, altered = await _altered(lineage, topic.topic_id, changes, partitions)
    bounds = SetBounds(retention_of(parse(altered.config)), altered.id, bounds_before(altered))
    # Including the new ones: they were made by the configuration that this client knew.
    behind = partition_keys(altered)[0 if KEEPING_KEYS & changes.keys() else before.partitions :]
    note = (
        f"topic {topic.topic} was altered, but some partitions were not reached. A compactor's next pass, or the same "
        "alter again, completes it in"
    )
    await commit_to_each(behind, bounds, note)
    return altered


async def _altered(
    lineage: Lineage[TopicFile], topic_id: str, changes: dict[str, str | None], partitions: int | None
) -> tuple[TopicFile, TopicFile]:
    """The topic before and after.

    SUBTLE! Where partitions end is read at the count that the growth begins with. 1. Two people grow a topic of 2, to 3
    and to 4; both have read where the partitions end. 2. A key is written to partition 1. 3. It is announced that there
    are 3; the key is in 0, and is deleted there. 4. It is announced that there are 4, by the ends of step 1: the key is
    in 1, with a record beyond that. Test: tests/log/test_growth.py
    """
    for _ in range(GROWTH_ATTEMPTS_MAX):
        seen = (await lineage.refresh()).value
        edit = _Alter(topic_id, changes, partitions)
        if seen is not None and seen.topic_id == topic_id and seen.partitions < (partitions or 0):
            growths, ends = await growths_of(lineage, seen), await _ends(partition_keys(seen))
            edit = _Alter(topic_id, changes, partitions, growths, ends)
        with suppress(_Grew):
            return (await lineage.commit(edit)).result
    raise Unavailable(f"{lineage.chain.prefix}: it is being grown by others, too; try again")


async def _ends(all_keys: list[PartitionKeys]) -> tuple[int, ...]:
    """Where each partition's log ends.

    SUBTLE! A partition that cannot be read prevents growing. 1. A key is in partition 1. 2. The topic grows; the key is
    in 0, and is deleted there. 3. The topic grows again, and the key is in 1. Only where partition 1 ended tells that
    its record there is the older one. Test: tests/log/test_growth.py
    """

    async def end(keys: PartitionKeys) -> int:
        return (await PartitionFiles(keys).head()).next_offset

    return tuple(await each(end, all_keys))


async def keep_bounds(files: PartitionFiles, topic: TopicFile) -> bool:
    """Commit the bounds of `topic` to a partition that an interrupted alter did not reach, judging by the head last
    seen. Costs nothing if they agree. Answers whether it committed."""
    head, bounds = files.manifest.seen.value, retention_of(parse(topic.config))
    if head is None or head.topic_id != topic.topic_id or head.sealed:
        return False
    if head.retention is None or (head.config_at < topic.id and head.retention != bounds):
        await files.manifest.commit(SetBounds(bounds, topic.id, bounds_before(topic)))
        return True
    return False


async def delete_topic(lineage: Lineage[TopicFile], topic: TopicFile) -> None:
    """Commit `deleted`, then seal every partition. If this is interrupted, the next collection pass finishes it. Data
    lies under the topic's id, so a new topic of the same name shares nothing."""
    await lineage.commit(_Delete(topic.topic_id))
    note = f"topic {topic.topic} was deleted, but some partitions were not reached. The next collection completes it in"
    await commit_to_each(partition_keys(topic), Seal(), note)
