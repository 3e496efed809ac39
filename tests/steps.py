"""What every simulated world stands on: coroutines that go on from one request to the next, whoever answers it, and the
listings of a store whose keys are known. Interleaved tests (tests/interleave.py) and the simulation (tests/sim) add
whose turn it is and what goes wrong."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from lithify.store.port import Request, Together

__all__ = ["Flight", "Stepped", "folders", "listed", "within"]


class Flight:
    """Requests made together: each is applied at a step of its own, in any order."""

    def __init__(self, together: Together) -> None:
        self._replies: list[Any] = [None] * len(together.requests)
        self._left = list(enumerate(together.requests))
        self._applied = -1

    @property
    def left(self) -> list[Request[Any]]:
        """Those that were not applied yet."""
        return [request for _, request in self._left]

    def take(self, draw: float) -> Request[Any]:
        """The one to apply now; `draw` is in [0, 1)."""
        self._applied, request = self._left.pop(int(draw * len(self._left)))
        return request

    def applied(self, reply: Any) -> tuple[Any, ...] | None:
        """What came of that one, a reply or an exception; answers with all of them once none is left."""
        self._replies[self._applied] = reply
        return None if self._left else tuple(self._replies)


@dataclass(slots=True, eq=False, kw_only=True)
class Stepped:
    """A coroutine, and what came of its last request."""

    coroutine: Coroutine[Any, Any, Any] | None = None
    reply: Any = None
    error: Exception | None = None
    flight: Flight | None = None  # what it waits for, if it made several requests

    def go_on(self) -> Request[Any]:
        """To its next request. Raises StopIteration with its result, or what it dies of."""
        assert self.coroutine is not None
        reply, error = self.reply, self.error
        self.reply = self.error = None
        return self.coroutine.send(reply) if error is None else self.coroutine.throw(error)

    def to_apply(self, request: Request[Any] | None, draw: Callable[[], float]) -> Request[Any]:
        """The request to apply at this step: `request`, or one of those that it, or an earlier one, made together."""
        if isinstance(request, Together):
            self.flight = Flight(request)
        if self.flight is not None:
            return self.flight.take(draw())
        assert request is not None
        return request

    def applied(self, reply: Any, error: Exception | None) -> None:
        """What came of the request that was applied at this step."""
        if self.flight is None:
            self.reply, self.error = reply, error
            return
        replies = self.flight.applied(reply if error is None else error)
        if replies is not None:
            self.reply, self.error, self.flight = replies, None, None

    def close(self) -> None:
        self.flight = None
        if self.coroutine is not None:
            self.coroutine.close()


async def within(coroutine: Coroutine[Any, Any, Any], answer: Callable[[Request[Any]], Awaitable[Any]]) -> Any:
    """Run a coroutine whose requests pass through `answer`: what it returns is the reply, what it raises the error."""
    inner = Stepped(coroutine=coroutine)
    while True:
        try:
            request = inner.go_on()
        except StopIteration as stop:
            return stop.value
        try:
            inner.reply = await answer(request)
        except Exception as error:  # noqa: BLE001 - thrown into the coroutine at its next step
            inner.error = error


def listed(keys: Sequence[str], prefix: str, token: str | None, most: int) -> tuple[list[str], str | None]:
    """A page of a listing, of at most so many, and where the next one begins; `keys` are sorted."""
    first = bisect_right(keys, token or prefix)
    found = keys[first : first + most]
    page = [key for key in found if key.startswith(prefix)]
    return page, page[-1] if len(page) == len(found) == most else None


def folders(keys: Sequence[str], prefix: str) -> tuple[str, ...]:
    rests = (key[len(prefix) :] for key in keys if key.startswith(prefix))
    return tuple(sorted({rest.partition("/")[0] for rest in rests if "/" in rest}))
