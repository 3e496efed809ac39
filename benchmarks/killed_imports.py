"""Imports that are killed: a CSV file, lines of JSON and a folder of Parquet, each with SIGKILL five times at random,
and started again with the same command. In the end every row is in the log exactly once, in the order of its source.

    python -m benchmarks.killed_imports --rows 10000000 --json-bytes 1000000000 --folder-rows 10000000

`tests/chaos/test_killed_imports.py` runs it at a reduced size.
"""

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

import lithify
from lithify.segment.arrays import longs
from lithify.store.driver import monotonic_ms

__all__ = ["Killed", "Source", "import_killed", "sources"]

pc: Any = pyarrow.compute  # its functions are made when it is imported

KILLS = 5
PARTITIONS = 3
_LOOK_S = 0.02  # between two looks at how far an import is
_ROWS = 100_000  # generated at a time
_BATCHES_MIN = 60  # of a file, so that it can be killed in many places


class Source(NamedTuple):
    """`path` as `append --from` takes it. Row n has the key `k<n>`, and a value that tells n too."""

    name: str
    path: str
    rows: int
    flags: tuple[str, ...]
    batch_rows: int


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
    return Source("CSV", str(path), rows, ("--key-column", "id", "--value-column", "value"), _batch_rows(rows))


def _json(path: Path, size: int) -> Source:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.writelines(
                f'{{"key":"k{number}","value":"v{number:.>400}"}}\n' for number in range(rows, rows + 1_000)
            )
            rows += 1_000
    return Source("lines of JSON", str(path), rows, (), _batch_rows(rows))


def _parquet(folder: Path, rows: int) -> Source:
    folder.mkdir()
    for number, table in enumerate(_tables(rows, 20)):
        pq.write_table(table.rename_columns(["key", "value"]), folder / f"{number:05d}.parquet")
    return Source("a folder of Parquet", f"{folder}/", rows, ("--engine", "local"), _batch_rows(rows))


def import_killed(warehouse_folder: Path, source: Source, dice: random.Random) -> Killed:
    """Raises AssertionError if a row is missing, doubled, or out of order, or if it was not killed that often."""
    name = "rows"
    with lithify.open(warehouse_folder) as warehouse:
        topic = warehouse.create_topic(name, PARTITIONS, probe=False)
        done, attempts, ended = 0, 0, False
        draw = _looks if source.path.endswith("/") else _segments
        next_kill = draw(warehouse_folder, source, dice)
        began_ms = monotonic_ms()
        while not ended:
            attempts += 1
            due = next_kill() if done < KILLS else _never
            ended, died = _attempt(warehouse_folder, name, source, due)
            done += died
        assert done == KILLS, f"{source.name}: it ended after {done} of {KILLS} kills: too few rows"
        wall_ms = monotonic_ms() - began_ms
        _check(topic, source)
    return Killed(source.name, source.rows, _bytes(source), done, attempts, wall_ms)


def _batch_rows(rows: int) -> int:
    return max(1, min(100_000, rows // _BATCHES_MIN))


def _attempt(folder: Path, topic: str, source: Source, due: Callable[[], bool]) -> tuple[bool, bool]:
    """Whether it ended by itself, and whether it was killed."""
    command = [sys.executable, "-m", "lithify", "append", topic, "--from", source.path, *source.flags]
    command += ["--batch-size", str(source.batch_rows)]
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


def _never() -> bool:
    return False


def _segments(folder: Path, source: Source, dice: random.Random) -> Callable[[], Callable[[], bool]]:
    """Draws when to kill: after so many more segments that each kill meets an import that is not done. Each
    batch goes to each partition."""
    most = max(1, PARTITIONS * source.rows // source.batch_rows // (KILLS + 1))

    def stored() -> int:
        return sum(1 for _ in folder.glob("rows/*/*/segments/*.parquet"))

    def draw() -> Callable[[], bool]:
        limit = stored() + dice.randint(0, most)
        return lambda: stored() >= limit

    return draw


def _looks(folder: Path, source: Source, dice: random.Random) -> Callable[[], Callable[[], bool]]:
    """As `_segments`, of a folder, which goes in as one commit: after some of the looks that a whole import takes,
    counted in a warehouse of its own."""
    whole = itertools.count()
    aside = folder.with_name(f"{folder.name}-aside")
    with lithify.open(aside) as warehouse:
        warehouse.create_topic("rows", PARTITIONS, probe=False)
    _attempt(aside, "rows", source, lambda: next(whole) < 0)
    shutil.rmtree(aside)
    most = max(1, next(whole) // 2)

    def draw() -> Callable[[], bool]:
        left = itertools.count(dice.randint(1, most), -1)
        return lambda: next(left) <= 1

    return draw


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
