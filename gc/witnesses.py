"""The witnesses of a topic, by which its other homes know this warehouse (docs/rfcs/0032). Coroutines."""

from lithify.gc.objects import every_object
from lithify.gc.reachable import Garbage
from lithify.manifest.catalog import partition_keys
from lithify.manifest.homes import named_homes
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.store.owners import witnesses

__all__ = ["witness_garbage"]


async def witness_garbage(topic: TopicFile) -> list[Garbage]:
    """What may go of them, if the topic has nothing in another home any more: before that they are needed to delete
    there. Requires: the topic is deleted."""
    found = await every_object(witnesses(topic.topic, topic.topic_id))
    for keys in partition_keys(topic) if found else ():
        head = (await PartitionFiles(keys).manifest.refresh()).value
        if head is not None and not _over(head):
            return []
    return [Garbage(each.key, each.size, "its topic is deleted", cause="orphan") for each in found]


def _over(head: Manifest) -> bool:
    return head.sealed and not (head.homes or named_homes(head) or head.checkpoints or head.unpinned)
