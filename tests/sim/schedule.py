"""Whose turn it is. Uniform choice finds races of many hands; random priorities that change at a few random steps (PCT:
Burckhardt et al., 2010) find those that need one actor to stand still while others go far; bursts lie between."""

import random
from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Bursts", "Priorities", "Scheduler", "Script", "Uniform"]

Turns = list[tuple[str, int]]
"""(actor, steps): who had the word, for how long."""


class Scheduler(Protocol):
    scripted: bool  # chooses among all actors, sleepers included

    def joined(self, name: str) -> None: ...
    def choose(self, awake: Sequence[Any], step: int) -> Any: ...


class Uniform:
    scripted = False

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def joined(self, name: str) -> None:
        """Nobody is special."""

    def choose(self, awake: Sequence[Any], step: int) -> Any:
        return awake[int(self._dice.random() * len(awake))]


class Bursts:
    """One actor for a while, then another."""

    scripted = False

    def __init__(self, dice: random.Random, length: int) -> None:
        self._dice = dice
        self._stay = 1 - 1 / length
        self._current: Any = None

    def joined(self, name: str) -> None:
        """Nobody is special."""

    def choose(self, awake: Sequence[Any], step: int) -> Any:
        if self._current not in awake or self._dice.random() > self._stay:
            self._current = awake[int(self._dice.random() * len(awake))]
        return self._current


class Priorities:
    """The one with the highest priority goes on until it sleeps; at each of `changes` steps it becomes the lowest."""

    scripted = False

    def __init__(self, dice: random.Random, changes: int, steps: int) -> None:
        self._dice = dice
        self._changes = frozenset(dice.randrange(steps) for _ in range(changes))
        self._rank: dict[str, float] = {}
        self._lowest = 0.0

    def joined(self, name: str) -> None:
        self._rank[name] = self._dice.random()

    def choose(self, awake: Sequence[Any], step: int) -> Any:
        first = max(awake, key=lambda actor: self._rank[actor.name])
        if step in self._changes:
            self._lowest -= 1
            self._rank[first.name] = self._lowest
            first = max(awake, key=lambda actor: self._rank[actor.name])
        return first


class Script:
    """Turns as they were recorded, or what is left of them; who is not there is passed over."""

    scripted = True

    def __init__(self, turns: Turns) -> None:
        self._names = (name for name, count in turns for _ in range(count))

    def joined(self, name: str) -> None:
        """The script knows when it is their turn."""

    def choose(self, awake: Sequence[Any], step: int) -> Any:
        there = {actor.name: actor for actor in awake}
        return next((there[name] for name in self._names if name in there), None)
