"""Outages, and partitions that are full, which a command outlasts, since it cannot be run again for the same records:
those that it follows, or those that came through a pipe."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from lithify.cli.terminal import warn
from lithify.log.append import Full
from lithify.segment.spill import NoSpill
from lithify.store.errors import AccessDenied, CommitUnknown, Unavailable

__all__ = ["Outage", "OutlastingClock"]


class Outage:
    """Reports the beginning and the end of an outage, for each partition, and of waiting for compaction. Refused access
    and a full temporary disk are not outages, since they do not end by waiting: they end the command, as elsewhere.
    `doing`: "reading"."""

    def __init__(self, doing: str, topic: str) -> None:
        self._doing = doing
        self._topic = topic
        self._of: dict[int | None, str] = {}  # by partition, what to say once it is over

    @contextmanager
    def outlasted(self, partition: int | None = None) -> Generator[None]:
        """`partition` None: for what concerns all partitions."""
        where = self._topic if partition is None else f"{self._topic}/{partition}"
        try:
            yield
        except (AccessDenied, NoSpill):
            raise
        except Full as error:
            self._begins(
                partition,
                f"warning: {error.holds}; this append waits until compaction has merged some. "
                f"See 'lithify compaction explain {self._topic}'. Ctrl-C gives up.",
                over="compaction has made room",
            )
        except (Unavailable, CommitUnknown) as error:
            doing = self._doing.capitalize()
            self._begins(
                partition,
                f"warning: {error}. {doing} {where} continues as soon as the store answers",
                over="the store answers again",
            )
        else:
            over = self._of.pop(partition, None)
            if over is not None:
                warn(f"{over}; {self._doing} {where} continues")

    def _begins(self, partition: int | None, text: str, over: str) -> None:
        if self._of.get(partition) != over:
            warn(text)
        self._of[partition] = over


class OutlastingClock:
    """The store's clock. While it does not answer, this process's monotonic clock goes on from its latest answer."""

    def __init__(self, now_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._ahead_ms: int | None = None

    def __call__(self) -> int:
        """Milliseconds since 1970. Raises Unavailable if it has never answered."""
        try:
            now_ms = self._now_ms()
        except Unavailable:
            if self._ahead_ms is None:
                raise
            return self._monotonic_ms() + self._ahead_ms
        self._ahead_ms = now_ms - self._monotonic_ms()
        return now_ms
