"""What reading costs, measured before and after a compaction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from rich.table import Table

from lithify.cli.demo.changes import Latest
from lithify.log.partition import Partition
from lithify.log.snapshot import Snapshot
from lithify.log.warehouse import Warehouse
from lithify.store.driver import monotonic_ms
from lithify.store.errors import Corrupt
from lithify.store.listing import objects

__all__ = ["Picture", "measure", "picture_table", "verify", "verify_gets"]

T = TypeVar("T")

_GETS = 20
_REPORT = "keep the data (--keep) and report this"
_PER = 1_000  # costs are given for so many reads: a single read costs too little to show


@dataclass(frozen=True, slots=True)
class Reading:
    """Means over some reads."""

    ms: float
    requests: float
    usd: float  # of the requests, at S3's list prices


@dataclass(frozen=True, slots=True)
class Picture:
    """What is stored, and what reading it takes."""

    objects: int
    bytes: int
    segments: int
    records: int
    live: int
    scan: Reading
    get: Reading

    @property
    def read_amplification(self) -> float:
        """Records that a scan reads for each one that it shows."""
        return self.records / max(1, self.live)


def measure(warehouse: Warehouse, partition: Partition, latest: Latest) -> Picture:
    """Read everything and some keys, and count. Raises Corrupt if the result differs from `latest`."""
    stored = list(objects(warehouse.store, ""))
    described = partition.describe()
    found, scan = _timed(warehouse, 1, lambda: partition.scan().read_all())
    verify(found, latest, "the scan")
    keys = sorted(latest.rows)[:: max(1, len(latest.rows) // _GETS)][:_GETS]
    records, get = _timed(warehouse, len(keys), lambda: [partition.get(key) for key in keys])
    shown = {r.key: (r.offset, r.value) for r in records if r is not None}
    differing = sum(1 for key in keys if shown.get(key) != latest.rows[key])
    if differing:
        raise Corrupt(f"{differing} of {len(keys)} gets differ from the plain dict: {_REPORT}")
    return Picture(
        objects=len(stored),
        bytes=sum(each.size for each in stored),
        segments=len(described.l0) + sum(len(run.segments) for run in described.runs),
        records=described.rows,
        live=len(latest.rows),
        scan=scan,
        get=get,
    )


def _timed(warehouse: Warehouse, times: int, read: Callable[[], T]) -> tuple[T, Reading]:
    store = warehouse.store
    before, began_ms = store.requests(), monotonic_ms()
    answer = read()
    took_ms, counts = monotonic_ms() - began_ms, store.requests() - before
    each = max(1, times)
    return answer, Reading(took_ms / each, counts.total / each, counts.cost_usd / each)


def verify(found: pa.Table, latest: Latest, what: str) -> None:
    """`found` is exactly `latest`: keys in order, each once, with its offset and value. Raises Corrupt."""
    keys = found["key"].to_pylist()
    shown = dict(zip(keys, zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True), strict=True))
    if keys != sorted(shown):
        raise Corrupt(f"{what} shows a key twice or out of order: {_REPORT}")
    if shown != latest.rows:
        differing = sum(1 for key in shown.keys() | latest.rows.keys() if shown.get(key) != latest.rows.get(key))
        raise Corrupt(f"{what} differs from the plain dict in {differing} keys: {_REPORT}")


def verify_gets(source: Partition | Snapshot, latest: Latest) -> int:
    """Ask for users who have left, and for one who never existed; returns how many. Raises Corrupt if one is found."""
    absent = [*sorted(latest.gone)[:_GETS], b"nobody"]
    shown = sum(1 for key in absent if source.get(key) is not None)
    if shown:
        raise Corrupt(f"{shown} deleted keys are still found: {_REPORT}")
    return len(absent)


def picture_table(before: Picture, after: Picture) -> Table:
    table = Table(title="Before and after", title_justify="left", title_style="bold")
    table.add_column("")
    for column in ("before", "after", "less by"):
        table.add_column(column, justify="right")
    for name, unit, of_before, of_after in _rows(before, after):
        table.add_row(name, unit.format(of_before), unit.format(of_after), f"× {of_before / of_after:,.1f}")
    return table


def _rows(before: Picture, after: Picture) -> Iterator[tuple[str, str, float, float]]:
    def row(name: str, unit: str, value: Callable[[Picture], float]) -> tuple[str, str, float, float]:
        return name, unit, value(before), value(after)

    yield row("objects stored", "{:,}", lambda p: p.objects)
    yield row("  of them segments", "{:,}", lambda p: p.segments)
    yield row("bytes stored", "{:,.2f} MB", lambda p: p.bytes / 1e6)
    yield row("records stored", "{:,}", lambda p: p.records)
    yield row("records read for each one shown", "{:.2f}", lambda p: p.read_amplification)
    yield row("scan: time", "{:,.0f} ms", lambda p: p.scan.ms)
    yield row("scan: requests", "{:,.0f}", lambda p: p.scan.requests)
    yield row(f"{_PER:,} scans at S3 list prices", "${:,.4f}", lambda p: p.scan.usd * _PER)
    yield row("get: time", "{:,.1f} ms", lambda p: p.get.ms)
    yield row("get: requests", "{:,.1f}", lambda p: p.get.requests)
    yield row(f"{_PER:,} gets at S3 list prices", "${:,.4f}", lambda p: p.get.usd * _PER)
