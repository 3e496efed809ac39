"""Segments with tiny row groups and pages, and what a point read of them should find."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import FORMAT, Manifest, SegmentRef
from lithify.segment.extent import Order
from lithify.segment.points import Points
from lithify.segment.schema import L0, RUN
from lithify.segment.segments import Segments
from lithify.segment.write import SegmentWriter
from lithify.store.cache import Cache
from lithify.store.homes import only_here
from lithify.store.port import Store
from tests.refs import sorted_run

__all__ = ["KEYS", "Rows", "manifest", "newest", "points", "stored"]

KEYS = PartitionKeys("orders", "0a", 3)
Rows = Sequence[dict[str, Any]]  # key, value, offset, headers


def stored(
    store: Store, name: str, rows: Rows, *, order: Order = "key", base: int | None = None, group: int = 8, page: int = 2
) -> SegmentRef:
    """A segment of these rows. `base`: as an append stores them, which begin there."""
    ranked = sorted(rows, key=lambda row: row["offset"])
    if order == "key":
        ranked.sort(key=lambda row: (row["key"] is not None, row["key"] or b"", row["offset"]))
    column = "offset" if base is None else "offset_delta"
    full = [
        {**row, "timestamp_ms": row["offset"] * 7, column: row["offset"] - (base or 0), "horizon_ms": None}
        for row in ranked
    ]
    schema = RUN if base is None else L0
    output = store.output(KEYS.segment(name))
    writer = SegmentWriter(output, name, order, schema=schema, row_group_rows=group, page_rows=page)
    writer.write(pa.RecordBatch.from_pylist([{k: row[k] for k in schema.names} for row in full], schema=schema))
    ref = writer.close()
    offsets = [row["offset"] for row in rows]
    return msgspec.structs.replace(ref, base_offset=base, min_offset=min(offsets), max_offset=max(offsets))


def manifest(l0: Sequence[SegmentRef], *runs: Sequence[SegmentRef]) -> Manifest:
    return Manifest(
        format=FORMAT,
        id=9,
        topic=KEYS.topic,
        topic_id=KEYS.topic_id,
        partition=KEYS.partition,
        l0=tuple(l0),
        runs=tuple(sorted_run(f"run{number}", *run) for number, run in enumerate(runs)),
    )


def points(store: Store, head: Manifest, cache: Cache | None = None) -> Points:
    return Points(Segments(KEYS, only_here(store)), cache or Cache(), head)


def newest(rows: Rows, floor: int = 0) -> dict[bytes, tuple[bytes | None, int, Any]]:
    """By key: value, offset and headers of the record with the highest offset."""
    found: dict[bytes, tuple[bytes | None, int, Any]] = {}
    for row in sorted(rows, key=lambda row: row["offset"]):
        if row["key"] is not None and row["offset"] >= floor:
            found[row["key"]] = row["value"], row["offset"], row["headers"]
    return found
