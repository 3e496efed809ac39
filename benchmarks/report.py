"""The tables, as Markdown that also reads well on a terminal."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.cluster import OnCluster
from benchmarks.convergence import Convergence
from benchmarks.deciding import Deciding
from benchmarks.points import Points
from benchmarks.recording import Recording
from benchmarks.results import Bar, Found, Results, bars
from benchmarks.scale import slope

__all__ = ["show", "write_readme"]

_BEGIN, _END = "<!-- bench:begin -->", "<!-- bench:end -->"
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
    """Put the tables of contenders and scale between the marks in `readme`, in place of what stands there."""
    main = replace(results, extremes=[], convergence=[], deciding=[], recording=[], cluster=None)
    text = readme.read_text()
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{readme} has no place for the tables: put {_BEGIN} and {_END} on lines of their own")
    readme.write_text(f"{before}{_BEGIN}\n{show(replace(main, bars=bars(main)))}\n{_END}{after}")


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
    if results.cluster:
        yield _cluster(results.cluster)
    if results.points:
        yield _points(results.points)
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
    head = ("medians", "L0", "runs", "decide ms", "explain ms", "log start ms", "append ms", "encode ms", "KB")
    rows = [
        (
            each.policy,
            str(each.l0),
            str(each.runs),
            f"{each.decide_ms:.1f}",
            f"{each.survey_ms:.1f}",
            f"{each.log_start_ms:.2f}",
            f"{each.append_ms:.2f}",
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


def _cluster(found: OnCluster) -> str:
    head = ("cluster of this machine", "s")
    rows = [
        (f"{found.ranges} key ranges on one worker", f"{found.one_s:.1f}"),
        ("on two workers", f"{found.two_s:.1f}"),
        ("one of them alone", f"{found.range_s:.2f}"),
        ("a task that does almost nothing", f"{found.task_s:.3f}"),
    ]
    return _table(head, rows)


def _bars(found: Sequence[Bar]) -> str:
    rows = [(bar.what, f"{bar.measured:.3g}", _limit(bar), "yes" if bar.met else "**no**") for bar in found]
    return _table(("bar", "measured", "limit", "met"), rows)


def _limit(bar: Bar) -> str:
    return f"≤ {bar.at_most:.3g}" if bar.at_least is None else f"≥ {bar.at_least:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in lines)
