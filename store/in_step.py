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
                if await strand.to_next_request():
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
    try:
        return {alone: await alone}
    except Exception as error:  # noqa: BLE001 - raised in the coroutine that asked
        return {alone: error}


class _Strand:
    def __init__(self, coroutine: Coroutine[Request[Any], Any, Any]) -> None:
        self._coroutine = coroutine
        self._reply: Any = None
        self._request: Request[Any] | None = None
        self.ended = False
        self.outcome: Any = None

    @property
    def requests(self) -> tuple[Request[Any], ...]:
        assert self._request is not None
        return self._request.requests if isinstance(self._request, Together) else (self._request,)

    async def to_next_request(self) -> bool:
        """Go on to the next request to the store. False: it has ended."""
        while not self.ended:
            self._go_on()
            if not isinstance(self._request, _ALONE):
                break
            try:
                self._reply = await self._request
            except Exception as error:  # noqa: BLE001 - raised in the coroutine
                self._reply = error
        return not self.ended

    def answer(self, replies: dict[Request[Any], Any]) -> None:
        found = tuple(replies[request] for request in self.requests)
        self._reply = found if isinstance(self._request, Together) else found[0]

    def _go_on(self) -> None:
        reply, self._reply, self._request = self._reply, None, None
        try:
            if isinstance(reply, Exception):
                self._request = self._coroutine.throw(reply)
            else:
                self._request = self._coroutine.send(reply)
        except StopIteration as stop:
            self.ended, self.outcome = True, stop.value
        except Exception as error:  # noqa: BLE001 - an outcome
            self.ended, self.outcome = True, error

    def close(self) -> None:
        self._coroutine.close()
