"""Writes golden segments of the current format, once: `python -m tests.golden.make_segments`. No test runs it.

Each is an object as it lies in the store, its reference beside it, and its rows are made anew by `ROWS`. The keys of
some look like parts of the format. Files that are there are never written again, or they would prove nothing.
"""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from lithify.log.tables import normalise
from lithify.manifest.model import FORMAT, SegmentRef
from lithify.segment.extent import Order
from lithify.segment.schema import RUN
from lithify.segment.write import SegmentWriter, encode_append
from lithify.store.memory import MemoryStore

__all__ = ["FOLDER", "ROWS", "appended", "compacted"]

FOLDER = Path(__file__).parent / f"v{FORMAT}" / "segments"
NAME, ZEROS = b"lithify.footer.xxh3", b"0" * 16
INDEXES = b"lithify.page_indexes"
HEADERS = [{"key": "lithify.footer.xxh3", "value": ZEROS}, {"key": "", "value": None}]


def row(key: bytes | None, number: int) -> dict[str, Any]:
    value = None if number % 3 == 2 else NAME + ZEROS + b"%d" % number
    return {"key": key, "value": value, "timestamp_ms": 1_000 + number, "headers": HEADERS if number % 2 else None}


def rows(*keys: bytes | None) -> list[dict[str, Any]]:
    return [row(key, number) for number, key in enumerate(keys)]


# An append's file has its rows sorted by key, offsets in the order given; a run's has one row group for every two rows.
ROWS: dict[str, list[dict[str, Any]]] = {
    "append": rows(b"b", b"a", None, b"", b"\0\xff", b"a"),
    "run": rows(None, b"", b"a", b"b", b"c", b"c"),
    "run-by-offset": rows(b"b", b"a", None, b"", b"c", b"a"),
    # A reader that looks for the first name in the footer finds the right one here: the others are no bounds.
    "append-name-inside": rows(b"a", NAME, NAME + ZEROS, b"z"),
    "append-other-names": rows(b"PAR1", b"lithify.row_groups.xxh3", ZEROS, b"ARROW:schema"),
    # Here a key that is a bound comes before the checksum's own name.
    "append-name": rows(NAME, b"z"),
    "run-name": rows(b"a", NAME, NAME, NAME, b"z", b"z"),
    # Here, besides, the checksum was written over the zeros of a key.
    "append-name-and-zeros": rows(NAME + ZEROS, b"z"),
    # Its pages have one row each, its row groups four; a key looks like the entry with their positions (RFC 0025).
    "run-of-pages": rows(b"a", b"b", b"b", INDEXES, INDEXES + b"0" * 140, b"z"),
    "run-name-and-zeros": rows(b"a", NAME, NAME, b"n" + ZEROS + b"-" + ZEROS, b"z", b"z"),
}


def appended(name: str) -> tuple[bytes, SegmentRef]:
    order: Order = "key"
    return encode_append(normalise(pa.Table.from_pylist(ROWS[name], schema=_GIVEN), 0), order, "000000000008-a")


_GIVEN = pa.schema([RUN.field(name) for name in ("key", "value", "timestamp_ms", "headers")])


def compacted(name: str) -> tuple[bytes, SegmentRef]:
    order: Order = "offset" if name.endswith("by-offset") else "key"
    stored = [
        {**each, "offset": 10 + number, "horizon_ms": 99 if each["value"] is None else None}
        for number, each in enumerate(ROWS[name])
    ]
    store = MemoryStore()
    sizes = {"row_group_rows": 4, "page_rows": 1} if name == "run-of-pages" else {"row_group_rows": 2}
    writer = SegmentWriter(store.output("s"), "000000000007-0a1b2c3d-2-0-89abcdef", order, **sizes)
    writer.write(pa.RecordBatch.from_pylist(stored, schema=RUN))
    ref = writer.close()
    return store.read("s", 0, ref.bytes), ref


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in ROWS:
        body, ref = appended(name) if name.startswith("append") else compacted(name)
        path = FOLDER / f"{name}.parquet"
        if not path.exists():
            path.write_bytes(body)
            path.with_suffix(".json").write_bytes(msgspec.json.encode(ref) + b"\n")


if __name__ == "__main__":
    main()
