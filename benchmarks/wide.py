"""Partitions of 40,000 segments in runs, in one or each in its own, as a warehouse holds them. What is in the segments
nobody looks at here, so there are none."""

from collections.abc import Mapping

from msgspec.structs import replace

from lithify.manifest.codec import encode
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import Bucket, Manifest, SegmentRef, SortedRun
from lithify.manifest.run_lists import RunLists

__all__ = ["SEGMENTS", "wide", "wide_files"]

SEGMENTS = 40_000
_ROWS = 1_000_000
_BYTES = 256 << 20
_BUCKETS = 100
_BEGAN_MS = 1_700_000_000_000


def wide(head: Manifest, segments_of_a_run: int) -> tuple[Manifest, Mapping[str, bytes]]:
    """The successor of `head`, an empty manifest, that has so many; and its run lists, by key."""
    number = head.id + 1
    segments = [_segment(at, number) for at in range(SEGMENTS)]
    parts = [segments[at : at + segments_of_a_run] for at in range(0, SEGMENTS, segments_of_a_run)]
    runs = tuple(
        SortedRun(id=SegmentId.for_job(at + 1, f"{at:08x}"), reaches_to=part[0].min_offset, segments=tuple(part))
        for at, part in enumerate(parts)
    )
    rows, size = SEGMENTS // _BUCKETS * _ROWS, SEGMENTS // _BUCKETS * _BYTES
    index = tuple(Bucket(at * rows, _BEGAN_MS + at, rows, size, 2 * size) for at in range(_BUCKETS))
    value = replace(head, id=number, nonce=f"{number:016x}", next_offset=SEGMENTS * _ROWS, runs=runs, time_index=index)
    made = RunLists(PartitionKeys(head.topic, head.topic_id, head.partition)).divided(head, value, {})
    assert isinstance(made, tuple)
    return made


def wide_files(head: Manifest, segments_of_a_run: int) -> dict[str, bytes]:
    """What is stored of it, by key: the lists, and the manifest."""
    value, lists = wide(head, segments_of_a_run)
    keys = PartitionKeys(head.topic, head.topic_id, head.partition)
    return {**lists, keys.manifest.key(value.id): encode(value)}


def _segment(at: int, number: int) -> SegmentRef:
    job = SegmentId.for_job(at + 1, f"{at:08x}")
    return SegmentRef(
        id=SegmentId.for_output(job, 1, at, f"{at:08x}"),
        bytes=_BYTES,
        raw_bytes=2 * _BYTES,
        rows=_ROWS,
        min_key=b"customer-%019d" % (2 * at),
        max_key=b"customer-%019d" % (2 * at + 1),
        min_offset=at * _ROWS,
        max_offset=(at + 1) * _ROWS - 1,
        min_timestamp_ms=_BEGAN_MS + at,
        max_timestamp_ms=_BEGAN_MS + at + 1,
        added_at=number,
        checksum=f"{at:016x}",
    )
