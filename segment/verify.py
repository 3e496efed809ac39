"""Is a segment what its reference says? Checked at three depths: size and footer, bytes, rows."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import xxhash

from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.model import SegmentRef
from lithify.segment.ahead import ReadAhead
from lithify.segment.extent import Extent, Order, row_bytes
from lithify.segment.footer import bounded, problem
from lithify.segment.order import Position, position
from lithify.segment.read import FETCH_BYTES_MAX, SegmentReader
from lithify.store.errors import Corrupt, NotFound
from lithify.store.fetching import begun, soon
from lithify.store.port import ObjectInfo, Store

__all__ = ["CHECKS_MAX", "check_rows", "verify", "verify_quick", "verify_rows", "verify_steps"]

CHECKS_MAX = 6  # begun at once; each may hold a piece
_STEP_BYTES = 8 << 20
_FAR_STEP_BYTES = 4 << 20
_FAR_STEPS = 3  # of one object under way, while one is checked

Pieces = Iterator[Callable[[], bytes]]


def verify_quick(store: Store, key: str, ref: SegmentRef) -> None:
    """The object exists, has the right size, and opens: its footer is intact, and agrees with the reference about the
    rows. A HEAD and a GET, of a far store side by side. Raises NotFound or Corrupt."""
    for _ in verify_steps(store, key, ref, whole=False):
        pass


def verify(store: Store, key: str, ref: SegmentRef) -> None:
    """As `verify_quick`, and checks the object's checksum, in bounded memory (8 MiB, of a far store 16). Raises
    NotFound or Corrupt."""
    for _ in verify_steps(store, key, ref, whole=True):
        pass


def verify_steps(store: Store, key: str, ref: SegmentRef, *, whole: bool) -> Iterator[None]:
    """As `verify_quick` or (`whole`) `verify`, for callers that do something between the reads of one object. A far
    store is asked here, before the first step is taken, so several may be begun (CHECKS_MAX)."""
    reader, far = SegmentReader(store, key, ref, opens=False), store.far
    head = soon(partial(store.head, key), far=far, apart=store.apart)
    tail = soon(reader.request(*reader.tail), far=far, apart=store.apart)
    return _steps(reader, head, tail, _pieces(store, key, ref) if whole else iter(()))


def _pieces(store: Store, key: str, ref: SegmentRef) -> Pieces:
    """The object's bytes in turn. Of a far store the first are under way."""
    step_bytes = _FAR_STEP_BYTES if store.far else _STEP_BYTES
    starts = range(0, ref.bytes, step_bytes)

    def ask(start: int) -> Callable[[], bytes]:
        read = partial(store.read, key, start, min(step_bytes, ref.bytes - start))
        return soon(read, far=store.far, apart=store.apart)

    later = (piece for _, piece in begun(ask, starts[1:], _FAR_STEPS))
    return itertools.chain([ask(start) for start in starts[:1]], later)


def _steps(
    reader: SegmentReader, head: Callable[[], ObjectInfo | None], tail: Callable[[], memoryview], pieces: Pieces
) -> Iterator[None]:
    key, ref = reader.key, reader.ref
    found = head()
    if found is None:
        raise NotFound(f"segment {key} is missing: restore the object from a copy", key)
    if found.size != ref.bytes:
        raise _corrupt(key, f"it has {found.size} bytes, the manifest says {ref.bytes}")
    reader.open(tail())
    what = problem(reader.row_groups, ref)
    if what is not None:
        raise _corrupt(key, f"its footer disagrees with the manifest on {what}")
    digest: xxhash.xxh3_64 | None = None
    for piece in pieces:
        yield
        digest = digest or xxhash.xxh3_64()
        digest.update(piece())
    if digest is not None and digest.hexdigest() != ref.checksum:
        raise _corrupt(key, "its bytes fail the checksum in the manifest")


def verify_rows(store: Store, key: str, ref: SegmentRef) -> None:
    """As `verify`, and checks that the rows are in order and match the reference's statistics."""
    check_rows(store, key, ref, verify_steps(store, key, ref, whole=True))


def check_rows(store: Store, key: str, ref: SegmentRef, steps: Iterator[None]) -> None:
    """As `verify_rows`, with its steps up to the rows."""
    for _ in steps:
        pass
    order: Order = "key" if ref.order == "key" else "offset"
    extent = Extent()
    before: Position | None = None
    lane = ReadAhead().lane([ref], lambda *_: SegmentReader(store, key, ref, opens=False), EVERYTHING, FETCH_BYTES_MAX)
    for batch in lane.batches():
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
