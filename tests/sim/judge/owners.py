"""Whose pins there are, and who let go of which (P20, RFC 0016)."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.sim.judge.layout import Json

__all__ = ["BOUNDS", "HOUR_MS", "let_go_by_another"]

BOUNDS = {"user": 256, "scan": 512, "view": 16}
HOUR_MS = 3_600_000


def let_go_by_another(
    previous: Json, manifest: Json, makers: Mapping[str, object], who: object, bounds: Mapping[str, int]
) -> str | None:
    """`makers`: who made each pin, by its id; `who`: who made this manifest; `bounds`: of each owner's pins."""
    return next(_wrong(previous, manifest, makers, who, bounds), None)


def _wrong(
    previous: Json, manifest: Json, makers: Mapping[str, object], who: object, bounds: Mapping[str, int]
) -> Iterator[str]:
    before, after, at_ms = _pins(previous), _pins(manifest), manifest["committed_at_ms"]
    for owner, most in bounds.items():
        if len(_of(owner, after)) > most:
            yield f"{len(_of(owner, after))} pins are {owner}s', of at most {most} (P20)"
    for pin in after.values():
        renewed = pin != before.get(pin["id"])
        if _owner(pin) == "scan" and renewed and not at_ms < (pin.get("expires_at_ms") or 0) <= at_ms + HOUR_MS:
            yield f"scan {pin['name']} pins for longer than an hour (P20)"
    if len({(_owner(pin), pin["name"]) for pin in after.values()}) < len(after):
        yield "two pins of one owner have one name (P20)"
    if manifest.get("sealed"):
        return
    added = [pin for name, pin in after.items() if name not in before]
    for name in before.keys() - after.keys():
        gone = before[name]
        if _expired(gone, at_ms) or (not added and makers.get(name) == who):
            continue
        if gone.get("expires_at_ms") and any(_same(gone, pin) for pin in added):
            continue  # found expired by an earlier reading of the clock: tests/sim/truth.py knows by how much
        if not _gives_way(gone, before, after, added, bounds):
            yield f"{who} lets go of {_owner(gone)} {gone['name']}, which {makers.get(name)} made (P20)"


def _gives_way(
    gone: Json, before: Mapping[str, Json], after: Mapping[str, Json], added: list[Any], bounds: Any
) -> bool:
    """Whether it is the oldest pin of a view, and had to for one more of a view."""
    views = [pin for pin in _of("view", after) if pin["id"] in before]
    return (
        _owner(gone) == "view"
        and [_owner(pin) for pin in added] == ["view"]
        and len(_of("view", before)) >= bounds["view"]
        and len(views) == bounds["view"] - 1
        and all(gone["manifest"] < pin["manifest"] for pin in views)
    )


def _pins(manifest: Json) -> dict[str, Json]:
    return {each["id"]: each for each in manifest.get("checkpoints", ())}


def _owner(pin: Json) -> str:
    return pin.get("owner", "user")


def _same(one: Json, other: Json) -> bool:
    return (_owner(one), one["name"]) == (_owner(other), other["name"])


def _of(owner: str, pins: Mapping[str, Json]) -> list[Json]:
    return [pin for pin in pins.values() if _owner(pin) == owner]


def _expired(pin: Json, at_ms: int) -> bool:
    expires_ms = pin.get("expires_at_ms")
    return expires_ms is not None and expires_ms <= at_ms
