"""Sorting any number of rows in bounded memory: sort what fits, spill it to a local folder, merge the spilled runs."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from lithify.segment.extent import Order, row_bytes
from lithify.segment.order import blocks, take
from lithify.segment.sorting import sorted_indices

__all__ = ["SORT_BYTES", "external_sort"]

SORT_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20  # at most, of one spilled batch: the merge holds one of each run


def external_sort(
    batches: Iterable[pa.RecordBatch],
    order: Order,
    *,
    memory_bytes: int = SORT_BYTES,
    spill_dir: Path | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` (any order, schema RUN) in `order`.

    Memory: about three times `memory_bytes`, plus 3 MiB for each run spilled. Nothing is spilled where all rows fit.
    Runs go to a new folder in `spill_dir` (None: the system's temporary folder), removed at the end, early or not.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    with tempfile.TemporaryDirectory(prefix="lithify-sort-", dir=spill_dir) as folder:
        runs: list[Path] = []
        for batch in batches:
            for piece in _pieces(batch, memory_bytes):
                held.append(piece)
                held_bytes += int(row_bytes(piece).sum())
                if held_bytes >= memory_bytes:
                    runs.append(_spill(_sorted(held, order), Path(folder) / str(len(runs)), memory_bytes))
                    held, held_bytes = [], 0
        last = _pieces(_sorted(held, order), memory_bytes) if held else iter(())
        held = []
        for block in blocks([*(_spilled(run) for run in runs), last], order):
            yield block.ordered()


def _sorted(held: list[pa.RecordBatch], order: Order) -> pa.RecordBatch:
    rows = pa.concat_batches(held)
    return take(rows, sorted_indices(rows, order))


def _spill(batch: pa.RecordBatch, path: Path, memory_bytes: int) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        for piece in _pieces(batch, memory_bytes):
            writer.write_batch(piece)
    return path


def _spilled(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_file(file)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    path.unlink()


def _pieces(batch: pa.RecordBatch, memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """`batch` in slices of about _PIECE_BYTES, or less where memory is little."""
    ends = np.cumsum(row_bytes(batch))
    start = 0
    while start < batch.num_rows:
        room = (int(ends[start - 1]) if start else 0) + max(1, min(_PIECE_BYTES, memory_bytes // 16))
        stop = max(start + 1, int(np.searchsorted(ends, room, "right")))
        yield batch.slice(start, stop - start)
        start = stop
