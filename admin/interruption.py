"""Ctrl-C, SIGTERM and SIGHUP: a command that is told to end says how far it came."""

import signal
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FrameType

__all__ = ["HungUp", "Terminated", "not_ignored", "told_to_end"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


class HungUp(Terminated):
    """SIGHUP came: the terminal went away."""


_RAISED = {signal.SIGTERM: Terminated, signal.SIGINT: KeyboardInterrupt, signal.SIGHUP: HungUp}


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Those that the caller did not ask to be ignored: nohup does for SIGHUP, and a shell without job control for what
    it starts with &."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def told_to_end() -> Generator[Callable[[], None]]:
    """Within it SIGTERM raises Terminated, SIGHUP HungUp, and SIGINT KeyboardInterrupt, unless the caller had them
    ignored. For the main thread, as signals are.

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

    before = {number: signal.signal(number, end) for number in not_ignored(_RAISED)}
    try:
        yield again
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raised(number: int) -> KeyboardInterrupt:
    return _RAISED[signal.Signals(number)]()
