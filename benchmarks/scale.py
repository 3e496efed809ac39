"""Does the work grow with the rows, and the memory not at all? The clean of 1, 2, 4, 8 and 16 segments, and of the
largest values."""

import math
import statistics
from collections.abc import Sequence

import msgspec

from benchmarks.measure import Remote, Settings

__all__ = ["Point", "large_values", "scale", "slope"]

_SEGMENTS = (1, 2, 4, 8, 16)
_LARGE_BYTES = (1 << 20) - 64  # max.message.bytes counts the key and the rest of a record, too


class Point(msgspec.Struct, frozen=True):
    """Medians of the runs; the memory is the largest worker's in any run."""

    segments: int
    rows: int
    raw_bytes: int
    wall_s: float
    cpu_s: float
    worker_peak_mb: float
    jobs: int

    @property
    def cpu_s_per_million_rows(self) -> float:
        return self.cpu_s / self.rows * 1e6

    @property
    def wall_s_per_million_rows(self) -> float:
        return self.wall_s / self.rows * 1e6


def scale(settings: Settings, runs: int) -> list[Point]:
    shapes = [msgspec.structs.replace(settings.shape, segments=segments) for segments in _SEGMENTS]
    return [_point(msgspec.structs.replace(settings, shape=shape), runs) for shape in shapes]


def large_values(settings: Settings) -> Point:
    """As many bytes as `settings.shape` has, in values of 1 MiB; one run."""
    shape = settings.shape
    rows = max(2, shape.rows * shape.value_bytes // _LARGE_BYTES)
    large = msgspec.structs.replace(shape, rows=rows, keys=4 * rows, value_bytes=_LARGE_BYTES)
    return _point(msgspec.structs.replace(settings, shape=large), 1)


def slope(points: Sequence[Point]) -> float:
    """The exponent of rows in CPU seconds, by least squares: 1 is linear."""
    rows, seconds = [math.log(p.rows) for p in points], [math.log(p.cpu_s) for p in points]
    return statistics.linear_regression(rows, seconds).slope


def _point(settings: Settings, runs: int) -> Point:
    remote = Remote("benchmarks.lithify_spark", settings)
    try:
        measured = [remote.measure() for _ in range(runs)]
    finally:
        remote.close()
    shape = settings.shape
    return Point(
        segments=shape.segments,
        rows=shape.total_rows,
        raw_bytes=shape.total_rows * shape.value_bytes,
        wall_s=statistics.median(run.wall_s for run in measured),
        cpu_s=statistics.median(run.cpu_s for run in measured),
        worker_peak_mb=max(run.worker_peak_mb for run in measured),
        jobs=int(measured[0].told["jobs"]),
    )
