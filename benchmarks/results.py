"""What the benchmarks found, and whether it meets the bars that the project sets itself."""

import statistics
from collections.abc import Callable, Iterator

import msgspec

from benchmarks.cluster import OnCluster
from benchmarks.convergence import Convergence
from benchmarks.data_source import CARRIED, KEYS, OURS, PARQUET, SORTED, OnSpark
from benchmarks.deciding import Deciding
from benchmarks.extremes import Extreme
from benchmarks.far_bars import far_limits
from benchmarks.far_rows import FarStore
from benchmarks.generate import Shape
from benchmarks.measure import Run
from benchmarks.points import Points
from benchmarks.producing import Produced
from benchmarks.recording import Recording
from benchmarks.requests import Requests
from benchmarks.scale import Point, slope

__all__ = ["Bar", "Found", "Results", "bars", "paired"]

_WORKER_MB_MAX = 512 * 1.048576  # 512 MiB


class Found(msgspec.Struct, frozen=True):
    """The runs of one contender, in turn with those of the others."""

    shape: Shape
    runs: list[Run]

    def median(self, of: Callable[[Run], float]) -> float:
        return statistics.median(map(of, self.runs))


class Bar(msgspec.Struct, frozen=True):
    what: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool:
        below = self.at_most is None or self.measured <= self.at_most
        return below and (self.at_least is None or self.measured >= self.at_least)


class Results(msgspec.Struct, frozen=True, omit_defaults=True):
    machine: dict[str, str]
    contenders: dict[str, Found] = {}
    requests: Requests | None = None
    scale: list[Point] = []
    large_values: Point | None = None
    extremes: list[Extreme] = []
    convergence: list[Convergence] = []
    deciding: list[Deciding] = []
    recording: list[Recording] = []
    producer: list[Produced] = []
    cluster: OnCluster | None = None
    points: Points | None = None
    data_source: OnSpark | None = None
    far: FarStore | None = None
    bars: list[Bar] = []


def paired(one: Found, other: Found, of: Callable[[Run], float]) -> float:
    """The median of the ratios of runs that followed each other: noise of the machine hits both sides of each."""
    return statistics.median(of(a) / of(b) for a, b in zip(one.runs, other.runs, strict=True))


def bars(results: Results) -> list[Bar]:
    """Every bar that what was measured can tell of."""
    return [
        *(*_speed(results.contenders), *_requests(results.requests), *_memory(results), *_scale(results.scale)),
        *(*_extremes(results.extremes), *_convergence(results.convergence), *_deciding(results.deciding)),
        *_recording(results.recording),
        *(Bar(f"records a second: {each.what}", each.per_s, at_least=150_000) for each in results.producer),
        *_points(results.points),
        *(*_cluster(results.cluster), *_data_source(results.data_source)),
        *(Bar(*limit) for limit in (far_limits(results.far) if results.far else ())),
    ]


def _points(found: Points | None) -> Iterator[Bar]:
    if found is None:
        return
    yield Bar("gets a second, the head checked each time", found.head_checked.per_s, at_least=1_000)
    yield Bar("gets a second, a staleness allowed", found.stale.per_s, at_least=10_000)
    yield Bar("keys a second of get_many", found.many.per_s, at_least=50_000)


def _cluster(found: OnCluster | None) -> Iterator[Bar]:
    if found is None:
        return
    yield Bar("two workers of a cluster over one", found.speed_up, at_least=1.6)
    yield Bar("s of scheduling per task on a cluster", found.task_s, at_most=0.15)
    yield Bar("scheduling, % of a range", 100 * found.scheduling_share, at_most=5)
    yield Bar("s of a range on a cluster", found.range_s, at_least=2)
    yield Bar("ranges that ran over those explained", found.ranges_run / found.ranges_explained, at_least=1, at_most=1)


def _data_source(found: OnSpark | None) -> Iterator[Bar]:
    if found is None:
        return
    reads, (ours, rival) = found.reads, found.writes[SORTED]
    yield Bar("Spark: reading a topic over its Parquet files", reads[OURS].over(reads[PARQUET]), at_most=2)
    yield Bar("Spark: reading a topic over carrying batches", reads[OURS].over(reads[CARRIED]), at_most=1.3)
    yield Bar("Spark: one column of five over all", reads[KEYS].over(reads[OURS]), at_most=0.5)
    yield Bar("Spark: writing a topic over sorted Parquet", ours.over(rival), at_most=1.1)


