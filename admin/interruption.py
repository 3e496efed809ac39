"""Ctrl-C, SIGTERM and SIGHUP: a command that is told to end reports its progress."""

import signal
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import FrameType

__all__ = ["ENDING", "HungUp", "Terminated", "Told", "not_ignored", "told_to_end"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


class HungUp(Terminated):
    """SIGHUP came: the terminal was closed."""


_RAISED = {signal.SIGTERM: Terminated, signal.SIGINT: KeyboardInterrupt, signal.SIGHUP: HungUp}
ENDING = frozenset(map(int, _RAISED))  # the numbers of these signals


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Those that the caller has not set to be ignored, as nohup does for SIGHUP, and a shell without job control for
    commands started with &."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


class Told:
    """Whether one of the signals came. Called, it raises the same again; loops call it in each round."""

    def __init__(self) -> None:
        self._heard: list[int] = []
        self._waits = False
        self.at_waits = False  # the first signal raises only in `waiting`, so that what was read is not lost

    def __call__(self) -> None:
        if self._heard:
            raise _raised(self._heard[0])

    def hear(self, number: int, _: FrameType | None) -> None:
        self._heard.append(number)
        if not self.at_waits or self._waits or len(self._heard) > 1:
            raise _raised(number)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Within the block a signal raises at once; it raises at the beginning if one came before."""
        self._waits = True
        try:
            self()
            yield
        finally:
            self._waits = False


@contextmanager
def told_to_end() -> Generator[Told]:
    """Within the block SIGTERM raises Terminated, SIGHUP HungUp, and SIGINT KeyboardInterrupt, except signals that the
    caller ignores. Use it in the main thread, where signals are handled.

    It yields a function that raises the same again if one of them came; loops call it in each round. An exception
    raised by a signal is lost in a destructor or in a library's callback, and the command would continue.
    """
    told = Told()
    before = {number: signal.signal(number, told.hear) for number in not_ignored(_RAISED)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raised(number: int) -> KeyboardInterrupt:
    return _RAISED[signal.Signals(number)]()
