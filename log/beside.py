"""Readers that stay where they are: those of several partitions are asked in turn (docs/rfcs/0030)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from lithify.log.small_partitions import TOGETHER_MAX
from lithify.store.driver import Driver
from lithify.store.side_by_side import result

__all__ = ["ItsTurn", "asked_in_turn"]

R = TypeVar("R")
T = TypeVar("T")


class ItsTurn(Exception):
    """A reader that is asked beside others has more to do than it may there: ask it alone."""


def asked_in_turn(
    driver: Driver, readers: Iterable[tuple[int, R]], alone: Callable[[R], T], beside: Callable[[R], T]
) -> Iterator[tuple[int, Callable[[], T]]]:
    """How to ask each of `readers`, by number: call what comes with it, at once.

    Those of a far store have been asked by then, TOGETHER_MAX of them side by side, so that they do not wait for one
    another. It is threads of the warehouse's store that ask `beside`: where that is not enough, it raises ItsTurn, and
    the caller asks `alone`.
    """
    left = list(readers)
    while left:
        together, left = left[:TOGETHER_MAX], left[TOGETHER_MAX:]
        outcomes: Sequence[T | Exception] = [ItsTurn()] * len(together)
        if driver.store.far and len(together) > 1:
            outcomes = driver.each(beside, [reader for _, reader in together])
        for (number, reader), outcome in zip(together, outcomes, strict=True):
            yield number, partial(alone, reader) if isinstance(outcome, ItsTurn) else partial(result, outcome)
