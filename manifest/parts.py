"""Parts: objects in which a numbered file is stored besides its own (P23, docs/rfcs/0027)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from lithify.manifest.edits import Refused
from lithify.manifest.model import Numbered
from lithify.store.errors import AccessDenied, LithifyError, Unavailable
from lithify.store.port import Create, Delete, Get, Outcome, Pause, Together

__all__ = ["CREATE_ATTEMPTS_MAX", "PartMissing", "Parts", "Written", "discard", "store_parts"]

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
    Unavailable if it is not certain that they are stored. Then the file must not be created."""
    left = dict(bodies)
    for repeat in range(CREATE_ATTEMPTS_MAX):
        if not left:
            return
        if repeat:
            await Pause(min(50 * 2 ** (repeat - 1), 2_000))
        failure: Exception | None = None
        for (key, body), outcome in zip(tuple(left.items()), await _created(left, frees=frees), strict=True):
            if isinstance(outcome, Exception):
                failure = failure or outcome
            elif outcome is Outcome.CREATED or (outcome is Outcome.EXISTS and await _holds(key, body)):
                written[body] = key
                del left[key]
        if failure is not None:
            raise failure
    if left:
        raise Unavailable(f"the store gave no certain answer in {CREATE_ATTEMPTS_MAX} attempts ({min(left)})")


async def _created(bodies: Mapping[str, bytes], *, frees: bool) -> Sequence[Outcome | Exception]:
    requests = [Create(key, body, frees) for key, body in bodies.items()]
    return [await requests[0]] if len(requests) == 1 else await Together(tuple(requests))


async def discard(written: dict[bytes, str]) -> None:
    """Delete parts that no file names, nor will: on a full disk they take the room that others need to free some. Where
    that fails, a sweep finds them."""
    if written:
        with suppress(LithifyError):
            await Delete(tuple(written.values()))
        written.clear()


async def _holds(key: str, body: bytes) -> bool:
    """Whether the object is there, with these bytes. False: that is not known."""
    try:
        found = await Get(key)
    except AccessDenied:
        raise  # the next try would be refused too
    except Unavailable:
        return False
    return found is not None and found.body == body
