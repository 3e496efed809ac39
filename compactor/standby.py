"""What a standby has seen of the owner while something was due (P5, docs/rfcs/0014). Pure."""

from typing import NamedTuple

from lithify.compactor.policy import LEASE_MS, incumbent_lives
from lithify.manifest.ages import young
from lithify.manifest.reading import Reading
from lithify.manifest.words import span_text

__all__ = ["Watched", "waits_for", "watched"]


class Watched(NamedTuple):
    since_ms: int  # since then something was due, and the owner showed no life
    heartbeat_at_ms: int  # the owner's latest, in `.compactor`
    live: frozenset[str]  # the live segments at the latest look


def watched(before: Watched | None, reading: Reading) -> Watched:
    """What is known after one more look that found something due. `before`: after the previous look, if that found
    something due too.

    SUBTLE! Retiring segments is a sign of life: an edit of the manifest that only the owner makes. 1. Owner A finds
    only retention to do, and writes no heartbeat. 2. Standby B sees no life, and fences A. 3. A stands by, and fences B
    in turn. Test: tests/compactor/test_standby.py
    """
    now_ms, heartbeat_at_ms = reading.now_ms, reading.state.heartbeat_at_ms
    now = Watched(now_ms, heartbeat_at_ms, frozenset(segment.id for segment in reading.manifest.segments()))
    if before is None or before.since_ms > now_ms:  # the clock has stepped back: the time since is unknown
        return now
    silent = before.heartbeat_at_ms == heartbeat_at_ms and before.live <= now.live
    return now._replace(since_ms=before.since_ms) if silent else now


def waits_for(reading: Reading, seen: Watched | None) -> str | None:
    """Why a compactor that is not the owner leaves the partition alone. None: it need not. `seen`: for a standby.

    SUBTLE! An idle owner shows no life. If the loser of a partition claimed it as soon as something is due, the two
    would fence each other in turn; so a standby waits a lease. And only the owner's signs of life count, not every
    write to `.compactor`: otherwise one request per lease would keep every standby away from a dead owner's partition.
    Test: tests/compactor/test_standby.py
    """
    state, now_ms = reading.state, reading.now_ms
    if incumbent_lives(state, now_ms):
        return f"{state.owner_name} is at work here"
    if seen is None or not young(seen.since_ms, now_ms, LEASE_MS):
        return None
    left = span_text(LEASE_MS - (now_ms - seen.since_ms))
    return f"{state.owner_name} owns this, and may be about to begin; unless it does, this compactor begins in {left}"
