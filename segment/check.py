"""Segments to check, and what is wrong with them: data that crosses process borders, without rows or secrets."""

from typing import Literal

import msgspec

from lithify.manifest.homes import where
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.segment.segments import Segments
from lithify.store.apart import Failure, attempt
from lithify.store.errors import NotFound
from lithify.store.homes import Homes

__all__ = ["CheckTask", "Finding", "check_segments", "finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong; `message` names the object and what to do."""

    object: str
    kind: Literal["corrupt", "missing", "unreadable"]  # unreadable: nothing is known, try again
    message: str


class CheckTask(msgspec.Struct, frozen=True, tag="check"):
    """Segments of a partition to check. `deep`: their rows too, not only their bytes."""

    deep: bool
    keys: PartitionKeys
    segments: tuple[SegmentRef, ...]


def finding(where: str, failure: Failure, text: str) -> Finding:
    """What `failure` means for the object `where`; `text` is the message."""
    kind: Literal["missing", "corrupt", "unreadable"] = "corrupt" if failure.damaged else "unreadable"
    return Finding(object=where, kind="missing" if isinstance(failure.error, NotFound) else kind, message=text)


def check_segments(homes: Homes, task: CheckTask) -> tuple[Finding, ...]:
    """Check the task's segments. Never raises: an object that cannot be read is a finding, under its key."""
    segments = Segments(task.keys, homes)
    check = segments.verify_rows if task.deep else segments.verify
    found: list[Finding] = []
    for ref in task.segments:
        key = where(task.keys, ref).key
        outcome = attempt(lambda ref=ref: check(ref))
        if isinstance(outcome, Failure):
            text = outcome.text
            if isinstance(outcome.error, NotFound):
                text = f"{key} is missing: restore the object from a copy, then 'lithify compaction retry'"
            found.append(finding(key, outcome, text))
    return tuple(found)
