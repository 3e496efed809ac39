"""Segments to check, and what is wrong with them: data that crosses process borders, without rows or secrets."""

from collections import deque
from collections.abc import Iterator
from typing import Literal

import msgspec

from lithify.manifest.homes import where
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.segment.segments import Segments
from lithify.segment.verify import CHECKS_MAX
from lithify.store.apart import Fault, attempt
from lithify.store.errors import RESTORE, ErrorKind
from lithify.store.fetching import begun
from lithify.store.homes import Homes

__all__ = ["CheckTask", "Finding", "check_segments", "finding", "unread"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong; `message` names the object and what to do.

    Not a Fault: it is about the state of an object, and not about a request that failed. A manifest that breaks an
    invariant, or a segment in another home, is a finding although nothing was refused.
    """

    object: str
    kind: Literal["corrupt", "missing", "unreadable"]  # unreadable: nothing is known, try again
    message: str


class CheckTask(msgspec.Struct, frozen=True, tag="check"):
    """Segments of a partition to check. `deep`: their rows too, not only their bytes."""

    deep: bool
    keys: PartitionKeys
    segments: tuple[SegmentRef, ...]


def finding(where: str, fault: Fault, text: str) -> Finding:
    """What `fault` means for the object `where`; `text` is the message."""
    match fault.kind:
        case ErrorKind.NOT_FOUND:
            return Finding(object=where, kind="missing", message=text)
        case ErrorKind.CORRUPT:
            return Finding(object=where, kind="corrupt", message=text)
        case _:
            return Finding(object=where, kind="unreadable", message=text)


def unread(task: CheckTask, why: str) -> tuple[Finding, ...]:
    """The findings of a task that nobody did: nothing is known of its segments."""
    return tuple(Finding(object=where(task.keys, ref).key, kind="unreadable", message=why) for ref in task.segments)


def check_segments(homes: Homes, task: CheckTask) -> tuple[Finding, ...]:
    """Check the task's segments. Never raises: an object that cannot be read is a finding, under its key."""
    segments = Segments(task.keys, homes)

    def begin(ref: SegmentRef) -> Iterator[None] | Fault:
        return attempt(lambda: segments.verify_steps(ref, whole=True))

    def end(ref: SegmentRef, steps: Iterator[None]) -> None:
        if task.deep:
            segments.check_rows(ref, steps)
        else:
            deque(steps, 0)

    found: list[Finding] = []
    for ref, steps in begun(begin, task.segments, CHECKS_MAX):
        key = where(task.keys, ref).key
        outcome = steps if isinstance(steps, Fault) else attempt(lambda ref=ref, steps=steps: end(ref, steps))
        if isinstance(outcome, Fault):
            text = outcome.message.replace(RESTORE, "Restore the object from a copy")  # all damage is found here
            if outcome.kind is ErrorKind.NOT_FOUND:
                text = f"{key} is missing: restore the object from a copy"
            found.append(finding(key, outcome, text))
    return tuple(found)
