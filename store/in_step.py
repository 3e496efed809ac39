"""Coroutines that go on in step: whatever each of them asks the store next is asked at once (docs/rfcs/0023)."""

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from lithify.store.port import NewId, Now, Pause, Request, Together

__all__ = ["both", "in_step"]

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

_ALONE = (Now, NewId, Pause)  # no requests to the store


async def both(first: Coroutine[Request[Any], Any, A], second: Coroutine[Request[Any], Any, B]) -> tuple[A, B]:
    """What these two return, gone on in step. Raises the first's failure, else the second's, once both have ended."""
    outcomes = await in_step(first, second)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return cast(tuple[A, B], outcomes)


async def in_step(*coroutines: Coroutine[Request[Any], Any, T]) -> tuple[T | Exception, ...]:
    """What each returns or raises. In each round every coroutine that has not ended makes its next request; equal
    requests of a round are made once. The next round begins when all of them are answered, so what a coroutine asks is
    asked after everything that it was told.

    They run in turn, never at the same time, so they may share what only changes between two requests.
    """
    strands = [_Strand(coroutine) for coroutine in coroutines]
    try:
        while True:
            asking = list[_Strand]()
            for strand in strands:
                while strand.goes_on() and isinstance(strand.request, _ALONE):
                    strand.reply = await _outcome(strand.request)
                if not strand.ended:
                    asking.append(strand)
            if not asking:
                return tuple(strand.outcome for strand in strands)
            requests = tuple(dict.fromkeys(request for strand in asking for request in strand.requests))
            replies = await _replies(requests)
            for strand in asking:
                strand.answer(replies)
    finally:
        for strand in strands:
            strand.close()


async def _replies(requests: tuple[Request[Any], ...]) -> dict[Request[Any], Any]:
    if len(requests) != 1:
        return dict(zip(requests, await Together(requests), strict=True))
    (alone,) = requests
    return {alone: await _outcome(alone)}


async def _outcome(request: Request[Any]) -> Any:
    """Its reply, or the failure that is raised in the coroutine that asked."""
    try:
        return await request
    except Exception as error:  # noqa: BLE001 - raised in the coroutine
        return error


class _Strand:
    __slots__ = ("_coroutine", "ended", "outcome", "reply", "request")

    def __init__(self, coroutine: Coroutine[Request[Any], Any, Any]) -> None:
        self._coroutine = coroutine
        self.reply: Any = None
        self.request: Request[Any] | None = None
        self.ended = False
        self.outcome: Any = None

    @property
    def requests(self) -> tuple[Request[Any], ...]:
        assert self.request is not None
        return self.request.requests if isinstance(self.request, Together) else (self.request,)

    def goes_on(self) -> bool:
        """With what it was told, to its next request. False: it has ended."""
        if self.ended:
            return False
        reply, self.reply, self.request = self.reply, None, None
        try:
            if isinstance(reply, Exception):
                self.request = self._coroutine.throw(reply)
            else:
                self.request = self._coroutine.send(reply)
        except StopIteration as stop:
            self.ended, self.outcome = True, stop.value
        except Exception as error:  # noqa: BLE001 - an outcome
            self.ended, self.outcome = True, error
        return not self.ended

    def answer(self, replies: dict[Request[Any], Any]) -> None:
        if isinstance(self.request, Together):
            self.reply = tuple(replies[request] for request in self.request.requests)
        else:
            assert self.request is not None
            self.reply = replies[self.request]

    def close(self) -> None:
        self._coroutine.close()
