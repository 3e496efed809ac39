"""The same asked of an Admin about each of several partitions, all at once: a far store takes its time, and so does a
server."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from lithify.store.apart import Fault, attempt
from lithify.store.many import many

__all__ = ["asked_at_once", "done_at_once"]

A = TypeVar("A")
T = TypeVar("T")


def asked_at_once(ask: Callable[[A], T], places: Iterable[A]) -> list[T]:
    """What `ask` returns for each, in their order. Raises the failure that came first, and begins no other then."""
    return many(ask, places)


def done_at_once(do: Callable[[A], T], places: Iterable[A]) -> tuple[list[T], list[Fault]]:
    """What `do` returns for those with which it succeeds, and why it failed with the others, each in their order."""
    done: list[T] = []
    failed: list[Fault] = []
    for outcome in many(lambda place: attempt(lambda: do(place)), places):
        if isinstance(outcome, Fault):
            failed.append(outcome)
        else:
            done.append(outcome)
    return done, failed
