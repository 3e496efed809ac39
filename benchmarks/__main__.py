"""How fast, at what cost, and in how much memory: every contender on the same machine and data, taking turns.

    make bench                                      all of it; the data take about 10 GB, and are kept between runs
    python -m benchmarks --only lithify_spark,rewrite --runs 5
    python -m benchmarks --only convergence,deciding,recording
                                                    what the policy writes, leaves and costs: needs no rivals
    python -m benchmarks --quick                    tiny data, one run: does it all work? Its figures mean nothing

Prints tables and the bars that the project sets itself, and writes all figures to benchmarks/results/latest.json.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from pathlib import Path

import msgspec

from benchmarks.cluster import cluster
from benchmarks.convergence import convergence
from benchmarks.data_source import data_source
from benchmarks.deciding import deciding
from benchmarks.extremes import extremes
from benchmarks.far import far
from benchmarks.generate import Shape
from benchmarks.measure import Remote, Run, Settings
from benchmarks.points import points
from benchmarks.producing import producing
from benchmarks.recording import recording
from benchmarks.report import show, write_readme
from benchmarks.requests import requests
from benchmarks.results import Found, Results, bars
from benchmarks.scale import large_values, scale

CONTENDERS = ("lithify_spark", "duckdb_clean", "spark_sql", "rewrite", "slatedb_compaction")
OTHERS = (
    "requests",
    "scale",
    "large_values",
    "extremes",
    "convergence",
    "deciding",
    "recording",
    "producer",
    "cluster",
    "data_source",
    "far",
    "points",
)
_ROOT = Path(__file__).parent
# SlateDB's Python binding puts some ten thousand records a second: it is given a quarter of each segment.
_SLATEDB_PART = 4
_QUICK = Shape(segments=2, rows=5_000, keys=10_000)


def main() -> int:
    flags = _flags()
    settings = Settings(flags.folder, _QUICK if flags.quick else Shape())
    runs = 1 if flags.quick else flags.runs
    _check_installed(flags.only)
    settings.folder.mkdir(parents=True, exist_ok=True)
    results = Results(
        machine=_machine(),
        contenders=_take_turns([name for name in CONTENDERS if name in flags.only], settings, runs),
        requests=requests(settings.folder) if "requests" in flags.only else None,
        scale=scale(settings, runs) if "scale" in flags.only else [],
        large_values=large_values(settings) if "large_values" in flags.only else None,
        extremes=extremes(settings.folder, quick=flags.quick) if "extremes" in flags.only else [],
        convergence=convergence(flags.quick) if "convergence" in flags.only else [],
        deciding=deciding() if "deciding" in flags.only else [],
        recording=recording() if "recording" in flags.only else [],
        producer=producing(settings.folder, quick=flags.quick) if "producer" in flags.only else [],
        cluster=cluster(settings.folder, settings.shape, runs) if "cluster" in flags.only else None,
        points=points(settings.folder, quick=flags.quick) if "points" in flags.only else None,
        data_source=data_source(settings.folder, settings.shape, runs) if "data_source" in flags.only else None,
        far=far(settings.folder, quick=flags.quick) if "far" in flags.only else None,
    )
    results = msgspec.structs.replace(results, bars=bars(results))
    flags.json.parent.mkdir(parents=True, exist_ok=True)
    flags.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    print(show(results))
    if flags.readme:
        write_readme(_ROOT.parent / "README.md", results)
    if flags.quick:
        shutil.rmtree(settings.folder)
        return 0
    return 0 if all(bar.met for bar in results.bars) else 1


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=_parts, default=CONTENDERS + OTHERS, help=", ".join(CONTENDERS + OTHERS))
    parser.add_argument("--runs", type=int, default=3, help="of each contender, in turn")
    parser.add_argument("--folder", type=Path, help="for all data (default: lithify-bench in the temporary folder)")
    parser.add_argument("--json", type=Path, default=_ROOT / "results" / "latest.json")
    parser.add_argument("--quick", action="store_true", help="tiny data, one run, in a folder that is removed")
    parser.add_argument("--readme", action="store_true", help="put the tables into README.md, too")
    flags = parser.parse_args()
    if flags.quick:
        flags.folder = Path(tempfile.mkdtemp(prefix="lithify-bench-", dir=flags.folder))
    flags.folder = (flags.folder or Path(tempfile.gettempdir()) / "lithify-bench").absolute()
    return flags


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    for part in parts:
        if part not in CONTENDERS + OTHERS:
            raise argparse.ArgumentTypeError(f"{part!r} is none of {', '.join(CONTENDERS + OTHERS)}")
    return parts


def _check_installed(parts: tuple[str, ...]) -> None:
    for rival, part in (("duckdb", "duckdb_clean"), ("slatedb", "slatedb_compaction")):
        if part in parts and importlib.util.find_spec(rival) is None:
            raise SystemExit(f"{part} needs {rival}: 'make bench' installs it, or leave it out with --only")


def _take_turns(names: list[str], settings: Settings, runs: int) -> dict[str, Found]:
    """A B C, A B C...: what else the machine does hits all alike."""
    shapes = dict.fromkeys(names, settings.shape)
    if "slatedb_compaction" in shapes:
        rows, keys = settings.shape.rows // _SLATEDB_PART, settings.shape.keys // _SLATEDB_PART
        shapes["slatedb_compaction"] = msgspec.structs.replace(settings.shape, rows=rows, keys=keys)
    remotes: dict[str, Remote] = {}
    measured: dict[str, list[Run]] = {name: [] for name in names}
    try:
        for name in names:
            given = msgspec.structs.replace(settings, shape=shapes[name])
            remotes[name] = Remote(f"benchmarks.{name}", given)
        for _ in range(runs):
            for name in names:
                measured[name].append(remotes[name].measure())
    finally:
        for remote in remotes.values():
            remote.close()
    return {name: Found(shapes[name], measured[name]) for name in names}


def _machine() -> dict[str, str]:
    packages = ("lithify", "pyarrow", "pyspark")
    return {
        "processors": str(os.cpu_count()),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


if __name__ == "__main__":
    raise SystemExit(main())
