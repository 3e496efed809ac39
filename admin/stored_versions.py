"""Finds every stored version of one key: in the log, and in what checkpoints keep."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

import pyarrow as pa

from lithify.log.record import Headers, to_records
from lithify.log.small_partitions import PartitionRead, in_order
from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.known import KnownPartitions
from lithify.manifest.missing import explain_missing
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import missing_text, pin_text
from lithify.manifest.walk import FoundPartition
from lithify.segment.cold_reads import ColdReads
from lithify.segment.scan import records
from lithify.segment.segments import Segments
from lithify.store.errors import Corrupt, NotFound, Unavailable

__all__ = ["Place", "Stored", "stored_versions", "upload_times"]

_HEADS_MAX = 4  # read anew, if segments were collected meanwhile


class Place(NamedTuple):
    """A segment to look into, and who keeps it."""

    ref: SegmentRef
    run: str  # the id; "" for an L0 segment
    live: bool
    pins: tuple[str, ...]  # for people


class Stored(NamedTuple):
    """One copy of a version."""

    place: Place
    offset: int
    timestamp_ms: int
    value_bytes: int | None  # None: a tombstone
    horizon_ms: int | None
    value: bytes | None
    headers: Headers


def stored_versions(
    known: KnownPartitions,
    found: FoundPartition,
    key: bytes,
    limit: int,
    cold_reads: ColdReads,
    *,
    values: bool,
    trace: bool,
) -> tuple[Manifest, list[list[Stored]]]:
    """The head, and the latest `limit` versions in a partition, the latest first: of each its copies, the live one
    first. `trace`: also look into what only checkpoints keep."""
    segments = Segments(found.keys, known.driver.homes, cold_reads)
    for _ in range(_HEADS_MAX):
        head, places = known.run(found.keys, lambda files: _places(files, trace=trace))
        try:
            return head, _latest(places, segments, key, limit, values=values)
        except NotFound as missing:
            # SUBTLE! A reader of a retained manifest never meets a missing file, but nothing retains `head` while we
            # read. So only what a later head, or one of its checkpoints, still names is really missing. Test:
            # tests/admin/test_history.py
            now, places = known.run(found.keys, lambda files: _places(files, trace=trace))
            if any(place.ref.id == missing.segment for place in places):
                raise explain_missing(now, None, now.id, missing) from missing
    name = f"{found.keys.topic}/{found.keys.partition}"
    raise Unavailable(f"{name}: segments are replaced and collected faster than they are read; retry later")


def upload_times(known: KnownPartitions, found: FoundPartition, places: list[Place]) -> dict[str, int | None]:
    """By segment, when it was uploaded, by the store's clock; None if it has been deleted since. A HEAD for each."""
    refs = {place.ref.id: place.ref for place in places}
    segments = Segments(found.keys, known.driver.homes)

    def uploaded_ms(ref: SegmentRef) -> int | None:
        store, key = segments.find(ref)
        info = store.head(key)
        return None if info is None else info.modified_ms

    times: dict[str, int | None] = {}
    for name, told in zip(refs, known.driver.each(uploaded_ms, refs.values()), strict=True):
        if isinstance(told, Exception):
            raise told
        times[name] = told
    return times


async def _places(files: PartitionFiles, *, trace: bool) -> tuple[Manifest, list[Place]]:
    """The head, and its segments; with `trace` also those that only checkpoints keep. Raises Corrupt if a pinned
    manifest is missing.

    SUBTLE! 1. We read head 7, which pins manifest 3. 2. The checkpoint is deleted, and manifest 3 collected. 3. We find
    it absent. That is damage only if a later head still pins it. Test: tests/admin/test_verify_meanwhile.py
    """
    absent: dict[int, str] = {}  # with the run list that they lack, if they are there
    while True:  # bounded: each round finds one more pinned manifest absent
        head = await files.live_head()
        found = {place.ref.id: place for place in _named(head, live=True)}
        for pin in head.checkpoints if trace else ():
            if pin.manifest in absent:
                key, lacks = files.keys.manifest.key(pin.manifest), absent[pin.manifest]
                raise Corrupt(missing_text(head, pin.manifest, key, lacks), lacks or key)
            version = await files.pinned(pin.manifest)
            if version is None or version.value is None:
                absent[pin.manifest] = "" if version is None else version.lacks
                break
            for place in _named(version.value, live=False):
                kept = found.get(place.ref.id, place)
                found[place.ref.id] = kept._replace(pins=(*kept.pins, pin_text(pin)))
        else:
            return head, list(found.values())


def _named(manifest: Manifest, *, live: bool) -> list[Place]:
    loose = [Place(ref, "", live, ()) for ref in manifest.l0]
    return loose + [Place(ref, run.id, live, ()) for run in manifest.runs for ref in run.segments]


def _latest(places: list[Place], segments: Segments, key: bytes, limit: int, *, values: bool) -> list[list[Stored]]:
    wanted = Bounds.of_key(key)
    kept: dict[int, list[Stored]] = {}
    offsets: list[int] = []  # of `kept`, as a heap: the oldest first

    def copies(place: Place) -> Iterator[Stored]:
        for batch in segments.reader(place.ref).batches(wanted):
            yield from _rows(batch, place, values=values)

    class Needed(list[PartitionRead[Stored]]):
        """As long as they may hold a later version than those that are kept."""

        def __len__(self) -> int:
            if len(kept) < limit:
                return len(newest)
            return bisect_right(newest, -offsets[0], key=lambda each: -each.ref.max_offset)

    newest = sorted((each for each in places if may_hold(each.ref, wanted)), key=lambda each: -each.ref.max_offset)
    reads = Needed(PartitionRead.of([each.ref], partial(copies, each)) for each in newest)
    for each in in_order(reads, segments.homes.here):
        if each.offset in kept:
            kept[each.offset].append(each)
        elif len(kept) < limit or each.offset > offsets[0]:
            kept[each.offset] = [each]
            heappush(offsets, each.offset)
            if len(kept) > limit:
                del kept[heappop(offsets)]
    newest_first = sorted(kept.items(), reverse=True)
    return [sorted(copies, key=lambda it: (not it.place.live, -it.place.ref.added_at)) for _, copies in newest_first]


def _rows(batch: pa.RecordBatch, place: Place, *, values: bool) -> list[Stored]:
    horizons = batch.column("horizon_ms").to_pylist()
    found: list[Stored] = []
    for record, horizon_ms in zip(to_records(iter([records(batch)])), horizons, strict=True):
        assert record.offset is not None  # both come from the log
        assert record.timestamp_ms is not None
        size = None if record.value is None else len(record.value)
        value, headers = (record.value, record.headers) if values else (None, ())
        found.append(Stored(place, record.offset, record.timestamp_ms, size, horizon_ms, value, headers))
    return found