def _speed(found: dict[str, Found]) -> Iterator[Bar]:
    ours = found.get("lithify_spark")
    if ours is None:
        return
    if rival := found.get("duckdb_clean"):
        yield Bar("wall time over DuckDB's", paired(ours, rival, lambda run: run.wall_s), at_most=1)
    if rival := found.get("spark_sql"):
        yield Bar("Spark SQL's wall time over ours", paired(rival, ours, lambda run: run.wall_s), at_least=5)
    if rival := found.get("rewrite"):
        yield Bar("CPU time over reading and rewriting", paired(ours, rival, lambda run: run.cpu_s), at_most=1.2)
    if rival := found.get("slatedb_compaction"):
        # They are filled with fewer of the same records: per record, and so per byte.
        same = ours.shape.total_rows / rival.shape.total_rows
        yield Bar("SlateDB's CPU time over ours", same * paired(rival, ours, lambda run: run.cpu_s), at_least=3)
    share = ours.median(lambda run: 100 * run.told["recording_s"] / run.wall_s)
    yield Bar("recording progress, % of wall time", share, at_most=2)


def _requests(counted: Requests | None) -> Iterator[Bar]:
    if counted is None:
        return
    yield Bar("PUTs of a warm append", counted.append_puts, at_most=2)
    yield Bar("GETs of a warm append", counted.append_gets, at_most=2)
    yield Bar("PUTs of an idle poll of a partition", counted.poll_puts, at_most=0)
    yield Bar("GETs of an idle poll of a partition", counted.poll_gets, at_most=2)
    yield Bar("manifest bytes per segment", counted.manifest_bytes_per_segment, at_most=350)


def _memory(results: Results) -> Iterator[Bar]:
    if found := results.contenders.get("lithify_spark"):
        peak = max(run.worker_peak_mb for run in found.runs)
        yield Bar(f"a worker's peak MB, {found.shape.segments} segments", peak, at_most=_WORKER_MB_MAX)
    for point in results.scale[-1:]:
        yield Bar(f"a worker's peak MB, {point.segments} segments", point.worker_peak_mb, at_most=_WORKER_MB_MAX)
    if point := results.large_values:
        yield Bar("a worker's peak MB, values of 1 MiB", point.worker_peak_mb, at_most=_WORKER_MB_MAX)


def _extremes(found: list[Extreme]) -> Iterator[Bar]:
    for each in found:
        yield Bar(f"a worker's peak MB, {each.what}", each.worker_peak_mb, at_most=each.worker_mb_max)
    for each in found:
        if each.largest_output_of_target > 0.9:
            yield Bar(f"largest output by its target, {each.what}", each.largest_output_of_target, at_most=1.2)


def _scale(points: list[Point]) -> Iterator[Bar]:
    if points:
        yield Bar("exponent of rows in CPU time", slope(points), at_most=1.1)


def _convergence(found: list[Convergence]) -> Iterator[Bar]:
    if not found:
        return
    uniform = max(each.write_amplification for each in found if each.workload.startswith("uniform"))
    yield Bar("write amplification, uniform updates", uniform, at_most=6)
    yield Bar("workloads that do not end, or pass a limit", sum(not each.ends for each in found), at_most=0)


def _deciding(found: list[Deciding]) -> Iterator[Bar]:
    usual = [each for each in found if each.l0 == 1_000]
    if usual:
        told = f"ms of a decision, {usual[0].l0} L0 segments and {usual[0].runs} runs"
        yield Bar(told, max(max(each.decide_ms, each.survey_ms) for each in usual), at_most=10)


def _recording(found: list[Recording]) -> Iterator[Bar]:
    if len(found) > 1:
        more = found[-1].bytes_per_range / found[-2].bytes_per_range
        told = f"bytes to record a range, {found[-1].ranges} over {found[-2].ranges} of them"
        yield Bar(told, more, at_most=1.5)
