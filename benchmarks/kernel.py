"""The merge kernel on its own: clean tasks in a pool of processes, against DuckDB and against rewriting unchanged.

    python benchmarks/kernel.py /tmp/lithify-bench --json kernel.json

Measures wall and CPU seconds (medians over --runs, the contestants taking turns) and the workers' peak memory. Each
contestant runs in processes of its own that have imported what they need before the clock starts.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from generate import KEYS, arguments, generate  # type: ignore[import-not-found]

from lithify.manifest.jobs import KeyRange, MergeRules
from lithify.manifest.model import SegmentRef
from lithify.segment.execute import execute
from lithify.segment.ranges import row_group_weights, split_ranges
from lithify.segment.read import SegmentReader
from lithify.segment.task import MergeTask, TaskResult
from lithify.segment.write import SegmentWriter
from lithify.store.file import FileStore

OUTPUT_BYTES = 256 << 20
RULES = MergeRules(drop_superseded=True, clock_ms=1_700_000_000_000, stamp_horizon_ms=1_700_086_400_000)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ranges_of(folder: Path, refs: list[SegmentRef], count: int) -> tuple[KeyRange, ...]:
    store = FileStore(folder)
    weights = [weight for ref in refs for weight in row_group_weights(SegmentReader(store, KEYS.segment(ref.id), ref))]
    return split_ranges(weights, -(-sum(weight.weight_bytes for weight in weights) // count))


def run_task(folder: Path, task: MergeTask) -> TaskResult:
    return execute(task, FileStore(folder))


def clean(folder: Path, refs: list[SegmentRef], workers: int, range_count: int) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(time.sleep, [0.2] * workers))  # both have started and imported
        begin = time.perf_counter()
        tasks = [
            MergeTask(
                topic=KEYS.topic,
                topic_id=KEYS.topic_id,
                partition=KEYS.partition,
                job="000000000001-00000000",
                attempt=1,
                range_index=index,
                low=each.low,
                high=each.high,
                sources=tuple((ref,) for ref in refs),
                rules=RULES,
                output_bytes=OUTPUT_BYTES,
            )
            for index, each in enumerate(ranges_of(folder, refs, range_count))
        ]
        results = list(pool.map(run_task, [folder] * len(tasks), tasks))
        wall = time.perf_counter() - begin
    outputs = [ref for result in results for ref in result.outputs]
    measured = {
        "wall_s": wall,
        "cpu_s": sum(result.counts.cpu_ms for result in results) / 1000,
        "rows_out": sum(ref.rows for ref in outputs),
        "bytes_out": sum(ref.bytes for ref in outputs),
        "peak_mb": max(result.peak_memory_bytes for result in results) / 1e6,
    }
    FileStore(folder).delete([KEYS.segment(ref.id) for ref in outputs])
    return measured


def rewrite(folder: Path, refs: list[SegmentRef]) -> dict[str, float]:
    """Read every segment and write it again, one thread, with the same settings."""
    store = FileStore(folder)
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    bytes_out = 0
    for ref in refs:
        writer = SegmentWriter(store.output("rewritten"), ref.id, "key")
        for batch in SegmentReader(store, KEYS.segment(ref.id), ref).batches():
            writer.write(batch)
        bytes_out += writer.close().bytes
    return {
        "wall_s": time.perf_counter() - begin,
        "cpu_s": cpu_seconds() - cpu_begin,
        "rows_out": sum(ref.rows for ref in refs),
        "bytes_out": bytes_out,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def with_absolute_offsets(folder: Path, refs: list[SegmentRef]) -> None:
    """The same segments with offsets in their rows, since DuckDB knows of no base offset."""
    store = FileStore(folder)
    for ref in refs:
        if store.head(f"absolute/{ref.id}.parquet") is None:
            writer = SegmentWriter(store.output(f"absolute/{ref.id}.parquet"), ref.id, "key")
            for batch in SegmentReader(store, KEYS.segment(ref.id), ref).batches():
                writer.write(batch)
            writer.close()


def duckdb_clean(folder: Path, threads: int) -> dict[str, float]:
    """The same result by SQL; it is spared the headers."""
    import duckdb

    output = folder / "duckdb.parquet"
    connection = duckdb.connect(config={"threads": threads})
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    connection.execute(
        f"copy (select key, value, \"offset\", timestamp_ms from read_parquet('{folder}/absolute/*.parquet') "
        'qualify row_number() over (partition by key order by "offset" desc) = 1 order by key) '
        f"to '{output}' (format parquet, compression zstd)"
    )
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu_begin
    counted = connection.execute(f"select count(*) from read_parquet('{output}')").fetchone()
    assert counted is not None
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "rows_out": counted[0],
        "bytes_out": output.stat().st_size,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def alone(work: Callable[..., dict[str, float]], *given: Any) -> dict[str, float]:
    """Run `work` in a new process, so that memory and CPU are its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def main() -> None:
    parser: argparse.ArgumentParser = arguments()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ranges", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    refs = generate(flags.folder, flags.segments, flags.rows, flags.keys)
    with_absolute_offsets(flags.folder, refs)
    contestants: dict[str, Callable[[], dict[str, float]]] = {
        "clean": lambda: clean(flags.folder, refs, flags.workers, flags.ranges),
        "duckdb": lambda: alone(duckdb_clean, flags.folder, flags.workers),
        "rewrite": lambda: alone(rewrite, flags.folder, refs),
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for _ in range(flags.runs):
        for name, contestant in contestants.items():
            runs[name].append(contestant())
    medians = {
        name: {unit: statistics.median(run[unit] for run in measured) for unit in measured[0]}
        for name, measured in runs.items()
    }
    ratios = {
        "duckdb_wall_over_clean_wall": medians["duckdb"]["wall_s"] / medians["clean"]["wall_s"],
        "clean_cpu_over_rewrite_cpu": medians["clean"]["cpu_s"] / medians["rewrite"]["cpu_s"],
    }
    print(f"{'':8} {'wall s':>8} {'CPU s':>8} {'rows out':>10} {'MB out':>8} {'peak MB':>8}")
    for name, m in medians.items():
        print(
            f"{name:8} {m['wall_s']:8.2f} {m['cpu_s']:8.2f} {m['rows_out']:10.0f} {m['bytes_out'] / 1e6:8.0f} "
            f"{m['peak_mb']:8.0f}"
        )
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}")
    if flags.json:
        flags.json.write_text(json.dumps({"medians": medians, "ratios": ratios, "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
