"""One walk over the topics and partitions of a warehouse, which continues past what cannot be read."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from lithify.manifest.catalog import partition_keys, topic_names
from lithify.manifest.each import AT_ONCE
from lithify.manifest.keys import PartitionKeys, check_topic_name
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import TopicFile
from lithify.store.apart import Fault, attempt
from lithify.store.errors import ErrorKind

__all__ = ["FoundPartition", "UnreadTopic", "partitions_found", "topics_found"]


class FoundPartition(NamedTuple):
    keys: PartitionKeys
    topic: TopicFile


class UnreadTopic(NamedTuple):
    """Its newest file cannot be read, so its partitions are not known."""

    topic: str
    fault: Fault


def topics_found(known: KnownPartitions, *, anew: bool = False) -> Iterator[tuple[str, TopicFile | Fault]]:
    """Every live topic with its name, in name order, or why it cannot be read (it may be deleted, too). Those of a far
    store are read AT_ONCE side by side. Raises what listing the names raises. `known` forgets the topics that are no
    more. `anew`: as in KnownPartitions."""
    names = sorted(known.driver.run(topic_names()))
    known.keep(frozenset(names))
    for start in range(0, len(names), AT_ONCE):
        together = names[start : start + AT_ONCE]
        for name, found in zip(together, known.driver.all_of(partial(_read, known, anew=anew), together), strict=True):
            if not (isinstance(found, Fault) and found.kind is ErrorKind.NOT_FOUND):
                yield name, found


def partitions_found(
    known: KnownPartitions, topic: str | None = None, *, anew: bool = False
) -> Iterator[FoundPartition | UnreadTopic]:
    """Every partition of every live topic, or of `topic`, in order. Raises NotFound where `topic` does not exist,
    InvalidRequest where none may have that name, and what the listing of names raises."""
    for name, found in topics_found(known, anew=anew) if topic is None else _named(known, topic, anew):
        if isinstance(found, Fault):
            yield UnreadTopic(name, found)
        else:
            yield from (FoundPartition(keys, found) for keys in partition_keys(found))


def _named(known: KnownPartitions, name: str, anew: bool) -> Iterable[tuple[str, TopicFile | Fault]]:
    found = _read(known, check_topic_name(name), anew=anew)
    if isinstance(found, Fault) and found.kind is ErrorKind.NOT_FOUND:
        raise found.error()
    return [(name, found)]


def _read(known: KnownPartitions, name: str, *, anew: bool) -> TopicFile | Fault:
    return attempt(lambda: known.topic(name, anew=anew))
