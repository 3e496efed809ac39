"""The edits that stop compaction of a partition, and allow it again (R6). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.claims import fenced
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import Manifest, Quarantine
from lithify.manifest.refusals import not_created, topic_gone

__all__ = ["LiftQuarantine", "SetQuarantine"]


@dataclass(frozen=True, slots=True)
class SetQuarantine:
    """Stop compaction of the partition: a segment is corrupt and a person must look (R6)."""

    epoch: int
    reason: str
    segment: str

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return Refused(topic_gone(head))  # its segments are missing because they were collected
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        if head.quarantine is not None:
            return Already(None)
        return Next(replace(head, quarantine=Quarantine(self.reason, self.segment, now_ms)), None)


@dataclass(frozen=True, slots=True)
class LiftQuarantine:
    """Allow compaction again: a person has looked and repaired."""

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        return Already(None) if head.quarantine is None else Next(replace(head, quarantine=None), None)
