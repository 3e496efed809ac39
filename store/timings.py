"""How long requests took, and how those ended that failed, in a bounded number of figures."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["REQUEST_BOUNDS_S", "Durations", "RequestTimes", "Spans"]

REQUEST_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Spans(NamedTuple):
    """A histogram."""

    counts: tuple[int, ...]  # how many were at most as long as each bound, and in all
    sum_s: float


class Durations:
    """Counts durations between bounds. Not thread-safe."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        seconds = max(0.0, seconds)  # clocks may step back
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self._sum_s += seconds

    @property
    def spans(self) -> Spans:
        return Spans(tuple(accumulate(self._counts)), self._sum_s)


class RequestTimes(NamedTuple):
    """Of requests to a store, by their kind as in `RequestCounts`."""

    spans: Mapping[str, Spans] = {}  # those that failed included; bounds are REQUEST_BOUNDS_S
    failures: Mapping[tuple[str, str], int] = {}  # by kind of request and ErrorKind
