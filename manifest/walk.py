"""One walk over the topics and partitions of a warehouse, which continues past what cannot be read."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage, topic_names
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver
from lithify.store.errors import ErrorKind

__all__ = ["FoundPartition", "UnreadTopic", "partitions_found", "topics_found"]


class FoundPartition(NamedTuple):
    keys: PartitionKeys
    topic: TopicFile


class UnreadTopic(NamedTuple):
    """Its newest file cannot be read, so its partitions are not known."""

    topic: str
    fault: Fault


def topics_found(driver: Driver) -> Iterator[tuple[str, TopicFile | Fault]]:
    """Every live topic with its name, in name order, or why it cannot be read (it may be deleted, too). Raises what
    listing the names raises."""
    for name in sorted(driver.run(topic_names())):
        found = _read(driver, name)
        if not (isinstance(found, Fault) and found.kind is ErrorKind.NOT_FOUND):
            yield name, found


def partitions_found(driver: Driver, topic: str | None = None) -> Iterator[FoundPartition | UnreadTopic]:
    """Every partition of every live topic, or of `topic`, in order. Raises NotFound where `topic` does not exist, and
    what the listing of names raises."""
    for name, known in topics_found(driver) if topic is None else _named(driver, topic):
        if isinstance(known, Fault):
            yield UnreadTopic(name, known)
        else:
            yield from (FoundPartition(keys, known) for keys in partition_keys(known))


def _named(driver: Driver, name: str) -> Iterable[tuple[str, TopicFile | Fault]]:
    found = _read(driver, name)
    if isinstance(found, Fault) and found.kind is ErrorKind.NOT_FOUND:
        raise found.error()
    return [(name, found)]


def _read(driver: Driver, name: str) -> TopicFile | Fault:
    return attempt(lambda: driver.run(live_topic(topic_lineage(name), name)))
