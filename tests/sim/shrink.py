"""Making a failing history small: actors away, faults gone, turns not taken, as long as some violation is still found.

Each dice belongs to one actor, so that what is left goes on much as before; the turns are played from the record.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.sim.history import Found, Mask, play

__all__ = ["shrunk"]

T = TypeVar("T")
TRIES_MAX = 1_500


def shrunk(found: Found, tries_max: int = TRIES_MAX) -> tuple[Mask, Found]:
    """The smallest mask that was found for this failing history, and what it comes to."""
    tries = 0
    best = found

    def fails(mask: Mask) -> bool:
        nonlocal tries, best
        tries += 1
        if tries > tries_max:
            return False
        result = play(found.seed, mask)
        if result.violation is not None:
            best = result
        return result.violation is not None

    mask = Mask(bright=True)
    if not fails(mask):
        mask = Mask()
    away = _without_needless(found.actors, lambda names: fails(replace(mask, without=frozenset(names))))
    mask = replace(mask, without=frozenset(away))
    first = play(found.seed, mask)
    scripted = replace(mask, turns=tuple((name, count) for name, count in first.turns))
    mask = scripted if fails(scripted) else mask
    gone = _without_needless(first.faults, lambda places: fails(replace(mask, calm=frozenset(places))))
    mask = replace(mask, calm=frozenset(gone))
    if mask.turns is not None:
        turns = list(mask.turns)
        dropped = _without_needless(
            range(len(turns)), lambda out: fails(replace(mask, turns=_less(turns, frozenset(out))))
        )
        mask = replace(mask, turns=_less(turns, frozenset(dropped)))
    return mask, play(found.seed, mask, tracing=True) if tries else best


def _less(turns: Sequence[tuple[str, int]], out: frozenset[int]) -> tuple[tuple[str, int], ...]:
    left: list[tuple[str, int]] = []
    for at, (name, count) in enumerate(turns):
        if at in out:
            continue
        if left and left[-1][0] == name:
            left[-1] = (name, left[-1][1] + count)
        else:
            left.append((name, count))
    return tuple(left)


def _without_needless(items: Sequence[T], still: Callable[[list[T]], bool]) -> list[T]:
    """The most of `items` that can be taken away (delta debugging): halves, quarters, then one by one."""
    away: list[T] = []
    size = max(len(items) // 2, 1)
    while items:
        for start in range(0, len(items), size):
            chunk = [item for item in items[start : start + size] if item not in away]
            if chunk and still([*away, *chunk]):
                away += chunk
        if size == 1:
            break
        size = size // 2
    return away
