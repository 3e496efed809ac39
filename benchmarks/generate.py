"""Benchmark data: a warehouse with one compacted topic of one partition, whose L0 segments came by public appends.

Made once per folder and shape, the same on every machine; contenders work on copies (hard links: no object is ever
changed in place). Keys are 16 or 17 bytes, drawn evenly; values compress about 2:1.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lithify

__all__ = ["NOW_MS", "TOPIC", "Shape", "copy_warehouse", "distinct", "one_run", "tables", "warehouse"]

TOPIC = "bench"
NOW_MS = 1_700_000_000_000
_PIECE_BYTES = 64 << 20  # of values made at a time


class Shape(msgspec.Struct, frozen=True):
    segments: int = 8
    rows: int = 1_000_000  # of each segment
    keys: int = 4_000_000  # to draw from
    value_bytes: int = 150

    @property
    def name(self) -> str:
        return f"{self.segments}x{self.rows}-of-{self.keys}-{self.value_bytes}b"

    @property
    def total_rows(self) -> int:
        return self.segments * self.rows


def tables(shape: Shape) -> Iterator[pa.Table]:
    """One table per segment, with columns key, value, timestamp_ms."""
    for seed in range(shape.segments):
        random = np.random.default_rng(seed)
        yield _table(random, shape, seed, random.integers(0, shape.keys, shape.rows))


def distinct(shape: Shape) -> Iterator[pa.Table]:
    """As `tables`, but each key occurs once."""
    drawn = np.random.default_rng(shape.segments).permutation(shape.total_rows).reshape(shape.segments, shape.rows)
    for seed, numbers in enumerate(drawn):
        yield _table(np.random.default_rng(seed), shape, seed, numbers)


def _table(random: np.random.Generator, shape: Shape, seed: int, numbers: npt.NDArray[np.int64]) -> pa.Table:
    # Around the step from 8 to 9 digits, so that both lengths occur and do not sort as the numbers do.
    drawn = numbers + 100_000_000 - shape.keys // 2
    keys = pa.array([b"account-%d" % number for number in drawn.tolist()], pa.binary())
    times = pa.array(NOW_MS + seed * shape.rows + np.arange(shape.rows), pa.int64())
    return pa.table({"key": keys, "value": _values(random, shape), "timestamp_ms": times})


def _values(random: np.random.Generator, shape: Shape) -> pa.ChunkedArray:
    """Half of each value is noise, half a repeated text: zstd takes about half away."""
    noise_bytes = shape.value_bytes // 2
    text = b"status=active;region=eu;" * (shape.value_bytes // 24 + 1)
    step = max(1, _PIECE_BYTES // shape.value_bytes)
    chunks: list[pa.Array] = []
    for start in range(0, shape.rows, step):
        rows = min(step, shape.rows - start)
        content = np.empty((rows, shape.value_bytes), np.uint8)
        content[:, :noise_bytes] = random.integers(0, 256, (rows, noise_bytes), np.uint8)
        content[:, noise_bytes:] = np.frombuffer(text[: shape.value_bytes - noise_bytes], np.uint8)
        ends = np.arange(rows + 1, dtype=np.int32) * shape.value_bytes
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(content.reshape(-1))]
        chunks.append(pa.Array.from_buffers(pa.binary(), rows, buffers))
    return pa.chunked_array(chunks, pa.binary())


def warehouse(folder: Path, shape: Shape) -> Path:
    """The warehouse of `shape` under `folder`, made unless it is there. It is read only: work on a copy."""
    root = folder / shape.name
    if not root.exists():
        begun = folder / f"{shape.name}.part"
        _appended(begun, tables(shape))
        begun.rename(root)
    return root


def one_run(folder: Path, shape: Shape) -> Path:
    """As `warehouse`: as many records, each with a key of its own, in one sorted run."""
    root = folder / f"{shape.name}-one-run"
    if not root.exists():
        begun = folder / f"{shape.name}-one-run.part"
        opened = _appended(begun, distinct(shape))
        lithify.Compactor(opened, engine="local").run_once()
        begun.rename(root)
    return root


def _appended(root: Path, given: Iterable[pa.Table]) -> lithify.Warehouse:
    shutil.rmtree(root, ignore_errors=True)
    opened = lithify.open(f"file://{root}")
    topic = opened.create_topic(TOPIC, partitions=1, config={"cleanup.policy": "compact"})
    for table in given:
        topic.partition(0).append(table)
    return opened


def copy_warehouse(root: Path, to: Path) -> Path:
    """A warehouse of its own at `to`, in place of whatever was there, for the price of links."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(root, to, copy_function=os.link)
    return to
