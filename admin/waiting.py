"""Waiting for compactions to end: asks again and again, wherever they run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lithify.admin.at_once import asked_at_once
from lithify.compactor.info import CompactionInfo
from lithify.store.driver import pause

if TYPE_CHECKING:
    from lithify.admin.client import Admin

__all__ = ["POLL_MS", "ended", "finished"]

POLL_MS = 1_000
_OVER = ("completed", "failed", "cancelled")
Tell = Callable[[Sequence[CompactionInfo]], None]


def ended(info: CompactionInfo) -> bool:
    return info.status in _OVER


def finished(
    admin: "Admin", infos: Sequence[CompactionInfo], tell: Tell, wait: Callable[[int], None] = pause
) -> list[CompactionInfo]:
    """The compactions, once none of them is submitted or running any more. `tell` gets them after each look. It waits
    as long as it takes: without a compactor, for ever."""
    found = list(infos)
    tell(found)
    while not all(map(ended, found)):
        wait(POLL_MS)
        found = asked_at_once(lambda each: each if ended(each) else admin.compaction(each.id), found)
        tell(found)
    return found
