"""Log lines that whoever reaches the address can cause, without a token: some, and then how many were left out."""

import logging
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from lithify.store.driver import Clock, monotonic_ms

__all__ = ["Few", "few_lines"]

LINES_MAX = 10  # of one kind in a minute
KINDS_MAX = 100
_MINUTE_MS = 60_000


class Few:
    """How many lines of each kind may be written. Thread-safe."""

    def __init__(self, lines_max: int = LINES_MAX, clock: Clock = monotonic_ms) -> None:
        self._lines_max = lines_max
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: dict[str, tuple[int, int]] = {}  # by kind: when its minute began, and its lines in that

    def left_out(self, kind: str) -> int | None:
        """None: leave this line out. Else how many were left out in the last minute that had lines of this kind."""
        now_ms = self._clock()
        with self._lock:
            kind = kind if kind in self._minutes or len(self._minutes) < KINDS_MAX else ""
            since_ms, lines = self._minutes.get(kind, (now_ms, 0))
            if now_ms - since_ms >= _MINUTE_MS:
                self._minutes[kind] = now_ms, 1
                return max(lines - self._lines_max, 0)
            self._minutes[kind] = since_ms, lines + 1
            return 0 if lines < self._lines_max else None


class _Filter(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._few = Few()

    def filter(self, record: logging.LogRecord) -> bool:
        left_out = self._few.left_out(str(record.msg))
        if left_out:
            record.msg = f"{record.msg} ({left_out} more of these were left out)"
        return left_out is not None


@contextmanager
def few_lines(*loggers: str) -> Generator[None]:
    """Within the block, each of these has few lines of one kind."""
    with ExitStack() as stack:
        for name in loggers:
            logger, only = logging.getLogger(name), _Filter()
            logger.addFilter(only)
            stack.callback(logger.removeFilter, only)
        yield
