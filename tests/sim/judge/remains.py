"""What may lie in the store once everything has come to rest: every object of a partition is accounted for."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tests.sim.judge.layout import Json, live, place_of

__all__ = ["Stand", "expired_pins", "left_by_a_pass", "left_over", "unaccounted"]


def _pins(head: Json) -> set[int]:
    return {each["manifest"] for each in head.get("checkpoints", ())}


class Stand(NamedTuple):
    """Of a partition, before a pass of collection."""

    boundary: Json | None
    head: Json


def left_by_a_pass(keys: Iterable[str], root: str, before: Stand, after: Stand) -> str | None:
    """What a pass of collection should have deleted and did not: the numbers that its boundary has just passed, and
    uploads, at a time when all have expired. What a checkpoint pinned when it began, it leaves to a sweep (RFC 0005).
    """
    former, latest = before.boundary or {}, after.boundary or {}
    if after.head.get("uploads"):
        return f"{root}: a pass lets upload {after.head['uploads'][0]['id']} stand, which has expired (P22)"
    for key in keys:
        place = place_of(key) if key.startswith(root) else None
        if place is None or place.folder not in ("manifest", "compactor"):
            continue
        number = place.number
        passed = number is not None and former.get(place.folder, 0) < number <= latest.get(place.folder, 0)
        if passed and not (place.folder == "manifest" and number in _pins(before.head)):
            return f"{key} is dead, and a pass that made it so left it behind (P16, RFC 0005)"
    return None


def left_over(
    keys: Iterable[str], root: str, head: Json, pinned: Iterable[Json], boundary: Json | None, history: Iterable[Json]
) -> str | None:
    """What is left at rest and should not be. `pinned`: the manifests that checkpoints pin; `history`: ended jobs."""
    if head.get("retired"):
        return f"{root}: {head['retired'][0]['id']} is retired, and is in the list long after its grace period (P16)"
    if head.get("unpinned"):
        return f"{root}: nobody pins manifest {head['unpinned'][0]}, and nobody looked at what only it named (P16)"
    if head.get("uploads"):
        return f"{root}: upload {head['uploads'][0]['id']} stands long after it has expired (P22)"
    dead = {chain: (boundary or {}).get(chain, 0) for chain in ("manifest", "compactor")}  # boundary files stay
    named = live(head).union(*(live(each) for each in pinned))
    kept = [] if head.get("sealed") else [job["id"] for job in history if job["status"] in ("failed", "cancelled")]
    for key in keys:
        place = place_of(key) if key.startswith(root) else None
        if place is None:
            continue
        segment, number = place.segment, place.number
        if segment is not None:
            if segment not in named and not any(segment.startswith(job + "-") for job in kept):
                return f"{key} is left behind: nothing names it (P16, P18)"
        elif place.run_list is not None:
            continue  # tests/sim/lists.py
        elif number is None:
            return f"{key} is none of the partition's files"
        elif number <= dead.get(place.folder, 0) and not (place.folder == "manifest" and number in _pins(head)):
            return f"{key} is dead, and is left behind (P18)"
    return None


def unaccounted(keys: Iterable[str], roots: Collection[str], topic: str, others: Collection[str]) -> str | None:
    """An object that belongs to no partition, nor to the topic itself, nor to somebody else."""
    for key in keys:
        place = place_of(key)
        if key in others or key.startswith((f"{topic}/config/", f"@ended/{topic}/")):
            continue
        if place is None or place.root not in roots:
            return f"{key} belongs to nothing (P18)"
    return None


def expired_pins(head: Json, now_ms: int) -> Mapping[str, int]:
    """Checkpoints whose time is over, and how long."""
    found = {each["name"]: now_ms - (each.get("expires_at_ms") or now_ms) for each in head.get("checkpoints", ())}
    return {name: over_ms for name, over_ms in found.items() if over_ms > 0}
