"""Topics: what there are, what they hold, and how they change."""

from collections.abc import Mapping

import msgspec

from lithify.admin.partitions import Answers, Failed, Places
from lithify.log.info import PartitionFailure, PartitionInfo, TopicInfo, described, look, topic_info
from lithify.log.warehouse import Warehouse
from lithify.manifest import catalog
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.config import Setting, parse
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import bounds_before
from lithify.manifest.walk import FoundPartition, topics_found
from lithify.store.apart import Fault
from lithify.store.errors import InvalidRequest
from lithify.store.port import Now

__all__ = [
    "LogStart",
    "TopicSummary",
    "alter_topic",
    "bounded",
    "create_topic",
    "delete_records",
    "delete_topic",
    "describe",
    "describe_topic",
    "topics",
]


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, without its partitions' state."""

    topic: str
    topic_id: str  # new at each creation
    version: int  # of the configuration
    created_at_ms: int
    partitions: int
    config: dict[str, str]  # what was set; the rest have their defaults

    @classmethod
    def of(cls, topic: TopicFile) -> "TopicSummary":
        return cls(
            topic=topic.topic,
            topic_id=topic.topic_id,
            version=topic.id,
            created_at_ms=topic.created_at_ms,
            partitions=topic.partitions,
            config=dict(topic.config),
        )


class LogStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition's log starts."""

    topic: str
    partition: int
    log_start_offset: int


def topics(known: KnownPartitions) -> Answers[TopicSummary]:
    items: list[TopicSummary] = []
    failed: list[Failed] = []
    for name, found in topics_found(known):
        if isinstance(found, Fault):
            failed.append(Failed(topic=name, partition=None, fault=found))
        else:
            items.append(TopicSummary.of(found))
    return Answers(items=tuple(items), failed=tuple(failed))


def create_topic(
    known: KnownPartitions, name: str, partitions: int, config: Mapping[str, Setting] | None, *, probe: bool
) -> TopicSummary:
    Warehouse(known.driver).create_topic(name, partitions, config, probe=probe)
    return TopicSummary.of(known.topic(name))


def alter_topic(
    known: KnownPartitions, name: str, config: Mapping[str, Setting | None] | None, partitions: int | None
) -> TopicSummary:
    if not config and partitions is None:
        raise InvalidRequest(f"topic {name}: nothing to change; give configuration values, or a number of partitions")
    Warehouse(known.driver).topic(name).alter(config, partitions)
    return TopicSummary.of(known.topic(name))


def delete_topic(known: KnownPartitions, name: str) -> TopicSummary:
    topic = known.topic(name)
    known.driver.run(catalog.delete_topic(topic_lineage(name), topic))
    return TopicSummary.of(topic)


def delete_records(known: KnownPartitions, topic: str, partition: int, before_offset: int) -> LogStart:
    start = Warehouse(known.driver).topic(topic).partition(partition).delete_records(before_offset)
    return LogStart(topic=topic, partition=partition, log_start_offset=start)


def describe_topic(known: KnownPartitions, name: str) -> TopicInfo:
    places = Places.of(known, name)
    infos: list[PartitionInfo] = []
    failures: list[PartitionFailure] = []
    outcomes = known.driver.each(lambda found: describe(known, found), places.chosen)
    for found, info in zip(places.chosen, outcomes, strict=True):
        if isinstance(info, Exception):
            failures.append(PartitionFailure(found.keys.partition, Fault.of(info)))
        else:
            infos.append(info)
    return topic_info(places.topic, tuple(infos), tuple(failures))


def describe(known: KnownPartitions, found: FoundPartition) -> PartitionInfo:
    async def read(files: PartitionFiles) -> PartitionInfo:
        looked = await look(files)
        return described(looked, bounded(looked.head, found.topic), parse(found.topic.config), await Now())

    return known.run(found.keys, read)


def bounded(manifest: Manifest, topic: TopicFile) -> Manifest:
    """`manifest`, with the bounds in force if an earlier version of lithify stored none in it."""
    return manifest if manifest.retention else msgspec.structs.replace(manifest, retention=bounds_before(topic))
