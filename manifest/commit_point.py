"""P1: creating a numbered file is the commit point. It is created, or a rival's is there; and until that is certain, it
may have happened."""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from lithify.manifest.codec import encode
from lithify.manifest.model import Numbered
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Create, Get, Object, Outcome, Pause

__all__ = ["Attempt", "Settled", "Target", "create"]

V = TypeVar("V")


class Settled(enum.Enum):
    OURS = enum.auto()  # the number holds our body
    TAKEN = enum.auto()  # it holds another body
    # It holds nothing any more. Only collection removes numbers, so the boundary has passed it.
    GONE = enum.auto()


class Target(NamedTuple, Generic[V]):
    """A number of a chain that is to be created."""

    key: str
    number: int
    dead: Callable[[], Awaitable[int]]  # asks for the largest dead number of the chain
    decoded: Callable[[Object], V]  # of a rival's file


@dataclass(slots=True)
class Attempt:
    """The number whose outcome is uncertain for this edit; 0: all outcomes so far are certain."""

    open_number: int = 0
    nonce: str = ""
    parts: dict[bytes, str] = field(default_factory=dict)  # what it has stored, and may delete if it fails


async def create(target: Target[V], value: Numbered, attempt: Attempt, *, frees: bool) -> tuple[Settled, V | None]:
    """Create-if-absent until it is certain whose the file is; a rival's is returned, too. Raises Unavailable if that
    stays uncertain, and what `Create` raises if the number does not hold our body; `attempt` stays open while it may.

    SUBTLE! No answer but CREATED is about our body. 1. It is stored, and a proxy loses the reply. 2. The proxy sends
    the request again: the number exists, or this request is refused. 3. We are told that, of our own body. So all
    answers leave the attempt open until we have read what is there. Test: tests/protocol/test_p01_sent_twice.py
    """
    body = encode(value)
    before = attempt.open_number, attempt.nonce
    for repeat in range(CREATE_ATTEMPTS_MAX):
        if repeat:
            await Pause(min(50 * 2 ** (repeat - 1), 2_000))
        try:
            outcome = await Create(target.key, body, frees)
        except LithifyError:
            if await _holds(target.key, body, attempt):
                return Settled.OURS, None
            raise
        attempt.open_number, attempt.nonce = target.number, value.nonce
        if outcome is Outcome.CREATED:
            return Settled.OURS, None
        if outcome is Outcome.UNKNOWN:
            continue  # repeat the same bytes: if they had arrived the first time, we meet them as EXISTS
        try:
            settled = await _whose(target, body)
        except InvalidRequest:  # a later release wrote it, so it is not ours (if it is damaged, it may be)
            attempt.open_number, attempt.nonce = before
            raise
        if settled is not None:
            return settled
    raise Unavailable(f"the store gave no certain answer in {CREATE_ATTEMPTS_MAX} attempts")


async def _whose(target: Target[V], body: bytes) -> tuple[Settled, V | None] | None:
    """Whose the file is that exists. None: nothing is known yet."""
    try:
        found = await Get(target.key)
    except AccessDenied:
        raise  # the next try would be refused too
    except Unavailable:
        return None
    if found is None:
        # Only collection removes numbers, after the boundary has passed them. If it has not, one of the two replies did
        # not come from the store (but from a proxy, a cache). Test: tests/protocol/test_p01_commit_point.py
        return (Settled.GONE, None) if target.number <= await target.dead() else None
    if found.body == body:
        return Settled.OURS, None
    return Settled.TAKEN, target.decoded(found)


async def _holds(key: str, body: bytes, attempt: Attempt) -> bool:
    """Whether the object is there, with these bytes. Where that cannot be found out, the parts of the file stay."""
    try:
        found = await Get(key)
    except LithifyError:
        attempt.parts.clear()
        return False
    return found is not None and found.body == body
