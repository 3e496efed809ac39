"""What edits answer before a partition is created, and after its topic is deleted. Pure."""

from lithify.manifest.edits import Refused
from lithify.manifest.model import Manifest
from lithify.store.errors import NotFound

__all__ = ["not_created", "refused_for_good", "topic_gone"]


def topic_gone(head: Manifest) -> NotFound:
    return NotFound(f"topic {head.topic} was deleted; if a new topic has that name, open it again")


def refused_for_good(head: Manifest) -> Refused:
    """The refusal of a sealed partition; it is final.

    SUBTLE! 1. A client sees the partition alive, and creates a number that is collected by now. 2. Nobody can tell what
    happened to that commit (P4). It does not matter: whatever it was, it was deleted with the topic. Test:
    tests/log/test_deleted_topics.py
    """
    return Refused(topic_gone(head), final=True)


def not_created() -> Refused:
    """The refusal of a partition that has no manifest yet."""
    return Refused(NotFound("the partition has no manifest; create the topic first"))
