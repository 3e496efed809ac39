"""Partitions that no version of their topic names: their creator lost a race, died, or was overtaken by a deletion. A
sweep finds and deletes them; after that no slow creator can announce them (P21, docs/rfcs/0005). In passing it finds
the witnesses of topics that are deleted (docs/rfcs/0032). Coroutines.
"""

from dataclasses import dataclass

from lithify.gc.collect import Pass
from lithify.gc.lives import Lives
from lithify.gc.objects import delete, every_object, gone
from lithify.gc.reachable import Garbage
from lithify.gc.witnesses import witness_garbage
from lithify.manifest.catalog import take_next_version, topic_lineage
from lithify.manifest.codec import LaterFormat
from lithify.manifest.ended import say_again
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Corrupt
from lithify.store.owners import WITNESSES
from lithify.store.port import Folders, Now, ObjectInfo

__all__ = ["Swept", "sweep_unannounced"]


_NOTHING = Pass()


@dataclass(frozen=True, slots=True)
class Swept:
    """What happened to one such partition. `used`: somebody wrote to it, so it must be sealed and collected like one of
    a deleted topic, and the end of its chain stays."""

    keys: PartitionKeys
    done: Pass = _NOTHING
    used: bool = False
    damage: Corrupt | LaterFormat | None = None

    def result(self) -> Pass:
        """Raises Corrupt; LaterFormat."""
        if self.damage is not None:
            raise self.damage
        return self.done


@dataclass(frozen=True, slots=True)
class _Found:
    keys: PartitionKeys
    objects: tuple[ObjectInfo, ...]  # only lithify's objects
    growth: bool  # the topic is live, and may still grow to this partition
    born_ms: int | None = None  # None: its first manifest is gone. Where one is unreadable: that of the newest object
    damage: Corrupt | LaterFormat | None = None
    used: bool = False  # it has more than a creator writes
    sealed: bool = False

    @property
    def can_go(self) -> bool:
        """Whether there is a reason to make sure that nobody announces it any more."""
        return not self.sealed and self.damage is None


async def sweep_unannounced(name: str, grace_ms: int, *, dry_run: bool = False) -> list[Swept]:
    """Delete the partitions under a topic's name that nobody has announced or can announce, once they are a grace
    period old.

    SUBTLE! List the folders first, then read the versions. A creator whose folder we see had read the newest version
    before, and announces under the next number or not at all. So:
    1. If a later version belongs to a live topic, its announcement would be refused now.
    2. If the newest version is a deletion, or there is none, it might still announce. We take the next number first,
       with a version that changes nothing.
    Nobody was ever given access to what the folders hold, so nothing can depend on it, and numbers used again conflict
    with nobody's. Test: tests/manifest/test_unannounced.py
    """
    folders, have_witnesses = await _folders(name)
    lives = Lives(name, 0)  # including those that are over
    topics = await lives.refresh()
    if lives.damage is not None:
        raise lives.damage  # the damaged version may announce what is here
    newest = topics[-1] if topics else None
    known = {topic.topic_id: topic for topic in topics}
    by_topic_id: dict[str, list[_Found]] = {}
    for keys in folders:
        topic = known.get(keys.topic_id)
        if topic is None or keys.partition >= topic.partitions:
            found = await _look(keys, growth=topic is not None and not topic.deleted)
            if found is not None:
                by_topic_id.setdefault(keys.topic_id, []).append(found)
    old = await _old(by_topic_id, grace_ms)
    everything = [found for some in by_topic_id.values() for found in some]
    strange = {found.keys.topic_id for found in everything if found.can_go and found.keys.topic_id not in known}
    may_announce = not dry_run and bool(old & strange) and (newest is None or newest.deleted)
    if may_announce and not await _fence(name, newest):
        old -= strange
    swept = [await _swept(found, found.keys.topic_id in old, dry_run=dry_run) for found in everything]
    for topic_id in have_witnesses:
        topic = known.get(topic_id)
        if topic is not None and topic.deleted:
            swept += await _witnesses(topic, dry_run=dry_run)
    return swept


