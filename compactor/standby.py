"""What a standby has seen of the owner while something was due (P5, docs/rfcs/0014). Pure."""

from typing import NamedTuple

from lithify.compactor.policy import LEASE_MS, incumbent_lives
from lithify.manifest.ages import young
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import Manifest

__all__ = ["Watched", "waits_for", "watched"]


class Watched(NamedTuple):
    since_ms: int  # no sign of life since then, and something was due
    heartbeat_at_ms: int  # the owner's latest one in `.compactor`
    live: frozenset[str]  # the segments of the latest look


def watched(before: Watched | None, manifest: Manifest, state: CompactorState | None, now_ms: int) -> Watched:
    """What is known after one more look at which something is due. `before`: after the one before, if that was so then.

    SUBTLE! To retire segments is an edit of the manifest, which the owner alone makes, and shows no other life. Where
    retention is all that it finds to do, a standby that did not take this for life would fence it, and be fenced in its
    turn. Test: tests/compactor/test_standby.py
    """
    heartbeat_at_ms = 0 if state is None else state.heartbeat_at_ms
    now = Watched(now_ms, heartbeat_at_ms, frozenset(segment.id for segment in manifest.segments()))
    if before is None or before.since_ms > now_ms:  # the clock has stepped back: how long it has been is not known
        return now
    silent = before.heartbeat_at_ms == heartbeat_at_ms and before.live <= now.live
    return now._replace(since_ms=before.since_ms) if silent else now


def waits_for(state: CompactorState, seen: Watched | None, now_ms: int) -> str | None:
    """Why somebody else than the owner leaves the partition alone; None: it need not. `seen`: where it stands by.

    SUBTLE! An idle owner shows no life. If who lost a partition claimed it as soon as something is due there, the two
    would fence each other in turn. And it is the owner who shows life, not whoever writes `.compactor`: else requests,
    one in each lease, would keep everybody away from what a dead owner left. Test: tests/compactor/test_standby.py
    """
    if incumbent_lives(state, now_ms):
        return f"{state.owner_name} is at work here"
    may_come = seen is not None and young(seen.since_ms, now_ms, LEASE_MS)
    return f"{state.owner_name} owns this, and may be about to begin" if may_come else None
