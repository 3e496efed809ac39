"""The yardstick of CPU time: every segment read and written again unchanged, with the same reader and writer.

As many processes at a time as the engine has workers, with the same settings of memory, so that the caches and the
memory bus are as busy as they are in a compaction.
"""

import multiprocessing
import shutil
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import lithify
from benchmarks.generate import copy_warehouse, warehouse
from benchmarks.measure import Settings
from benchmarks.reading import Located, located
from lithify.segment.memory import keep_freed_memory
from lithify.segment.read import SegmentReader
from lithify.segment.write import SegmentWriter
from lithify.store.file import FileStore

__all__ = ["contender"]


class Rewrite:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = ProcessPoolExecutor(settings.processors, mp_context=multiprocessing.get_context("spawn"))
        self._root = settings.folder / "work-rewrite"
        self._segments: list[Located] = []

    def prepare(self) -> None:
        copy_warehouse(warehouse(self._settings.folder, self._settings.shape), self._root)
        self._segments = located(lithify.open(f"file://{self._root}"))
        list(self._pool.map(_rewrite, [self._root] * self._settings.processors, self._segments))  # started, imported

    def run(self) -> Mapping[str, float]:
        written = list(self._pool.map(_rewrite, [self._root] * len(self._segments), self._segments))
        return {"rows_out": self._settings.shape.total_rows, "bytes_out": sum(written)}

    def close(self) -> None:
        self._pool.shutdown()
        shutil.rmtree(self._root, ignore_errors=True)


def _rewrite(root: Path, segment: Located) -> int:
    """The bytes written. Both the key of the output and its id are new."""
    keep_freed_memory(large_rows=False)
    store = FileStore(root)
    writer = SegmentWriter(store.output(f"rewritten/{segment.ref.id}.parquet"), segment.ref.id, "key")
    for batch in SegmentReader(store, segment.key, segment.ref).batches():
        writer.write(batch)
    return writer.close().bytes


def contender(settings: Settings) -> Rewrite:
    return Rewrite(settings)
