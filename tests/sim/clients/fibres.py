"""Blocking code as an actor: each request switches to the simulator, which switches back with the reply or the error.

When its process crashes a fibre ends at its next request, even inside a `finally`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from lithify.store.port import Request

__all__ = ["Fibre", "Wait", "ask", "crashed"]

T = TypeVar("T")


class Wait(Request[None]):
    """Until `ready`, or so long."""

    __slots__ = ("ms", "ready")

    def __init__(self, ready: Callable[[], bool], ms: int | None) -> None:
        self.ready = ready
        self.ms = ms


class _Greenlet(greenlet):
    fibre: "Fibre"


class Fibre:
    """One thread of a process, which the simulator takes for a coroutine."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._greenlet = _Greenlet(body)
        self._greenlet.fibre = self
        self._began = self._gone = False

    def send(self, reply: Any) -> Any:
        began, self._began = self._began, True
        return self._asked(self._greenlet.switch(reply) if began else self._greenlet.switch())

    def throw(self, error: Exception) -> Any:
        return self._asked(self._greenlet.throw(error))

    def _asked(self, request: Any) -> Any:
        if self._greenlet.dead:
            raise StopIteration
        return request

    @property
    def crashed(self) -> bool:
        return self._gone

    def close(self) -> None:
        self._gone = True
        if self._began and not self._greenlet.dead:
            self._greenlet.throw(GreenletExit)
            assert self._greenlet.dead, "it went on after its process had crashed"

    def asks(self, request: Request[Any]) -> Any:
        if self._gone:
            raise GreenletExit
        assert self._greenlet.parent is not None
        return self._greenlet.parent.switch(request)


def ask(request: Request[T]) -> T:
    """Of whoever runs now."""
    current = getcurrent()
    assert isinstance(current, _Greenlet)
    return current.fibre.asks(request)


def crashed() -> bool:
    """Whether whoever runs now is on the way out, since its process has crashed."""
    current = getcurrent()
    return isinstance(current, _Greenlet) and current.fibre.crashed