async def _witnesses(topic: TopicFile, *, dry_run: bool) -> list[Swept]:
    """They are told of with the first partition."""
    keys = PartitionKeys(topic.topic, topic.topic_id, 0)
    try:
        garbage = await witness_garbage(topic)
    except (Corrupt, LaterFormat) as error:
        return [Swept(keys, damage=error)]
    return [Swept(keys, await _deleted(garbage, dry_run=dry_run))] if garbage else []


async def _folders(name: str) -> tuple[list[PartitionKeys], list[str]]:
    """Those of partitions, and the ids under which there are witnesses."""
    found: list[PartitionKeys] = []
    have_witnesses: list[str] = []
    for topic_id in await Folders(f"{name}/"):
        if PartitionKeys.of_folder(name, topic_id, "00000") is None:
            continue
        folders = await Folders(f"{name}/{topic_id}/")
        keys = [PartitionKeys.of_folder(name, topic_id, folder) for folder in folders]
        found += [each for each in keys if each is not None]
        have_witnesses += [topic_id] if WITNESSES in folders else []
    return found, have_witnesses


async def _look(keys: PartitionKeys, *, growth: bool) -> _Found | None:
    """What lithify has under `keys`; None: nothing."""
    objects = tuple(found for found in await every_object(keys.root) if keys.is_ours(found.key))
    if not objects:
        return None
    files = PartitionFiles(keys)
    used = {found.key for found in objects} != {keys.manifest.key(1)}
    try:
        first = await files.manifest.read(1)
        head = (await files.manifest.refresh()).value if used else None
    except (Corrupt, LaterFormat) as error:
        born_ms = max((found.modified_ms for found in objects if found.modified_ms is not None), default=None)
        return _Found(keys, objects, growth, born_ms, damage=error)
    born_ms = first and first.value and (first.modified_ms or first.value.committed_at_ms)
    return _Found(keys, objects, growth, born_ms, used=used, sealed=head is not None and head.sealed)


async def _old(by_topic_id: dict[str, list[_Found]], grace_ms: int) -> set[str]:
    """Topic ids with no partition younger than the grace period: a creator makes one partition after another. Where the
    store knows no times, what cannot be read is as old as those beside it; alone, it counts as young."""
    now_ms = await Now()

    def old(some: list[_Found]) -> bool:
        born = [found.born_ms for found in some if found.born_ms is not None]
        known = bool(born) or all(found.damage is None for found in some)
        return known and all(now_ms - each >= grace_ms for each in born)

    return {topic_id for topic_id, some in by_topic_id.items() if old(some)}


async def _fence(name: str, newest: TopicFile | None) -> bool:
    """Make sure that no creator who began before can still announce. False: a new version came meanwhile; the next
    sweep decides by that."""
    if newest is not None:
        await say_again(name, newest.id)  # as before every version that follows a deletion
    return await take_next_version(topic_lineage(name), name, 0 if newest is None else newest.id)


async def _swept(found: _Found, old: bool, *, dry_run: bool) -> Swept:
    if found.damage is not None:
        return Swept(found.keys, damage=found.damage)
    if old and found.used and not found.growth:
        return Swept(found.keys, used=True)
    stays = found.growth or not old
    cause = "" if stays else "unannounced"
    garbage = [Garbage(each.key, each.size, _reason(found, old), cause=cause) for each in found.objects]
    if stays:
        return Swept(found.keys, Pass(kept=tuple(garbage)))
    return Swept(found.keys, await _deleted(garbage, dry_run=dry_run))


async def _deleted(garbage: list[Garbage], *, dry_run: bool) -> Pass:
    refused = [] if dry_run else await delete(garbage)
    return Pass(deleted=gone(garbage, refused), refused=tuple(refused))


def _reason(found: _Found, old: bool) -> str:
    nobody = "no version of the topic names this partition"
    if found.growth:
        return f"{nobody}: the topic is being grown, or growing it was interrupted; the next growth will use it"
    return (
        nobody if old else f"{nobody}, but its creator may still be working on it: it is younger than the grace period"
    )
