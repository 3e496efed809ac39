"""Checkpoints over a whole topic, or one of its partitions."""

import msgspec

from lithify.admin.partitions import Answers, Places, required
from lithify.log import checkpoints
from lithify.log.checkpoints import check_checkpoint_name, check_ttl
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Checkpoint, Manifest, PinOwner
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import expired
from lithify.manifest.walk import FoundPartition
from lithify.store.errors import AlreadyExists
from lithify.store.port import Now

__all__ = ["PartitionCheckpoint", "create", "delete", "list_all"]


class PartitionCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    checkpoint: Checkpoint
    expired: bool = False  # by the store's clock; the next collection removes it, and until then it pins


def list_all(
    known: KnownPartitions, topic: str, partition: int | None, owner: PinOwner | None
) -> Answers[PartitionCheckpoint]:
    def ask(found: FoundPartition) -> list[PartitionCheckpoint]:
        return known.run(found.keys, lambda files: _listed(files, found, owner))

    return Places.of(known, topic, partition).ask_for_many(ask)


async def _listed(files: PartitionFiles, found: FoundPartition, owner: PinOwner | None) -> list[PartitionCheckpoint]:
    pins = [pin for pin in (await files.live_head()).checkpoints if owner in (None, pin.owner)]
    now_ms = await Now() if any(pin.expires_at_ms is not None for pin in pins) else 0
    return [msgspec.structs.replace(_at(found, pin), expired=expired(pin, now_ms)) for pin in pins]


def create(
    known: KnownPartitions, topic: str, name: str, partition: int | None, ttl_ms: int | None
) -> Answers[PartitionCheckpoint]:
    check_checkpoint_name(name)
    check_ttl("ttl_ms", ttl_ms)
    made: list[int] = []

    async def pin(files: PartitionFiles) -> Checkpoint:
        now_ms = await Now()
        there = _named(await files.live_head(), name)
        if there is not None and not expired(there, now_ms):
            return there
        made.append(files.keys.partition)
        return (await checkpoints.pin(files, name, ttl_ms))[1]

    places = Places.of(known, topic, partition)
    answers = places.ask(lambda found: _at(found, known.run(found.keys, pin)))
    if not made and not answers.failed:
        raise AlreadyExists(f"{topic} has a checkpoint {name!r} already; pick another name, or delete it first")
    return answers


def delete(known: KnownPartitions, topic: str, name: str, partition: int | None) -> Answers[PartitionCheckpoint]:
    check_checkpoint_name(name)

    async def unpin(files: PartitionFiles) -> Checkpoint | None:
        there = _named(await files.live_head(), name)
        if there is not None:
            await checkpoints.delete(files, name)
        return there

    def ask(found: FoundPartition) -> list[PartitionCheckpoint]:
        gone = known.run(found.keys, unpin)
        return [] if gone is None else [_at(found, gone)]

    answers = Places.of(known, topic, partition).ask_for_many(ask)
    missing = f"{topic} has no checkpoint {name!r}; 'lithify checkpoint list {topic}' shows what there is"
    return required(answers, missing)


def _named(head: Manifest, name: str) -> Checkpoint | None:
    return next((pin for pin in head.checkpoints if (pin.owner, pin.name) == ("user", name)), None)


def _at(found: FoundPartition, pin: Checkpoint) -> PartitionCheckpoint:
    return PartitionCheckpoint(topic=found.keys.topic, partition=found.keys.partition, checkpoint=pin)
