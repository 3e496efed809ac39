"""What a worker holds, and what it writes, where records are as large as they may be or must be sorted first.

Each merge has as many sources as compaction would give it, and runs in a process of its own.
"""

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from lithify.compactor.plan import fan_in, to_sort
from lithify.log.tables import normalise
from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.jobs import MergeRules
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import FORMAT, Manifest, SegmentRef
from lithify.manifest.units import units
from lithify.segment.execute import execute
from lithify.segment.extent import Order
from lithify.segment.memory import keep_freed_memory
from lithify.segment.task import MergeTask
from lithify.segment.write import encode_append
from lithify.store.file import FileStore
from lithify.store.homes import only_here

__all__ = ["Extreme", "extremes"]

_KEYS = PartitionKeys("extreme", "0123456789abcdef", 0)
_MIB = 1 << 20


class _Case(NamedTuple):
    what: str
    segments: int  # there are so many; compaction takes some of them
    rows: int  # of each
    value_bytes: int
    stored: Order = "key"
    target_bytes: int = 256 * _MIB
    worker_mib_max: int = 512


_CASES = (
    _Case("records of 1 MiB", 16, 16, _MIB),
    _Case("records of 6 MiB", 16, 4, 6 * _MIB),
    _Case("records of 20 MiB", 16, 3, 20 * _MIB),
    _Case("records of 48 MiB", 4, 3, 48 * _MIB),
    # Of the largest records there are, a merge of two holds more: each is in memory as it was read, and one besides as
    # it is written, encoded and compressed.
    _Case("records of 64 MiB", 4, 3, 64 * _MIB - 64, worker_mib_max=640),
    _Case("one segment to sort", 1, 200_000, 1_000, "offset"),
    _Case("many segments to sort", 16, 20_000, 1_000, "offset"),
    _Case("records of 16 MiB to sort", 24, 1, 16 * _MIB, "offset"),
    _Case("records of 30 KB, outputs of 1 MiB", 4, 1_000, 30_000, target_bytes=_MIB),
)


class Extreme(msgspec.Struct, frozen=True):
    what: str
    sources: int  # of one merge
    input_mb: float
    worker_peak_mb: float
    worker_mb_max: float
    largest_output_of_target: float  # the largest output's bytes by those asked for


def extremes(folder: Path, *, quick: bool) -> list[Extreme]:
    return [_measured(case, folder / "extremes") for case in (_CASES[:1] if quick else _CASES)]


def _measured(case: _Case, folder: Path) -> Extreme:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        # SUBTLE! Two processes: the peak of one that was forked begins with what its parent held.
        for step in ("make", "merge"):
            subprocess.run([sys.executable, "-m", "benchmarks.extremes", step, str(folder), case.what], check=True)
        return msgspec.json.decode((folder / "found.json").read_bytes(), type=Extreme)
    finally:
        shutil.rmtree(folder)


def _make(case: _Case, folder: Path) -> None:
    store, dice = FileStore(folder / "store"), random.Random(0)
    refs = [_append(case, store, number * case.rows, dice) for number in range(case.segments)]
    manifest = Manifest(format=FORMAT, topic=_KEYS.topic, topic_id=_KEYS.topic_id, partition=0, l0=tuple(refs))
    found = units(manifest)
    task = MergeTask(
        keys=_KEYS,
        job="000000000001-0badcafe",
        attempt=1,
        range_index=0,
        bounds=EVERYTHING,
        sources=tuple(unit.segments for unit in to_sort(found, case.target_bytes) or fan_in(found)),
        rules=MergeRules(order="key", drop_superseded=True),
        output_bytes=case.target_bytes,
    )
    (folder / "task.json").write_bytes(msgspec.json.encode(task))


def _append(case: _Case, store: FileStore, base: int, dice: random.Random) -> SegmentRef:
    keys = [b"%012d" % dice.randrange(10**12) for _ in range(case.rows)]
    values = [dice.randbytes(case.value_bytes) for _ in keys]
    table = normalise(pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}), 0)
    body, ref = encode_append(table, case.stored, f"000000000001-{base:016x}")
    store.put(_KEYS.segment(ref.id), body)
    return replace(ref, base_offset=base, min_offset=base, max_offset=base + case.rows - 1)


def _merge(case: _Case, folder: Path) -> None:
    task = msgspec.json.decode((folder / "task.json").read_bytes(), type=MergeTask)
    keep_freed_memory(large_rows=task.large_rows)
    done = execute(task, only_here(FileStore(folder / "store")))
    found = Extreme(
        what=case.what,
        sources=len(task.sources),
        input_mb=sum(ref.bytes for refs in task.sources for ref in refs) / 1e6,
        worker_peak_mb=done.peak_memory_bytes / 1e6,
        worker_mb_max=case.worker_mib_max * _MIB / 1e6,
        largest_output_of_target=max(ref.bytes for ref in done.outputs) / case.target_bytes,
    )
    (folder / "found.json").write_bytes(msgspec.json.encode(found))


def _main(arguments: Sequence[str]) -> None:
    step, folder, what = arguments
    case = next(case for case in _CASES if case.what == what)
    {"make": _make, "merge": _merge}[step](case, Path(folder))


if __name__ == "__main__":
    _main(sys.argv[1:])
