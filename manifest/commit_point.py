"""P1: creating a numbered file is the commit point. It is created, or a rival's is there; and until that is certain, it
may have happened."""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lithify.manifest.codec import encode
from lithify.manifest.model import Numbered
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Create, Get, Object, Outcome, Pause
from lithify.store.refused import Closed, NotAsked

__all__ = ["Attempt", "Settled", "Target", "create"]


class Settled(enum.Enum):
    OURS = enum.auto()  # the number holds our body
    TAKEN = enum.auto()  # it holds another body
    # It holds nothing any more. Only collection removes numbers, so the boundary has passed it.
    GONE = enum.auto()


class Target(NamedTuple):
    """A number of a chain that is to be created."""

    key: str
    number: int
    dead: Callable[[], Awaitable[int]]  # asks for the largest dead number of the chain


@dataclass(slots=True)
class Attempt:
    """The number whose outcome is uncertain for this edit; 0: all outcomes so far are certain."""

    open_number: int = 0
    nonce: str = ""
    parts: dict[bytes, str] = field(default_factory=dict)  # what it has stored, and may delete if it fails


async def create(target: Target, value: Numbered, attempt: Attempt, *, frees: bool) -> tuple[Settled, Object | None]:
    """Create-if-absent until it is known whose the file is; a rival's is returned, too. Raises Unavailable if that
    stays unknown, and what `Create` raises if nothing is there, or that is unknown.

    `attempt` is open afterwards, whatever is there: it counts only if the number is not dead, which the caller has to
    ask (P4). If the create is refused, and nothing was ever there, it is as it was.

    SUBTLE! No answer but CREATED is about our body. 1. It is stored, and a proxy loses the reply. 2. The proxy sends
    the request again: the number exists, or this request is refused. 3. We are told that, of our own body. So what
    exists may be ours until it was read, whatever keeps us from reading it; and no part of a file is deleted over a
    refusal by what may not be the store. Test: tests/protocol/test_p01_sent_twice.py
    """
    body = encode(value)
    for repeat in range(CREATE_ATTEMPTS_MAX):
        if repeat:
            await Pause(min(50 * 2 ** (repeat - 1), 2_000))
        before = attempt.open_number, attempt.nonce
        outcome, refusal = await _sent(Create(target.key, body, frees))
        if refusal is not None:
            attempt.parts.clear()
        attempt.open_number, attempt.nonce = target.number, value.nonce
        if outcome is Outcome.CREATED:
            return Settled.OURS, None
        if outcome is Outcome.UNKNOWN:
            continue  # repeat the same bytes: if they had arrived the first time, we meet them as EXISTS
        try:
            found = await _found(target)
        except LithifyError as error:
            if refusal is not None:
                raise refusal from None
            if isinstance(error, AccessDenied) or not isinstance(error, Unavailable):
                raise  # the next try would be refused too
            continue
        if found is None and refusal is not None:
            attempt.open_number, attempt.nonce = before
            raise refusal
        if found is Settled.GONE:
            return Settled.GONE, None
        if found is not None:
            return (Settled.OURS, None) if found.body == body else (Settled.TAKEN, found)
    raise Unavailable(f"the store gave no certain answer in {CREATE_ATTEMPTS_MAX} attempts")


async def _sent(create: Create) -> tuple[Outcome, AccessDenied | InvalidRequest | None]:
    """The answer, and the refusal that may be that of a second request. Raises what nobody was asked about: a full
    disk, a closed warehouse, no credentials."""
    try:
        return await create, None
    except (NotAsked, Closed):
        raise
    except (AccessDenied, InvalidRequest) as error:
        return Outcome.EXISTS, error


async def _found(target: Target) -> Object | Literal[Settled.GONE] | None:
    """What exists; GONE if it has been collected since. None: nothing is there (yet)."""
    found = await Get(target.key)
    if found is None and target.number <= await target.dead():
        return Settled.GONE
    # Only collection removes numbers, after the boundary has passed them. If it has not, and nothing is there, one of
    # the replies did not come from the store (but from a proxy, a cache). Test: tests/protocol/test_p01_commit_point.py
    return found
