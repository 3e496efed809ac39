"""Segments to look at, and what is wrong with them: data that crosses process borders, without rows or secrets."""

from typing import Literal

import msgspec

from lithify.manifest.model import SegmentRef
from lithify.segment.verify import verify, verify_rows
from lithify.store.apart import Failure, attempt
from lithify.store.errors import NotFound
from lithify.store.port import Store

__all__ = ["CheckTask", "Finding", "check_segments", "finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong; `message` names the object and what to do."""

    object: str
    kind: Literal["corrupt", "missing", "unreadable"]  # unreadable: nothing is known, try again
    message: str


class CheckTask(msgspec.Struct, frozen=True, tag="check"):
    """Segments to check, under their keys; `deep`: their rows, too, and not only their bytes."""

    deep: bool
    segments: tuple[tuple[str, SegmentRef], ...]


def finding(where: str, failure: Failure, text: str) -> Finding:
    """What `failure` means for the object `where`, told as `text`."""
    kind: Literal["missing", "corrupt", "unreadable"] = "corrupt" if failure.damaged else "unreadable"
    return Finding(object=where, kind="missing" if isinstance(failure.error, NotFound) else kind, message=text)


def check_segments(store: Store, task: CheckTask) -> tuple[Finding, ...]:
    """Never raises: what cannot be read is a finding."""
    check = verify_rows if task.deep else verify
    found: list[Finding] = []
    for key, ref in task.segments:
        outcome = attempt(lambda key=key, ref=ref: check(store, key, ref))
        if isinstance(outcome, Failure):
            text = outcome.text
            if isinstance(outcome.error, NotFound):
                text = f"{key} is missing: restore the object from a copy, then 'lithify compaction retry'"
            found.append(finding(key, outcome, text))
    return tuple(found)
