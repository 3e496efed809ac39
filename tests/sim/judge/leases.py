"""Who may be replaced (P5): nobody who plans or works, and has written within the lease."""

from collections.abc import Sequence

from tests.sim.judge.layout import Json

__all__ = ["LEASE_MS", "claimed_wrongly", "left_wrongly", "replaced_by_ms"]

LEASE_MS = 30_000  # RFC 0003


def claimed_wrongly(states: Sequence[Json], since_ms: int, until_ms: int) -> str | None:
    """`states`: the `.compactor` files, any of which a claim without an order to take over may have gone by, between
    two times."""
    if not states:
        return None
    if any(_shows_no_life(state, at_ms) for state in states for at_ms in (since_ms, until_ms)):
        return None
    state = states[-1]
    return f"{state.get('owner_name')} wrote at {state.get('heartbeat_at_ms', 0)}, is at work, and is fenced (P5)"


def left_wrongly(previous: Json, state: Json, *, by_owner: bool) -> str | None:
    """Whether the partition lost its owner by another's hand, or in the middle of its work."""
    if state.get("owner") or not previous.get("owner"):
        return None
    name = previous.get("owner_name")
    if not by_owner:
        return f"{name} owns the partition, and another gives it up (P5)"
    return f"{name} gives the partition up, and is at work (P5)" if _attempts(previous) else None


def replaced_by_ms(state: Json, since_ms: int, round_ms: int) -> int:
    """By when somebody who stands by has claimed what is due since then, if its owner is gone (RFC 0014): a round finds
    it due, and the first round that comes a lease later begins; if the owner left, that round itself. If the owner's
    clock was ahead, its heartbeat counts from a lease before its time until a lease after it, which may begin just
    before that round."""
    if state and not state.get("owner"):
        return since_ms + 2 * round_ms
    ahead_ms = max(state.get("heartbeat_at_ms", 0) - since_ms, 0)
    return since_ms + LEASE_MS + 2 * round_ms + min(ahead_ms, 2 * LEASE_MS + 2 * round_ms)


def _shows_no_life(state: Json, at_ms: int) -> bool:
    works = bool(state.get("owner")) and (state.get("planning", False) or _attempts(state))
    return not works or abs(at_ms - state.get("heartbeat_at_ms", 0)) >= LEASE_MS


def _attempts(state: Json) -> bool:
    """Whether one is open."""
    return any(a.get("ended_at_ms") is None for job in state.get("jobs", ()) for a in job.get("attempts", ()))
