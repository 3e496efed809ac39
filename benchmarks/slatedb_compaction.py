"""SlateDB compacting the same records: its L0 tables, one per append, merged by its own compactor into one sorted run.

The database is filled before (each append put record by record, then flushed as one L0 table, zstd, no write-ahead log,
no compactor) and copied for each run. Measured is the process from opening the database with its compactor until the
manifest shows the L0 tables merged: opening, scheduling and polling are in it, and the caches it fills; they are small
beside the merge, but the wall time has its polling intervals, so only the CPU time is compared. Keys and values are the
same; timestamps and headers, which SlateDB's records do not have, are not in it.
"""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slatedb import uniffi  # pyright: ignore[reportMissingImports] - installed for `make bench` alone

from benchmarks.generate import Shape, copy_warehouse, tables
from benchmarks.measure import Settings

__all__ = ["contender"]

_BATCH_ROWS = 10_000
_POLL_S = 0.05
_COMMON = {"wal_enabled": False, "garbage_collector_options": None, "compression_codec": "Zstd"}
_FILL = {
    "compactor_options": None,
    "l0_sst_size_bytes": 1 << 30,  # the flush alone ends an L0 table
    "max_unflushed_bytes": 4 << 30,
    "l0_max_ssts": 64,
    "l0_max_ssts_per_key": 64,
}


class SlateDb:
    def __init__(self, settings: Settings) -> None:
        self._filled = settings.folder / f"{settings.shape.name}-slatedb"
        self._work = settings.folder / "work-slatedb"
        if not self._filled.exists():
            begun = settings.folder / f"{settings.shape.name}-slatedb.part"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir(parents=True)
            asyncio.run(_fill(begun, settings.shape))
            begun.rename(self._filled)

    def prepare(self) -> None:
        copy_warehouse(self._filled, self._work)

    def run(self) -> Mapping[str, float]:
        asyncio.run(_compact(self._work))
        return {
            "bytes_in": _table_bytes(self._filled),
            "bytes_out": _table_bytes(self._work) - _table_bytes(self._filled),
        }

    def close(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)


def _table_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.sst"))


def _path(folder: Path) -> str:
    return str(folder).lstrip("/")


def _builder(folder: Path, changes: Mapping[str, Any]) -> Any:
    builder = uniffi.DbBuilder(_path(folder), uniffi.ObjectStore.resolve("file:///"))
    settings = uniffi.Settings.default()
    for name, value in {**_COMMON, **changes}.items():
        settings.set(name, json.dumps(value))
    builder.with_settings(settings)
    return builder


async def _fill(folder: Path, shape: Shape) -> None:
    database = await _builder(folder, _FILL).build()
    for table in tables(shape):
        for batch in table.select(["key", "value"]).to_batches(_BATCH_ROWS):
            puts = uniffi.WriteBatch()
            for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                puts.put(key, value)
            await database.write_with_options(puts, uniffi.WriteOptions())
        await database.flush_with_options(uniffi.FlushOptions(flush_type=uniffi.FlushType.MEM_TABLE))
    await database.shutdown()


async def _compact(folder: Path) -> None:
    compactor = json.loads(uniffi.Settings.default().to_json_string())["compactor_options"]
    compactor |= {"poll_interval": "100ms", "commit_compacted_interval": "100ms"}
    compactor["worker"] |= {"compactions_poll_interval": "100ms", "compression_codec": "Zstd"}
    compactor["scheduler_options"] = {"min_compaction_sources": "1", "max_compaction_sources": "64"}
    database = await _builder(folder, {"compactor_options": compactor}).build()
    admin = uniffi.AdminBuilder(_path(folder), uniffi.ObjectStore.resolve("file:///")).build()
    while (manifest := await admin.read_manifest(None)) is None or manifest.l0:
        await asyncio.sleep(_POLL_S)
    await database.shutdown()


def contender(settings: Settings) -> SlateDb:
    return SlateDb(settings)
