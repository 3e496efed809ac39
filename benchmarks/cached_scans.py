"""What a scan of cold segments costs once their bytes are in the cache on disk, against a scan of the same rows in the
warehouse, a folder; by turns, so that both see the same machine (docs/rfcs/0031).

    python -m benchmarks.cached_scans             a minute
    python -m benchmarks.cached_scans --quick     does it work?

CPU time is of the whole process, all threads. The home is an S3 server of this machine, which is asked nothing more
once the cache is filled.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import lithify
from benchmarks.quick import asks_quick
from benchmarks.slow_home import server

__all__ = ["Scans", "cached_scans"]

ROWS, ROUNDS = 400_000, 15
_PER_APPEND = 50_000
_CACHE_BYTES = 1 << 30
_HOT, _COLD = "hot", "cold"


class Scans(NamedTuple):
    """Medians, in milliseconds."""

    hot_cpu: float
    hot_wall: float
    cached_cpu: float
    cached_wall: float

    @property
    def worse(self) -> tuple[float, float]:
        return self.cached_cpu / self.hot_cpu, self.cached_wall / self.hot_wall


def _filled(warehouse: lithify.Warehouse, name: str, config: Mapping[str, str], rows: int) -> lithify.Partition:
    topic = warehouse.create_topic(name, config={"cleanup.policy": "compact", **config}, probe=False)
    values = random.Random(0)
    for first in range(0, rows, _PER_APPEND):
        some = range(first, min(first + _PER_APPEND, rows))
        topic.append([lithify.Record(b"key-%08d" % row, values.randbytes(100) + bytes(100)) for row in some])
    admin, compactor = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    admin.submit(name, 0)
    compactor.run_once()
    if config:
        admin.relocate(name, 0)
        compactor.run_once()
        assert admin.homes(name, 0).homes[0].segments == 0
    compactor.close()
    return topic.partition(0)


def _scanned(part: lithify.Partition, rows: int) -> tuple[float, float]:
    """CPU and wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    assert sum(batch.num_rows for batch in part.scan()) == rows
    return (time.process_time() - cpu) * 1_000, (time.perf_counter() - wall) * 1_000


def cached_scans(folder: Path, quick: bool = False) -> Scans:
    rows, rounds = (5_000, 2) if quick else (ROWS, ROUNDS)
    with server() as port:
        client = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
        options = {
            "homes": {"s3://cold/p": {"key": "test", "secret": "test", "client_kwargs": client}},
            "cache": {"dir": str(folder / "cache"), "bytes": _CACHE_BYTES},
        }
        warehouse = lithify.open(folder / "warehouse", storage_options=options)
        hot = _filled(warehouse, _HOT, {}, rows)
        cold = _filled(warehouse, _COLD, {"cold.location": "s3://cold/p"}, rows)
        times: dict[str, list[tuple[float, float]]] = {_HOT: [], _COLD: []}
        _scanned(cold, rows)
        _scanned(hot, rows)
        missed = warehouse.driver.homes.cache_counts().misses
        for _ in range(rounds):
            times[_HOT].append(_scanned(hot, rows))
            times[_COLD].append(_scanned(cold, rows))
        assert warehouse.driver.homes.cache_counts().misses == missed, "all of it comes from the cache"
        warehouse.close()
    return Scans(*(statistics.median(each) for name in (_HOT, _COLD) for each in zip(*times[name], strict=True)))


def main() -> int:
    quick = asks_quick("cached_scans", __doc__)
    with tempfile.TemporaryDirectory() as folder:
        found = cached_scans(Path(folder), quick)
    cpu, wall = found.worse
    print(f"hot     CPU {found.hot_cpu:8.1f} ms            wall {found.hot_wall:8.1f} ms")
    print(f"cached  CPU {found.cached_cpu:8.1f} ms ({cpu:.2f} x)   wall {found.cached_wall:8.1f} ms ({wall:.2f} x)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
