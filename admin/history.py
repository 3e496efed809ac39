"""Every stored version of one key."""

import heapq
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lithify.admin.topics import bounded
from lithify.log.record import Headers, Record, to_records
from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.catalog import growths_of, partition_of, topic_lineage
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Key, Manifest
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.manifest.retention import floor_at
from lithify.manifest.walk import FoundPartition
from lithify.segment.partitioner import partition_for_key
from lithify.segment.scan import records
from lithify.segment.segments import Segments
from lithify.segment.stayed import stays
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, Unavailable

__all__ = ["VALUES_MAX", "VERSIONS_MAX", "KeyHistory", "KeyVersion", "VersionState", "history"]

VERSIONS_MAX = 1_000
VALUES_MAX = 100  # with their values, each up to max.message.bytes
_HEADS_MAX = 4  # read anew, if segments were collected meanwhile


class VersionState(StrEnum):
    """What readers of the topic see of a stored version."""

    LATEST = "latest"  # the value of its key; if it is a tombstone, the key is deleted
    SUPERSEDED = "superseded"  # by a later one
    EXPIRED = "expired"  # below the log start
    LEFT_BEHIND = "left behind"  # when the topic grew (docs/rfcs/0013): `scan` and `get` of the partition still show it


class KeyVersion(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    offset: int
    timestamp_ms: int
    tombstone: bool
    value_bytes: int  # the size of the value; 0 for a tombstone
    segment: str  # the id
    run: str  # the id; "" for an L0 segment
    state: VersionState
    value: bytes | None = None  # only if asked for
    headers: Headers = ()  # only if asked for


class KeyHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a key. Compaction keeps only the latest version, and in the end no tombstone."""

    topic: str
    key: Key
    home: int  # the partition where the key lives
    versions: tuple[KeyVersion, ...]  # by partition, the home first; in each from the latest to the oldest
    more: bool  # older ones were left out


class _Stored(NamedTuple):
    offset: int  # first, so that they are compared by it; no two have the same
    timestamp_ms: int
    value_bytes: int | None  # None: a tombstone
    segment: str
    run: str
    value: bytes | None
    headers: Headers


def history(
    known: KnownPartitions, topic: str, key: bytes, partition: int | None, limit: int, *, values: bool
) -> KeyHistory:
    limit_max = VALUES_MAX if values else VERSIONS_MAX
    check_key(topic, key)
    if type(limit) is not int or not 1 <= limit <= limit_max:
        raise InvalidRequest(f"{topic}: limit must be from 1 to {limit_max}")
    found = known.topic(topic)
    places = KeyPlaces(known.driver.run(growths_of(topic_lineage(topic), found)), found.partitions)
    homes = [partition_for_key(key, count) for count in reversed(places.counts)]
    numbers = dict.fromkeys(homes) if partition is None else [partition]
    versions: list[KeyVersion] = []
    for number in numbers:
        place = FoundPartition(partition_of(found, number), found)
        head, stored = _stored(known, place, key, limit + 1, values=values)
        floor = floor_at(bounded(head, found), known.driver.now_ms())
        versions += _versions(stored, places, key, number, floor)
    more = len(versions) > limit
    return KeyHistory(topic=topic, key=key, home=homes[0], versions=tuple(versions[:limit]), more=more)


def check_key(topic: str, key: object) -> None:
    """Raises InvalidRequest."""
    if type(key) is not bytes:
        raise InvalidRequest(f"{topic}: a key is bytes, not {type(key).__name__}")


def _versions(stored: list[_Stored], places: KeyPlaces, key: bytes, partition: int, floor: int) -> Iterator[KeyVersion]:
    seen = False
    for each in stored:
        if each.offset < floor:
            state = VersionState.EXPIRED
        elif seen:
            state = VersionState.SUPERSEDED
        else:
            seen = True
            here = stays(places, key, each.offset, partition)
            state = VersionState.LATEST if here else VersionState.LEFT_BEHIND
        yield KeyVersion(
            partition=partition,
            offset=each.offset,
            timestamp_ms=each.timestamp_ms,
            tombstone=each.value_bytes is None,
            value_bytes=each.value_bytes or 0,
            segment=each.segment,
            run=each.run,
            state=state,
            value=each.value,
            headers=each.headers,
        )


def _stored(
    known: KnownPartitions, found: FoundPartition, key: bytes, limit: int, *, values: bool
) -> tuple[Manifest, list[_Stored]]:
    """The latest `limit` versions in a partition, the latest first."""
    segments = Segments(found.keys, known.driver.homes)
    name = f"{found.keys.topic}/{found.keys.partition}"
    for _ in range(_HEADS_MAX):
        head = known.run(found.keys, lambda files: files.live_head())
        try:
            return head, _latest(head, segments, key, limit, values=values)
        except NotFound as missing:
            # SUBTLE! A reader of a retained manifest never meets a missing file, but nothing retains `head` while we
            # read. So only what a later head still names is really missing. Test: tests/admin/test_history.py
            now = known.run(found.keys, lambda files: files.live_head())
            if any(ref.id == missing.segment for ref in now.segments()):
                what = f"{name}: {missing}, but manifest {now.id} names it: restore the object from a copy"
                raise Corrupt(what, missing.key, missing.segment) from missing
    raise Unavailable(f"{name}: segments are replaced and collected faster than they are read; retry later")


def _latest(head: Manifest, segments: Segments, key: bytes, limit: int, *, values: bool) -> list[_Stored]:
    wanted = Bounds.of_key(key)
    runs = {ref.id: run.id for run in head.runs for ref in run.segments}
    kept: list[_Stored] = []  # a heap, the oldest first
    for ref in sorted((ref for ref in head.segments() if may_hold(ref, wanted)), key=lambda ref: -ref.max_offset):
        if len(kept) == limit and ref.max_offset < kept[0].offset:
            break
        for batch in segments.reader(ref).batches(wanted):
            for record in to_records(iter([records(batch)])):
                each = _of(record, ref.id, runs.get(ref.id, ""), values=values)
                if len(kept) < limit:
                    heapq.heappush(kept, each)
                else:
                    heapq.heappushpop(kept, each)
    return sorted(kept, reverse=True)


def _of(record: Record, segment: str, run: str, *, values: bool) -> _Stored:
    assert record.offset is not None  # both come from the log
    assert record.timestamp_ms is not None
    size = None if record.value is None else len(record.value)
    value, headers = (record.value, record.headers) if values else (None, ())
    return _Stored(record.offset, record.timestamp_ms, size, segment, run, value, headers)
