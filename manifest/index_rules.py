"""What must hold between the time index and the segments that it counts, and its predecessor. Pure (R3)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise

from lithify.manifest.model import TIME_INDEX_MAX, Manifest
from lithify.manifest.runs import Runs

__all__ = ["index_moves", "index_problems"]


def index_problems(manifest: Manifest) -> Iterator[str]:
    index = manifest.time_index
    if any(a.start >= b.start for a, b in pairwise(index)) or any(b.rows <= 0 for b in index):
        yield "the time index is in offset order, and no bucket is empty"
    if manifest.log_start_offset > manifest.next_offset:
        yield "the log starts at its end at the latest"
    indexed = sum(bucket.rows for bucket in index)
    if indexed > manifest.rows or (manifest.log_start_offset == 0 and indexed != manifest.rows):
        yield "the time index counts the live rows, but for those below the floor"
    yield from _bytes_of_the_index(manifest)


def _bytes_of_the_index(manifest: Manifest) -> Iterator[str]:
    """What the index counts from a bucket on must be in the store; else retention.bytes drops records early (D2)."""
    starts = [bucket.start for bucket in manifest.time_index]
    counted = [bucket.bytes for bucket in manifest.time_index]
    for segment in manifest.l0:
        at = bisect_right(starts, segment.max_offset) - 1
        if at >= 0:
            counted[at] -= segment.bytes
    # Of each bucket, what is counted from there on and is not there.
    in_runs = Runs.of(manifest.runs).bytes_from(starts)
    beyond = [more - there for more, there in zip(list(accumulate(reversed(counted)))[::-1], in_runs, strict=True)]
    # If the floor cuts a bucket, a part of it is gone. Earlier releases rounded each bucket's bytes to the nearest.
    exact = bisect_left(starts, manifest.log_start_offset)
    if any(more > TIME_INDEX_MAX for more in beyond[exact:]):
        yield "the time index counts no more bytes from any bucket on than live segments hold there"


def index_moves(previous: Manifest, following: Manifest) -> Iterator[str]:
    """Only an append may add to a stretch of the log: a merge must never raise a floor (R3)."""
    starts = [bucket.start for bucket in following.time_index]
    rows, sizes = [0] * len(starts), [0] * len(starts)
    appended = [s for s in following.l0 if s.min_offset >= previous.next_offset]
    held = [(bucket.start, bucket.rows, bucket.bytes) for bucket in previous.time_index]
    for offset, count, size in (*held, *((s.min_offset, s.rows, s.bytes) for s in appended)):
        at = bisect_right(starts, offset) - 1
        if at >= 0:
            rows[at], sizes[at] = rows[at] + count, sizes[at] + size
    before = zip(following.time_index, rows, sizes, strict=True)
    if any(bucket.rows > count or bucket.bytes > size for bucket, count, size in before):
        yield "a stretch of the log holds no more than before, but for what is appended"
