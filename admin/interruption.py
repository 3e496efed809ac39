"""SIGTERM as Ctrl-C is: a command that is told to end says how far it came."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "told_to_end"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def told_to_end() -> Generator[None]:
    """Within it SIGTERM raises Terminated. For the main thread, as signals are."""

    def end(_: int, __: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
