"""Parts: objects in which a numbered file is stored besides its own (P23, docs/rfcs/0027)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

from lithify.manifest.edits import Refused
from lithify.manifest.model import Numbered
from lithify.store.errors import AccessDenied, LithifyError, Unavailable
from lithify.store.port import Create, Delete, Get, Outcome, Pause, together

__all__ = ["CREATE_ATTEMPTS_MAX", "PartMissing", "Parts", "Written", "store_parts"]

CREATE_ATTEMPTS_MAX = 10  # of one body under one key, with pauses of 50 ms doubling to 2 s: about 10 s in all

S = TypeVar("S", bound=Numbered)

Written = Mapping[bytes, str]
"""Bodies of parts that are stored, with their keys."""


class PartMissing(Exception):
    """There is no object `key`, which holds a part of a file."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Parts(Protocol[S]):
    """How the files of a chain are stored in parts: objects beside them, which the files name (docs/rfcs/0027)."""

    async def whole(self, value: S, near: S | None) -> S:
        """`value`, as it was decoded, with what its parts hold; `near` may have some of them. Raises PartMissing."""
        ...

    def divided(self, head: S | None, value: S, written: Written) -> tuple[S, Mapping[str, bytes]] | Refused:
        """`value`, which was made of `head` and is whole, naming its parts; and the bodies, by key, of those that must
        be stored before it. `written`: what earlier attempts of this commit stored."""
        ...


async def store_parts(bodies: Mapping[str, bytes], written: dict[bytes, str], *, frees: bool) -> None:
    """Store the parts of a file that is to be created, and note them in `written`. Raises what `Create` raises; and
    Unavailable if it is not certain that they are stored. Then the file must not be created; what was stored of its
    parts is deleted, as far as can be: on a full disk it would take the room that others need to free some."""
    try:
        await _store(bodies, written, frees=frees)
    except LithifyError:
        with suppress(LithifyError):  # a sweep finds the rest
            await Delete(tuple(bodies))
        for body, key in [*written.items()]:
            if key in bodies:
                del written[body]
        raise


async def _store(bodies: Mapping[str, bytes], written: dict[bytes, str], *, frees: bool) -> None:
    left = dict(bodies)
    for repeat in range(CREATE_ATTEMPTS_MAX):
        if not left:
            return
        if repeat:
            await Pause(min(50 * 2 ** (repeat - 1), 2_000))
        outcomes = await together([Create(key, body, frees) for key, body in left.items()])
        for (key, body), outcome in zip(tuple(left.items()), outcomes, strict=True):
            if outcome is Outcome.CREATED or (outcome is Outcome.EXISTS and await _holds(key, body)):
                written[body] = key
                del left[key]
    if left:
        raise Unavailable(f"the store gave no certain answer in {CREATE_ATTEMPTS_MAX} attempts ({min(left)})")


async def _holds(key: str, body: bytes) -> bool:
    """Whether the object is there, with these bytes. False: that is not known."""
    try:
        found = await Get(key)
    except AccessDenied:
        raise  # the next try would be refused too
    except Unavailable:
        return False
    return found is not None and found.body == body
