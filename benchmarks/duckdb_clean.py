"""DuckDB doing the same: the record with the highest offset of each key, sorted, as Parquet with zstd 1.

It reads the same records from the same kind of files, and is spared headers, checksums, tombstones, and flushing its
output to the disk.
"""

import shutil
from collections.abc import Mapping

import duckdb  # pyright: ignore[reportMissingImports] - installed for `make bench` alone

from benchmarks.measure import Settings
from benchmarks.reading import plain_files

__all__ = ["contender"]


class DuckDbClean:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._input = plain_files(settings.folder, settings.shape)
        self._output = settings.folder / "work-duckdb"
        self._connection = duckdb.connect(config={"threads": settings.processors})
        self._connection.execute("set enable_progress_bar = false")

    def prepare(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)
        self._output.mkdir()
        self._connection.execute(f"select count(*) from read_parquet('{self._input}/*.parquet')")

    def run(self) -> Mapping[str, float]:
        output = self._output / "cleaned.parquet"
        self._connection.execute(
            f"copy (select key, value, \"offset\", timestamp_ms from read_parquet('{self._input}/*.parquet') "
            'qualify row_number() over (partition by key order by "offset" desc) = 1 order by key) '
            f"to '{output}' (format parquet, compression zstd, compression_level 1)"
        )
        counted = self._connection.execute(f"select count(*) from read_parquet('{output}')").fetchone()
        assert counted is not None
        return {"rows_out": counted[0], "bytes_out": output.stat().st_size}

    def close(self) -> None:
        self._connection.close()
        shutil.rmtree(self._output, ignore_errors=True)


def contender(settings: Settings) -> DuckDbClean:
    return DuckDbClean(settings)
