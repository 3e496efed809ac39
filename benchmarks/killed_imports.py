"""Imports that are killed: a CSV file, lines of JSON and a folder of Parquet, each with SIGKILL five times at random,
and started again with the same command. In the end every row is in the log exactly once, in the order of its source.

    python -m benchmarks.killed_imports --rows 10000000 --json-bytes 1000000000 --folder-rows 10000000

`tests/chaos/test_killed_imports.py` runs it at a reduced size.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import lithify
from lithify.segment.arrays import longs
from lithify.store.driver import monotonic_ms

__all__ = ["Killed", "Source", "import_killed", "sources"]

KILLS = 5
PARTITIONS = 3
_LOOK_S = 0.02  # between two looks at how far an import is
_ROWS = 100_000  # generated at a time


class Source(NamedTuple):
    """`path` as `append --from` takes it. Row n has the key `k<n>`, and a value that tells n too."""

    name: str
    path: str
    rows: int
    flags: tuple[str, ...]


class Killed(NamedTuple):
    """How an import went."""

    source: str
    rows: int
    source_bytes: int
    kills: int
    attempts: int
    wall_ms: int  # of all attempts together


def sources(folder: Path, rows: int, json_bytes: int, folder_rows: int) -> Iterator[Source]:
    yield _csv(folder / "rows.csv", rows)
    yield _json(folder / "rows.jsonl", json_bytes)
    yield _parquet(folder / "rows", folder_rows)


def _tables(rows: int, value_bytes: int) -> Iterator[pa.Table]:
    for first in range(0, rows, _ROWS):
        numbers = pa.array(np.arange(first, min(rows, first + _ROWS), dtype=np.int64))
        texts = pc.cast(numbers, pa.string())
        values = pc.binary_join_element_wise("v", pc.utf8_lpad(texts, value_bytes, padding="."), "")
        yield pa.table({"id": pc.binary_join_element_wise("k", texts, ""), "value": values})


def _csv(path: Path, rows: int) -> Source:
    with pyarrow.csv.CSVWriter(path, pa.schema([("id", pa.string()), ("value", pa.string())])) as writer:
        for table in _tables(rows, 20):
            writer.write_table(table)
    return Source("CSV", str(path), rows, ("--key-column", "id", "--value-column", "value"))


def _json(path: Path, size: int) -> Source:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.writelines(
                f'{{"key":"k{number}","value":"v{number:.>400}"}}\n' for number in range(rows, rows + 1_000)
            )
            rows += 1_000
    return Source("lines of JSON", str(path), rows, ())


def _parquet(folder: Path, rows: int) -> Source:
    folder.mkdir()
    for number, table in enumerate(_tables(rows, 20)):
        pq.write_table(table.rename_columns(["key", "value"]), folder / f"{number:05d}.parquet")
    return Source("a folder of Parquet", f"{folder}/", rows, ("--engine", "local"))


def import_killed(warehouse_folder: Path, source: Source, dice: random.Random, kills: int = KILLS) -> Killed:
    """Raises AssertionError if a row is missing, doubled, or out of order, or if it was not killed that often."""
    name = "rows"
    with lithify.open(warehouse_folder) as warehouse:
        topic = warehouse.create_topic(name, PARTITIONS, probe=False)
        began_ms, done, attempts, ended = monotonic_ms(), 0, 0, False
        stored = _segments(warehouse_folder)
        # Segments of one whole import, at least: a batch goes to each partition. Kills lie within a share of that, so
        # that each one meets an import that is not done.
        whole = max(PARTITIONS * source.rows // 10_000, kills + 1)
        while not ended:
            attempts += 1
            before = stored()
            limit = before + dice.randint(0, max(1, whole // (kills + 1))) if done < kills else sys.maxsize
            ended, died = _attempt(warehouse_folder, name, source, lambda limit=limit: stored() >= limit)
            done += died
        assert done == kills, f"{source.name}: it ended after {done} of {kills} kills: too few rows"
        wall_ms = monotonic_ms() - began_ms
        _check(topic, source)
    return Killed(source.name, source.rows, _bytes(source), done, attempts, wall_ms)


def _attempt(folder: Path, topic: str, source: Source, due: Callable[[], bool]) -> tuple[bool, bool]:
    """Whether it ended by itself, and whether it was killed."""
    command = [sys.executable, "-m", "lithify", "append", topic, "--from", source.path, *source.flags]
    env = {**os.environ, "LITHIFY_WAREHOUSE": str(folder)}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                _, told = process.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if due():
                    process.kill()
                    process.communicate()
                    return process.returncode == 0, process.returncode < 0
                continue
            assert process.returncode == 0, told
            return True, False


def _segments(folder: Path) -> Callable[[], int]:
    """Counts the segments in a warehouse."""
    return lambda: sum(1 for _ in folder.glob("rows/*/*/segments/*.parquet"))


def _check(topic: lithify.Topic, source: Source) -> None:
    seen = np.zeros(source.rows, np.int64)
    for number in range(topic.partitions):
        before = -1
        for batch in topic.partition(number).read_batches():
            rows = _numbers(batch.column("key"), "k")
            values = _numbers(batch.column("value"), "v")
            assert np.array_equal(rows, values), f"{source.name}: a value is another row's"
            ordered = bool(np.all(np.diff(np.concatenate([[before], rows])) > 0))
            assert ordered, f"{source.name}: partition {number} is not in the order of the source"
            before = int(rows[-1])
            seen += np.bincount(rows, minlength=source.rows)
    missing, doubled = int((seen == 0).sum()), int((seen > 1).sum())
    assert (missing, doubled) == (0, 0), f"{source.name}: {missing} rows are missing, {doubled} are there twice"


def _numbers(column: pa.Array, mark: str) -> npt.NDArray[np.int64]:
    text = pc.utf8_ltrim(column.cast(pa.string()), f"{mark}.")
    return longs(text.cast(pa.int64()))


def _bytes(source: Source) -> int:
    path = Path(source.path)
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killed_imports")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the CSV file")
    parser.add_argument("--json-bytes", type=int, default=1_000_000_000)
    parser.add_argument("--folder-rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=20261126)
    chosen = parser.parse_args(arguments)
    dice = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory(prefix="lithify-killed-imports-") as place:
        for source in sources(Path(place), chosen.rows, chosen.json_bytes, chosen.folder_rows):
            warehouse = Path(place) / "warehouse"
            it = import_killed(warehouse, source, dice)
            rate = it.rows * 1_000 // max(it.wall_ms, 1)
            sys.stdout.write(
                f"{it.source}: {it.rows:,} rows ({it.source_bytes / 1e6:,.0f} MB), killed {it.kills} times in "
                f"{it.attempts} attempts, {it.wall_ms / 1_000:,.1f} s ({rate:,} rows a second): exact\n"
            )
            sys.stdout.flush()
            shutil.rmtree(warehouse)
    return 0


if __name__ == "__main__":
    sys.exit(main())
