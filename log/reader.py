"""Read one manifest: every stored record in offset order, or the latest of each key in key order (R1, R2).

Memory is bounded whatever the partition holds: one row group (≤ 8 MiB) of each merged stream, fetches of at most 64 MiB
in total, and one external sort (about three times 64 MiB; the rest is spilled to the system's temporary folder).
"""

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import Manifest, SegmentRef
from lithify.segment.order import blocks
from lithify.segment.read import FETCH_BYTES_MAX, OpenSegment
from lithify.segment.scan import latest, records
from lithify.segment.sort import external_sort
from lithify.segment.source import Source

__all__ = ["in_offset_order", "latest_by_key", "sorts"]

STREAMS_MAX = 16  # sorted runs merged directly; further ones are sorted together first


def in_offset_order(manifest: Manifest, open_segment: OpenSegment, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Every stored record with start ≤ offset < end, superseded ones and tombstones included, schema RECORDS.

    Segments and row groups outside are not read, so reading the tail costs only the L0 segments. Key-ordered runs are
    sorted.
    """
    wanted = Bounds(from_offset=start, to_offset=end)
    scattered = _scattered(manifest, wanted)
    sorted_first = {ref.id for ref in scattered}
    chains = _chains([ref for ref in manifest.segments() if may_hold(ref, wanted) and ref.id not in sorted_first])
    fan_in = len(chains) + 1

    def rows(refs: Sequence[SegmentRef]) -> Iterator[pa.RecordBatch]:
        return Source(refs, open_segment, "offset", wanted, fan_in=fan_in).rows()

    streams: list[Iterator[pa.RecordBatch]] = [
        itertools.chain.from_iterable(rows([ref]) for ref in chain) for chain in chains
    ]
    if scattered:
        streams.append(rows(scattered))
    return (records(block.ordered()) for block in blocks(streams, "offset"))


def sorts(manifest: Manifest, start: int) -> bool:
    """Whether reading from `start` to the end in offset order needs a sort."""
    return bool(_scattered(manifest, Bounds(from_offset=start, to_offset=manifest.next_offset)))


def _scattered(manifest: Manifest, wanted: Bounds) -> list[SegmentRef]:
    """The key-ordered segments that hold some of these offsets. L0 segments are not among them: each is one append, so
    even in key order it has a stretch of offsets to itself."""
    return [ref for run in manifest.runs for ref in run.segments if ref.order == "key" and may_hold(ref, wanted)]


def _chains(stretches: list[SegmentRef]) -> list[list[SegmentRef]]:
    """Segments whose offsets do not interleave follow each other in one stream; only one of them is open at a time."""
    chains: list[list[SegmentRef]] = []
    for ref in sorted(stretches, key=lambda ref: ref.min_offset):
        free = next((chain for chain in chains if chain[-1].max_offset < ref.min_offset), None)
        if free is None:
            chains.append([ref])
        else:
            free.append(ref)
    return chains


def latest_by_key(
    manifest: Manifest, open_segment: OpenSegment, wanted: Bounds, *, tombstones: bool
) -> Iterator[pa.RecordBatch]:
    """The record with the highest offset of each key, of those within `wanted`, in key order, schema RECORDS. Only
    segments that may hold some of them are opened."""
    runs = [(run, tuple(ref for ref in run.segments if may_hold(ref, wanted))) for run in manifest.runs]
    streamed = [refs for run, refs in runs if refs and run.segments[0].order == "key"][:STREAMS_MAX]
    # Sorting thousands of small L0 segments is faster than merging them one by one, and needs bounded memory.
    others = [ref for _, refs in runs if refs not in streamed for ref in refs]
    others += [ref for ref in manifest.l0 if may_hold(ref, wanted)]
    fan_in = len(streamed) + 1
    sources = [Source(refs, open_segment, "key", wanted, fan_in=fan_in).rows() for refs in streamed]
    if others:
        sources.append(external_sort(_stored(others, open_segment, wanted), "key"))
    return latest(sources, wanted.from_offset or 0, keep_tombstones=tombstones)


def _stored(refs: Sequence[SegmentRef], open_segment: OpenSegment, wanted: Bounds) -> Iterator[pa.RecordBatch]:
    for ref in refs:
        yield from open_segment(ref, FETCH_BYTES_MAX).batches(wanted)
