"""Every stored record of a partition, in offset order, superseded ones and tombstones included (R1, R2).

Memory is bounded whatever the partition holds: one row group (≤ 8 MiB) of each merged stream, fetches of at most 64 MiB
in total, and one external sort (about three times 64 MiB; the rest is spilled to the system's temporary folder).
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.segment.ahead import ReadAhead
from lithify.segment.order import blocks
from lithify.segment.read import OpenSegment
from lithify.segment.scan import records
from lithify.segment.source import Source

__all__ = ["in_offset_order", "sorts"]


def in_offset_order(
    runs: Sequence[SortedRun], l0: Sequence[SegmentRef], open_segment: OpenSegment, wanted: Bounds
) -> Iterator[pa.RecordBatch]:
    """The records within `wanted`, schema RECORDS.

    Segments and row groups outside are not read, so reading the tail costs only the L0 segments. Key-ordered runs are
    sorted.
    """
    scattered = _scattered(runs, wanted)
    sorted_first = {ref.id for ref in scattered}
    stored = (*(ref for run in runs for ref in run.segments), *l0)
    chains = _chains([ref for ref in stored if may_hold(ref, wanted) and ref.id not in sorted_first])
    fan_in, ahead = len(chains) + 1, ReadAhead()
    streams = [
        Source(chain, open_segment, "offset", wanted, fan_in=fan_in, ahead=ahead, apart=True).rows() for chain in chains
    ]
    if scattered:
        streams.append(Source(scattered, open_segment, "offset", wanted, fan_in=fan_in, ahead=ahead).rows())
    return (records(block.ordered()) for block in blocks(streams, "offset"))


def sorts(runs: Sequence[SortedRun], wanted: Bounds) -> bool:
    """Whether reading these records in offset order needs a sort."""
    return bool(_scattered(runs, wanted))


def _scattered(runs: Sequence[SortedRun], wanted: Bounds) -> list[SegmentRef]:
    """The key-ordered segments that hold some of these records. L0 segments are not among them: each is one append, so
    even in key order it has a stretch of offsets to itself."""
    return [ref for run in runs for ref in run.segments if ref.order == "key" and may_hold(ref, wanted)]


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
