"""Named consumers of a topic, with their positions in each partition."""

from typing import Literal

import msgspec

from lithify.admin.partitions import Answers, Places, required
from lithify.admin.topics import bounded
from lithify.log import positions
from lithify.log.consumer_info import ConsumerInfo, consumer_infos
from lithify.log.positions import check_consumer_name
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.manifest.retention import floor_at
from lithify.manifest.walk import FoundPartition
from lithify.store.errors import InvalidRequest

__all__ = ["PartitionConsumer", "consumers", "delete_consumer", "reset_consumer"]

To = int | Literal["earliest", "latest"]


class PartitionConsumer(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    consumer: ConsumerInfo


def consumers(known: KnownPartitions, topic: str, partition: int | None) -> Answers[PartitionConsumer]:
    return Places.of(known, topic, partition).ask_for_many(lambda found: _read(known, found, None))


def reset_consumer(
    known: KnownPartitions, topic: str, name: str, to: To, partition: int | None
) -> Answers[PartitionConsumer]:
    check_consumer_name(name)
    places = Places.of(known, topic, partition)
    if isinstance(to, int) and (count := len(places.ask_for_many(lambda found: _read(known, found, name)).items)) > 1:
        raise InvalidRequest(f"{topic}: an offset applies to one partition: choose one of the {count}")

    def reset(found: FoundPartition) -> list[PartitionConsumer]:
        if not _read(known, found, name):
            return []
        known.run(found.keys, lambda files: positions.reset(files, name, to, lambda head: _floor(known, found, head)))
        return _read(known, found, name)

    return required(places.ask_for_many(reset), _missing(topic, name))


def delete_consumer(known: KnownPartitions, topic: str, name: str, partition: int | None) -> Answers[PartitionConsumer]:
    check_consumer_name(name)

    def delete(found: FoundPartition) -> list[PartitionConsumer]:
        there = _read(known, found, name)
        if there:
            known.run(found.keys, lambda files: positions.forget(files, name))
        return there

    return required(Places.of(known, topic, partition).ask_for_many(delete), _missing(topic, name))


def _missing(topic: str, name: str) -> str:
    return f"{topic} has no consumer {name!r}; 'lithify consumer list {topic}' shows what there is"


def _read(known: KnownPartitions, found: FoundPartition, name: str | None) -> list[PartitionConsumer]:
    """Those in a partition; or the one with this name."""
    head = known.run(found.keys, lambda files: files.live_head())
    infos = consumer_infos(head, _floor(known, found, head))
    return [PartitionConsumer(partition=found.keys.partition, consumer=it) for it in infos if name in (None, it.name)]


def _floor(known: KnownPartitions, found: FoundPartition, head: Manifest) -> int:
    """Where the log starts for a reader now (R3)."""
    return floor_at(bounded(head, found.topic), known.driver.now_ms())
