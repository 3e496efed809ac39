"""Somebody who stands still in the middle of an operation, in a warehouse where others go on."""

from collections.abc import Callable, Coroutine
from typing import Any

from lithify.log.warehouse import Warehouse
from lithify.store.port import Request

__all__ = ["Slow"]


class Slow:
    """A coroutine that stands still before the request that `until` names, and goes on when it is told to."""

    def __init__(self, warehouse: Warehouse, coroutine: Coroutine[Any, Any, Any], until: Callable[[Any], bool]) -> None:
        self._driver = warehouse.driver
        self._coroutine = coroutine
        self._request: Request[Any] = coroutine.send(None)
        self.until(until)

    def until(self, until: Callable[[Any], bool]) -> None:
        while not until(self._request):
            self._request = self._coroutine.send(self._driver.answer(self._request))

    def end(self) -> Any:
        """Raises what the coroutine raises."""
        try:
            while True:
                self._request = self._coroutine.send(self._driver.answer(self._request))
        except StopIteration as stop:
            return stop.value
