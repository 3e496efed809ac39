"""How far away the store may be felt: the limits of the rows of `far`, and their table and bars."""

from collections.abc import Iterator

from benchmarks.far_rows import FarRow, FarStore

__all__ = ["FAR_HEAD", "OURS", "THEIRS", "Limit", "far_cells", "far_limits"]

# What a limit is called, what is measured, at most, at least.
Limit = tuple[str, float, float | None, float | None]

OURS, THEIRS = "scan, one run, in turn with DuckDB", "DuckDB's read_parquet, the same files"
FAR_HEAD = ("medians", "near", "far", "far ÷ near", "(far − near) ÷ 30 ms")
_ROUND_TRIPS = {
    "append of 100 records": 3.2,
    "get, a clean partition": 3,
    "get, a clean partition, staleness allowed": 1.2,
    "get, 8 L0 segments": 4,
    "open and describe, cold": 6,
    "open and describe, cold, 40,000 segments in one run": 8,
    "open and describe, cold, 40,000 segments in 40,000 runs": 8,
    "20 new small segments, followed": 5,
}
_RATIO_MAX = 1.25
_RATIOS = ("scan", "read", "compact", "spark")
_IDLE_S, _IDLE_REQUESTS = 5, 1_000


def far_limits(found: FarStore) -> Iterator[Limit]:
    for what, most in _ROUND_TRIPS.items():
        if (row := found[what]) and row.round_trips is not None:
            yield f"round trips of: {what}", row.round_trips, most, None
    for row in found.rows:
        if row.row in _RATIOS:
            yield f"far over near: {row.what}", row.ratio, _RATIO_MAX, None
        if row.row == "idle" and "looks at all" not in row.what:
            yield f"seconds, far: {row.what}", row.far, _IDLE_S, None
            yield f"requests: {row.what}", row.requests or 0, _IDLE_REQUESTS, None
    if (ours := found[OURS]) and (theirs := found[THEIRS]):
        yield "DuckDB's time over lithify's, both far", theirs.far / ours.far, None, 1
    if one := found["appends a second, 1 thread"]:
        if many := found["appends a second, 64 threads"]:
            yield "far: appends a second of 64 threads over those of one", many.far / one.far, None, 25
        if many := found["appends a second, 8 processes on one partition"]:
            yield "far: appends a second of 8 processes over those of one", many.far / one.far, None, 1


def far_cells(row: FarRow) -> tuple[str, ...]:
    """In the order of FAR_HEAD."""
    asked = "" if row.requests is None else f" ({row.requests} requests)"
    trips = "" if row.round_trips is None else f"{row.round_trips:.1f}"
    return row.what + asked, _told(row.near, row.unit), _told(row.far, row.unit), f"{row.ratio:.2f}", trips


def _told(measured: float, unit: str) -> str:
    return f"{measured:.0f} ms" if unit == "ms" else f"{measured:.3g} {unit}"
