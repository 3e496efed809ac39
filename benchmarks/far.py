"""What it costs that the store is far away: Ceph RGW on this machine, with and without a link of 30 ms round trips and
90 MB/s per connection, by turns.

    python -m benchmarks.far                          all rows
    python -m benchmarks.far --rows append,get        some, which is how to measure a change

Of a latency counts how many round trips it waits for: (far - near) / 30 ms. Of work that moves bytes, far over near.
The programs of RGW come from Debian's packages: `tools/debian radosgw ceph-mon ceph-osd ceph-common` unpacks them.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.far_bars import far_limits
from benchmarks.far_duckdb import duckdb
from benchmarks.far_idle import idle
from benchmarks.far_reading import cold, get, parts, read, scan, tail
from benchmarks.far_rows import FarRow, FarStore
from benchmarks.far_site import Site, far_site, what_is_missing
from benchmarks.far_wide import wide
from benchmarks.far_working import append, appends, compact, large, spark

__all__ = ["ROWS", "far"]

ROWS: Mapping[str, Callable[[Site], Iterator[FarRow]]] = {
    "append": append,
    "get": get,
    "parts": parts,
    "cold": cold,
    "tail": tail,
    "scan": scan,
    "read": read,
    "compact": compact,
    "spark": spark,
    "large": large,
    "wide": wide,
    "appends": appends,
    "idle": idle,
    "duckdb": duckdb,
}


def far(folder: Path, rows: Sequence[str] = tuple(ROWS), quick: bool = False) -> FarStore:
    """`folder`: where RGW keeps its logs."""
    missing = what_is_missing()
    if missing is not None:
        return FarStore(not_run=[f"the far store: {missing}"])
    found: list[FarRow] = []
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="far-") as own, far_site(Path(own), quick) as site:
        for name in rows:
            found += _told(ROWS[name](site))
        return FarStore(found, site.not_run)


def _told(rows: Iterator[FarRow]) -> Iterator[FarRow]:
    for row in rows:
        print(_line(row), flush=True)
        yield row


def _line(row: FarRow) -> str:
    trips = "" if row.round_trips is None else f"  {row.round_trips:6.1f} round trips"
    asked = "" if row.requests is None else f"  {row.requests} requests"
    return f"{row.what:45} {row.near:9.2f} {row.far:9.2f} {row.unit:3} {row.ratio:6.2f} x{trips}{asked}"


def _rows(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in ROWS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(ROWS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.far", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=_rows, default=tuple(ROWS), help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="tiny data, few runs: does it work?")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    given = parser.parse_args()
    found = far(Path(tempfile.gettempdir()), given.rows, given.quick)
    for each in found.not_run:
        print(f"Not measured: {each}")
    for what, measured, most, least in far_limits(found):
        print(f"{what:60} {measured:8.2f}  {f'at most {most}' if least is None else f'at least {least}'}")
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
