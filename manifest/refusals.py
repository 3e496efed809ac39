"""What edits answer before a partition was created, and after its topic was deleted. Pure."""

from lithify.manifest.commit import Refused
from lithify.manifest.model import Manifest
from lithify.store.errors import NotFound

__all__ = ["not_created", "refused_for_good", "topic_gone"]


def topic_gone(head: Manifest) -> NotFound:
    return NotFound(f"topic {head.topic} was deleted; a topic of that name made since is another one: open it anew")


def refused_for_good(head: Manifest) -> Refused:
    """By a sealed partition. SUBTLE! A client that saw it alive a moment ago may create a number that is collected by
    now, and then nobody can tell what became of that (P4). Nobody need: whatever was there went with the topic.
    Test: tests/log/test_deleted_topics.py
    """
    return Refused(topic_gone(head), final=True)


def not_created() -> Refused:
    """By a partition that has no manifest yet."""
    return Refused(NotFound("the partition has no manifest; create the topic first"))
