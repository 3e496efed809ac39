"""Is a segment what its reference says? Checked at three depths: size and footer, bytes, rows."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import xxhash

from lithify.manifest.model import SegmentRef
from lithify.segment.extent import Extent, Order, row_bytes
from lithify.segment.footer import bounded, problem
from lithify.segment.order import Position, position
from lithify.segment.read import SegmentReader
from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import Store

__all__ = ["verify", "verify_quick", "verify_rows", "verify_steps"]

_STEP_BYTES = 8 << 20


def verify_quick(store: Store, key: str, ref: SegmentRef) -> None:
    """The object exists, has the right size, and opens: its footer is intact, and agrees with the reference about the
    rows. A HEAD and a GET. Raises NotFound or Corrupt."""
    found = store.head(key)
    if found is None:
        raise NotFound(f"segment {key} is missing: restore the object from a copy", key)
    if found.size != ref.bytes:
        raise _corrupt(key, f"it has {found.size} bytes, the manifest says {ref.bytes}")
    what = problem(SegmentReader(store, key, ref).row_groups, ref)
    if what is not None:
        raise _corrupt(key, f"its footer disagrees with the manifest on {what}")


def verify(store: Store, key: str, ref: SegmentRef) -> None:
    """As `verify_quick`, and checks the object's checksum, in bounded memory (8 MiB). Raises NotFound or Corrupt."""
    for _ in verify_steps(store, key, ref, whole=True):
        pass


def verify_steps(store: Store, key: str, ref: SegmentRef, *, whole: bool) -> Iterator[None]:
    """As `verify_quick` or (`whole`) `verify`, for callers that do something between the reads of one object."""
    verify_quick(store, key, ref)
    if not whole:
        return
    digest = xxhash.xxh3_64()
    for start in range(0, ref.bytes, _STEP_BYTES):
        yield
        digest.update(store.read(key, start, min(_STEP_BYTES, ref.bytes - start)))
    if digest.hexdigest() != ref.checksum:
        raise _corrupt(key, "its bytes fail the checksum in the manifest")


def verify_rows(store: Store, key: str, ref: SegmentRef) -> None:
    """As `verify`, and checks that the rows are in order and match the reference's statistics."""
    verify(store, key, ref)
    order: Order = "key" if ref.order == "key" else "offset"
    extent = Extent()
    before: Position | None = None
    for batch in SegmentReader(store, key, ref).batches():
        before = _check_order(key, batch, order, before)
        extent.add(batch, order, row_bytes(batch))
    for what, found, expected in _claims(extent, ref):
        if found != expected:
            raise _corrupt(key, f"its rows disagree with the manifest on {what}")


def _check_order(key: str, batch: pa.RecordBatch, order: Order, before: Position | None) -> Position:
    for row in range(batch.num_rows):
        here = position(batch, row, order)
        if before is not None and here <= before:
            raise _corrupt(key, f"its rows are not in {order} order")
        before = here
    assert before is not None, "a reader yields no empty batch"
    return before


def _claims(extent: Extent, ref: SegmentRef) -> list[tuple[str, Any, Any]]:
    return [
        ("rows", extent.rows, ref.rows),
        ("keys", True, bounded(extent.keys, ref)),
        ("offsets", extent.offsets, (ref.min_offset, ref.max_offset)),
        ("timestamps", extent.timestamps, (ref.min_timestamp_ms, ref.max_timestamp_ms)),
        ("tombstones", extent.tombstones, ref.tombstones),
        ("horizons", extent.horizons or (None, None), (ref.min_horizon_ms, ref.max_horizon_ms)),
    ]


def _corrupt(key: str, what: str) -> Corrupt:
    return Corrupt(f"segment {key}: {what}. Restore the object from a copy", key)
