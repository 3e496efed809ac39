"""A filesystem of fsspec whose calls do not return while its gate is closed, and a clock for whoever waits for it."""

import threading
from collections.abc import Callable
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

__all__ = ["Gate", "hanging_filesystem", "until"]

_LOOK_S = 0.01


class Gate:
    """While it is closed, whoever comes to it stands there."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.standing = 0
        self.came = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def passed(self) -> None:
        if self._open.is_set():
            return
        with self._lock:
            self.standing += 1
            self.came += 1
        assert self._open.wait(120)
        with self._lock:
            self.standing -= 1

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        """As Event.wait, if time passed only while somebody stands at the gate; then all of it passes at once."""
        while not ended.wait(_LOOK_S):
            if self.standing and not self._open.is_set():
                return ended.is_set()
        return True


def hanging_filesystem(gate: Gate) -> type[MemoryFileSystem]:
    """All of its methods that make a request to the server pass the gate first."""

    def gated(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            gate.passed()
            return getattr(super(kind, self), name)(*args, **kwargs)

        return method

    names = ("info", "cat_file", "pipe_file", "put_file", "find", "ls", "rm_file", "makedirs")
    kind = type(
        "Hanging",
        (MemoryFileSystem,),
        {"protocol": "hang", "store": {}, "pseudo_dirs": [""], **{name: gated(name) for name in names}},
    )
    return kind


def until(holds: Callable[[], bool]) -> None:
    """Other threads are about to make it so."""
    waiting = threading.Event()
    for _ in range(6_000):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it never was so")
