"""What every simulated world stands on: coroutines that go on from one request to the next, whoever answers it, and the
listings of a store whose keys are known. Interleaved tests (tests/interleave.py) and the simulation (tests/sim) add
whose turn it is and what goes wrong."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from lithify.store.port import Request

__all__ = ["Stepped", "folders", "listed", "within"]


@dataclass(slots=True, eq=False, kw_only=True)
class Stepped:
    """A coroutine, and what came of its last request."""

    coroutine: Coroutine[Any, Any, Any] | None = None
    reply: Any = None
    error: Exception | None = None

    def go_on(self) -> Request[Any]:
        """To its next request. Raises StopIteration with its result, or what it dies of."""
        assert self.coroutine is not None
        reply, error = self.reply, self.error
        self.reply = self.error = None
        return self.coroutine.send(reply) if error is None else self.coroutine.throw(error)

    def close(self) -> None:
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
