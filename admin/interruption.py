"""Ctrl-C and SIGTERM: a command that is told to end says how far it came."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "told_to_end"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def told_to_end() -> Generator[Callable[[], None]]:
    """Within it SIGTERM raises Terminated, and SIGINT KeyboardInterrupt. For the main thread, as signals are.

    What it gives raises the same again, if one of them came: for loops, at the beginning of each round. An exception
    that a signal raises is lost where it meets a destructor or a callback of a library, and the command would go on.
    """
    heard: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        heard.append(number)
        raise _raised(number)

    def again() -> None:
        if heard:
            raise _raised(heard[0])

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield again
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raised(number: int) -> KeyboardInterrupt:
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
