"""Sorting any number of rows in bounded memory: sort what fits, spill it to a local folder, merge the spilled runs.

At most RUNS_MAX runs are merged at once; fewer if memory is short or records are large. If there are more, they are
first merged into longer ones, which are spilled again: with 64 MiB of memory, rows beyond 2 GiB are written twice, and
beyond 64 GiB three times.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lithify.segment.extent import Order, pieces, row_bytes
from lithify.segment.order import blocks, take
from lithify.segment.schema import RUN
from lithify.segment.sorting import sorted_indices
from lithify.segment.spill import Run, SpillFile, spill_folder
from lithify.store.disk import Disk

__all__ = ["RUNS_MAX", "SORT_BYTES", "external_sort"]

SORT_BYTES = 64 << 20
RUNS_MAX = 32
_PIECE_BYTES = 1 << 20  # the largest spilled batch


def external_sort(
    batches: Iterable[pa.RecordBatch],
    order: Order,
    *,
    memory_bytes: int = SORT_BYTES,
    spill_dir: Path | None = None,
    disk: Disk | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` (any order, schema RUN) in `order`.

    Memory: about three times `memory_bytes` while rows are sorted, twice as much while runs are merged, and three times
    the largest row if that is more. Nothing is spilled if all rows fit. Runs go to nameless files in `spill_dir` (None:
    the system's temporary folder). Raises Unavailable if that cannot hold them.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    piece_bytes = max(1, min(_PIECE_BYTES, memory_bytes // 16))
    with closing(_Runs(order, piece_bytes, memory_bytes * 5 // 8, spill_dir, disk or Disk())) as runs:
        for batch in batches:
            for piece in pieces(batch, piece_bytes):
                size = int(row_bytes(piece).sum())
                if held and held_bytes + size > memory_bytes:
                    runs.add(pieces(_sorted(held, order), piece_bytes))
                    held, held_bytes = [], 0
                held.append(piece)
                held_bytes += size
        last = pieces(_sorted(held, order), piece_bytes) if held else iter(())
        held = []
        for block in blocks([*runs.readers(), last], order):
            yield block.ordered()


class _Runs:
    """Spilled runs. Level 0 has the original runs, each higher level merged runs of the level below."""

    def __init__(self, order: Order, piece_bytes: int, merged_bytes: int, folder: Path | None, disk: Disk) -> None:
        self._order: Order = order
        self._piece_bytes = piece_bytes
        self._merged_bytes = merged_bytes
        self._folder = folder
        self._disk = disk
        self._levels: list[_Level | None] = []

    def add(self, batches: Iterable[pa.RecordBatch], level: int = 0) -> None:
        if level == len(self._levels):
            self._levels.append(None)
        found = self._levels[level]
        if found is not None and (
            len(found.runs) == RUNS_MAX or (len(found.runs) > 1 and _largest(found.runs) >= self._merged_bytes)
        ):
            self._merge(level)
            found = None
        if found is None:
            found = self._levels[level] = _Level(SpillFile(self._disk, self._folder or spill_folder(), RUN), [])
        found.runs.append(found.file.write(batches))

    def readers(self) -> list[Iterator[pa.RecordBatch]]:
        """As many as can be merged at once: a batch of each is in memory, three times over."""
        while True:
            runs = [run for level in self._levels if level for run in level.runs]
            if len(runs) <= 2 or (len(runs) <= RUNS_MAX and _largest(runs) <= self._merged_bytes):
                break
            self._merge(next(number for number, level in enumerate(self._levels) if level))
        return [reader for level in self._levels if level for reader in level.readers()]

    def _merge(self, number: int) -> None:
        level = self._levels[number]
        assert level is not None
        merged = (block.ordered() for block in blocks(level.readers(), self._order))
        self.add((piece for rows in merged for piece in pieces(rows, self._piece_bytes)), number + 1)
        self._levels[number] = None
        level.file.close()

    def close(self) -> None:
        for level in self._levels:
            if level is not None:
                level.file.close()


class _Level(NamedTuple):
    file: SpillFile
    runs: list[Run]

    def readers(self) -> list[Iterator[pa.RecordBatch]]:
        return [self.file.read(run) for run in self.runs]


def _largest(runs: Sequence[Run]) -> int:
    """The bytes of all runs' largest batches together."""
    return sum(run.largest for run in runs)


def _sorted(held: list[pa.RecordBatch], order: Order) -> pa.RecordBatch:
    rows = pa.concat_batches(held)
    return take(rows, sorted_indices(rows, order))
