"""What a standby has seen of the owner while something was due (P5, docs/rfcs/0014). Pure."""

from typing import NamedTuple

from lithify.compactor.policy import LEASE_MS, pinned_by
from lithify.manifest.ages import young
from lithify.manifest.floor import droppable
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import Manifest
from lithify.manifest.retention import floor_at

__all__ = ["Watched", "may_come", "watched"]


class Watched(NamedTuple):
    since_ms: int  # no sign of life since then, and something was due
    heartbeat_at_ms: int  # the owner's latest one in `.compactor`
    below_floor: frozenset[str]  # what was to be retired then


def watched(before: Watched | None, manifest: Manifest, state: CompactorState | None, now_ms: int) -> Watched:
    """What is known after one more look at which something is due. `before`: after the one before, if that was so then.

    SUBTLE! To retire segments is an edit of the manifest, which the owner alone makes, and shows no other life. Where
    retention is all that is due, each look may find some more of it: if the lease went on while what the first look
    found is done, two that look in turn would fence each other for ever. Test: tests/compactor/test_standby.py
    """
    heartbeat_at_ms = 0 if state is None else state.heartbeat_at_ms
    below = droppable(manifest, floor_at(manifest, now_ms), pinned_by(state))
    now = Watched(now_ms, heartbeat_at_ms, frozenset(segment.id for segment in below))
    silent = before is not None and before.heartbeat_at_ms == heartbeat_at_ms and before.below_floor <= now.below_floor
    return before if before is not None and silent else now


def may_come(seen: Watched, now_ms: int) -> bool:
    """Whether the owner still has time to begin what is due."""
    return young(seen.since_ms, now_ms, LEASE_MS)
