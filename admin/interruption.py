"""Ctrl-C, SIGTERM and SIGHUP: a command that is told to end reports its progress."""

import signal
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FrameType

__all__ = ["HungUp", "Terminated", "not_ignored", "told_to_end"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


class HungUp(Terminated):
    """SIGHUP came: the terminal was closed."""


_RAISED = {signal.SIGTERM: Terminated, signal.SIGINT: KeyboardInterrupt, signal.SIGHUP: HungUp}


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Those that the caller has not set to be ignored, as nohup does for SIGHUP, and a shell without job control for
    commands started with &."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def told_to_end() -> Generator[Callable[[], None]]:
    """Within the block SIGTERM raises Terminated, SIGHUP HungUp, and SIGINT KeyboardInterrupt, except signals that the
    caller ignores. Use it in the main thread, where signals are handled.

    It yields a function that raises the same again if one of them came; loops call it at the beginning of each round.
    An exception raised by a signal is lost in a destructor or in a library's callback, and the command would continue.
    """
    heard: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        heard.append(number)
        raise _raised(number)

    def again() -> None:
        if heard:
            raise _raised(heard[0])

    before = {number: signal.signal(number, end) for number in not_ignored(_RAISED)}
    try:
        yield again
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raised(number: int) -> KeyboardInterrupt:
    return _RAISED[signal.Signals(number)]()
