"""The tables, as Markdown that also reads well on a terminal."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.cluster import OnCluster
from benchmarks.convergence import Convergence
from benchmarks.data_source import OnSpark, Times
from benchmarks.deciding import Deciding
from benchmarks.far_bars import FAR_HEAD, far_cells
from benchmarks.far_picture import picture
from benchmarks.far_rows import FarStore
from benchmarks.points import Points
from benchmarks.producing import Produced
from benchmarks.recording import Recording
from benchmarks.results import Bar, Found, Results, bars
from benchmarks.scale import slope

__all__ = ["show", "write_readme"]

_PICTURE = "docs/pictures/far-store.svg"
_NAMES = {
    "lithify_spark": "lithify, clean on Spark",
    "duckdb_clean": "DuckDB, `qualify row_number()`",
    "spark_sql": "Spark SQL, `max(struct)`",
    "rewrite": "read and rewrite unchanged",
    "slatedb_compaction": "SlateDB's compaction",
}


def show(results: Results) -> str:
    return "\n\n".join(_parts(results))


def write_readme(readme: Path, results: Results) -> None:
    """Put the tables of contenders and scale between their marks in `readme`, in place of what stands there, and those
    of the far store between theirs, with its picture beside; each where it was measured."""
    main = replace(results, extremes=[], convergence=[], deciding=[], recording=[], producer=[], cluster=None, far=None)
    if results.contenders or results.scale:
        _write(readme, "bench", show(replace(main, bars=bars(main))))
    if results.far and results.far.rows:
        far = Results(machine=results.machine, far=results.far)
        drawn = readme.parent / _PICTURE
        drawn.parent.mkdir(parents=True, exist_ok=True)
        drawn.write_text(picture(results.far))
        tables = show(replace(far, bars=bars(far)))
        _write(readme, "far", f"![how long each takes, near and far]({_PICTURE})\n\n{tables}")


def _write(readme: Path, name: str, tables: str) -> None:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = readme.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{readme} has no place for the tables: put {begin} and {end} on lines of their own")
    readme.write_text(f"{before}{begin}\n{tables}\n{end}{after}")


def _parts(results: Results) -> Iterator[str]:
    machine = results.machine
    yield (
        f"{machine['processors']} processors ({machine['architecture']}), Python {machine['python']}, "
        f"pyarrow {machine['pyarrow']}, pyspark {machine['pyspark']}"
    )
    if results.contenders:
        yield _contenders(results.contenders)
    if results.scale:
        yield _scale(results)
    if results.convergence:
        yield _convergence(results.convergence)
    if results.deciding:
        yield _deciding(results.deciding)
    if results.recording:
        yield _recording(results.recording)
    if results.producer:
        yield _producer(results.producer)
    if results.cluster:
        yield _cluster(results.cluster)
    if results.points:
        yield _points(results.points)
    if results.data_source:
        yield _data_source(results.data_source)
    if results.far:
        yield from _far(results.far)
    if results.bars:
        yield _bars(results.bars)


def _points(found: Points) -> str:
    rows = [
        ("one by one, nothing cached before", found.first),
        ("one by one, the head checked each time", found.head_checked),
        ("one by one, a staleness allowed", found.stale),
        ("get_many of 10,000, nothing cached before", found.many_first),
        ("get_many of 10,000", found.many),
    ]
    head = (f"random keys of {found.rows / 1e6:g} M, one run", "a second", "per CPU second")
    return _table(head, [(what, f"{rate.per_s:,.0f}", f"{rate.per_cpu_s:,.0f}") for what, rate in rows])


def _contenders(found: dict[str, Found]) -> str:
    head = ("medians", "rows", "wall s", "CPU s", "CPU s per M rows", "MB out", "peak MB, all", "peak MB, worker")
    return _table(head, [_contender(_NAMES[name], each) for name, each in found.items()])


def _contender(name: str, found: Found) -> Sequence[str]:
    cpu_s = found.median(lambda run: run.cpu_s)
    return (
        name,
        f"{found.shape.total_rows / 1e6:g} M",
        f"{found.median(lambda run: run.wall_s):.2f}",
        f"{cpu_s:.2f}",
        f"{cpu_s / found.shape.total_rows * 1e6:.2f}",
        f"{found.median(lambda run: run.told['bytes_out']) / 1e6:.0f}",
        f"{found.median(lambda run: run.peak_mb):.0f}",
        f"{found.median(lambda run: run.worker_peak_mb):.0f}",
    )


def _scale(results: Results) -> str:
    head = ("segments", "rows", "wall s", "wall s per M rows", "CPU s", "CPU s per M rows", "peak MB, worker", "jobs")
    rows = [
        (
            str(point.segments),
            f"{point.rows / 1e6:g} M",
            f"{point.wall_s:.2f}",
            f"{point.wall_s_per_million_rows:.2f}",
            f"{point.cpu_s:.2f}",
            f"{point.cpu_s_per_million_rows:.2f}",
            f"{point.worker_peak_mb:.0f}",
            str(point.jobs),
        )
        for point in results.scale
    ]
    return f"{_table(head, rows)}\n\nCPU time grows with the rows to the power of {slope(results.scale):.2f}."


def _convergence(found: Sequence[Convergence]) -> str:
    head = ("appended", "write amplification", "read amplification", "L0 ≤", "runs ≤", "jobs", "ends")
    rows = [
        (
            each.workload,
            f"{each.write_amplification:.2f}",
            f"{each.read_amplification:.1f}",
            f"{each.l0_max} of {each.l0_limit}",
            f"{each.runs_max} of {each.runs_limit}",
            str(sum(each.jobs.values())),
            "yes" if each.ends else "**no**",
        )
        for each in found
    ]
    return _table(head, rows)


def _deciding(found: Sequence[Deciding]) -> str:
    head = ("medians", "L0", "runs", "segments in them", "decide ms", "explain ms", "log start ms", "append ms")
    head += ("check ms", "encode ms", "KB")
    rows = [
        (
            each.policy,
            str(each.l0),
            str(each.runs),
            str(each.segments),
            f"{each.decide_ms:.1f}",
            f"{each.survey_ms:.1f}",
            f"{each.log_start_ms:.2f}",
            f"{each.append_ms:.2f}",
            f"{each.check_ms:.2f}",
            f"{each.encode_ms:.2f}",
            f"{each.manifest_bytes / 1e3:.0f}",
        )
        for each in found
    ]
    return _table(head, rows)


def _recording(found: Sequence[Recording]) -> str:
    head = ("key ranges of a job", "writes to record them", "KB written per range", "KB of a heartbeat then")
    rows = [
        (
            str(each.ranges),
            str(each.writes),
            f"{each.bytes_per_range / 1e3:.1f}",
            f"{each.heartbeat_bytes / 1e3:.0f}",
        )
        for each in found
    ]
    return _table(head, rows)


def _producer(found: Sequence[Produced]) -> str:
    head = ("records into a folder, one by one", "records a second", "per second of CPU")
    return _table(head, [(each.what, f"{each.per_s:,.0f}", f"{each.per_cpu_s:,.0f}") for each in found])


def _cluster(found: OnCluster) -> str:
    head = ("cluster of this machine", "s")
    rows = [
        (f"{found.ranges} key ranges on one worker", f"{found.one_s:.1f}"),
        ("on two workers", f"{found.two_s:.1f}"),
        ("one of them alone", f"{found.range_s:.2f}"),
        ("a task that does almost nothing", f"{found.task_s:.3f}"),
    ]
    ranges = f"A compaction of the same: {found.ranges_run} ranges ran, {found.ranges_explained} were explained before."
    return f"{_table(head, rows)}\n\n{ranges}"


def _data_source(found: OnSpark) -> str:
    million = found.read_rows / 1e6
    rows = [_times(f"read {million:g} M rows: {name}", each) for name, each in found.reads.items()]
    for how, (ours, rival) in found.writes.items():
        million = found.written_rows / 1e6
        rows.append(_times(f"write {million:g} M rows, {how}: lithify", ours))
        rows.append(_times(f"write {million:g} M rows, {how}: sorted Parquet", rival))
    return _table(("Spark, medians", "wall s", "CPU s"), rows)


def _times(what: str, found: Times) -> Sequence[str]:
    return what, f"{statistics.median(found.wall_s):.2f}", f"{statistics.median(found.cpu_s):.2f}"


def _far(found: FarStore) -> Iterator[str]:
    if found.rows:
        yield _table(FAR_HEAD, list(map(far_cells, found.rows)))
    for each in found.not_run:
        yield f"Not measured: {each}."


def _bars(found: Sequence[Bar]) -> str:
    rows = [(bar.what, f"{bar.measured:.3g}", _limit(bar), "yes" if bar.met else "**no**") for bar in found]
    return _table(("bar", "measured", "limit", "met"), rows)


def _limit(bar: Bar) -> str:
    if bar.at_least == bar.at_most:
        return f"= {bar.at_most:,g}"
    return f"≤ {bar.at_most:,g}" if bar.at_least is None else f"≥ {bar.at_least:,g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in lines)
