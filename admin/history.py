"""Every stored version of one key, what readers see of it, and where it is stored."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from lithify.admin.compactions import compaction
from lithify.admin.stored_versions import Place, Stored, stored_versions, upload_times
from lithify.admin.topics import bounded
from lithify.compactor.info import CompactionInfo, compaction_id
from lithify.log.record import Headers
from lithify.manifest.catalog import growths_of, partition_of, topic_lineage
from lithify.manifest.keys import SegmentId
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Key
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.manifest.retention import floor_at
from lithify.manifest.walk import FoundPartition
from lithify.segment.cold_reads import ColdReads
from lithify.segment.partitioner import partition_for_key
from lithify.segment.stayed import stays
from lithify.store.errors import InvalidRequest, NotFound
from lithify.store.short_repr import short_repr

__all__ = ["VALUES_MAX", "VERSIONS_MAX", "KeyCopy", "KeyHistory", "KeyVersion", "VersionState", "history"]

VERSIONS_MAX = 1_000
VALUES_MAX = 100  # with their values, each up to max.message.bytes


class VersionState(StrEnum):
    """What readers of the topic see of a stored version."""

    LATEST = "latest"  # the value of its key; if it is a tombstone, the key is deleted
    SUPERSEDED = "superseded"  # by a later one
    EXPIRED = "expired"  # below the log start
    LEFT_BEHIND = "left behind"  # when the topic grew (docs/rfcs/0013): `scan` and `get` of the partition still show it
    PINNED = "pinned"  # no longer in the log: only checkpoints show it


class KeyCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that has a version."""

    segment: str  # the id
    run: str  # the id; "" for an L0 segment
    job: str  # the compaction that wrote it, topic/partition/job; "" for an append
    written_at_ms: int | None  # when its object was uploaded, by the store's clock; None: it has been deleted since
    added_at: int  # the manifest that made it live
    live: bool  # in the log; else only checkpoints keep it
    checkpoints: tuple[str, ...]  # that keep it


class KeyVersion(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    offset: int
    timestamp_ms: int
    tombstone: bool
    value_bytes: int  # the size of the value; 0 for a tombstone
    segment: str  # the id
    run: str  # the id; "" for an L0 segment
    state: VersionState
    superseded_by: int | None  # the offset of the next version in the partition
    log_start_offset: int  # of the partition
    horizon_ms: int | None  # of a tombstone: when compaction may drop it; None: no clean has met it yet
    value: bytes | None = None  # only if asked for
    headers: Headers = ()  # only if asked for
    copies: tuple[KeyCopy, ...] = ()  # only if traced: the live one first, then from the latest to the oldest


class KeyHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a key. Compaction keeps only the latest version, and in the end no tombstone."""

    topic: str
    key: Key
    home: int  # the partition where the key lives
    versions: tuple[KeyVersion, ...]  # by partition, the home first; in each from the latest to the oldest
    more: bool  # older ones were left out
    jobs: tuple[CompactionInfo, ...] = ()  # only if traced: that wrote copies, as far as they are remembered
    cold_segments_read: int = 0  # segments outside the warehouse that this answer took

    __repr__ = short_repr


def history(
    known: KnownPartitions,
    topic: str,
    key: bytes,
    partition: int | None,
    limit: int,
    *,
    values: bool,
    trace: bool = False,
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
    cold_reads = ColdReads()
    for number in numbers:
        at = FoundPartition(partition_of(found, number), found)
        reads = ColdReads(cold_reads)  # of each partition, since ids are those of a partition
        head, stored = stored_versions(known, at, key, limit + 1, reads, values=values, trace=trace)
        floor = floor_at(bounded(head, found), known.driver.now_ms())
        told = _versions(stored, places, key, number, floor)
        versions += _traced(known, at, list(told), stored) if trace else told
    shown = tuple(versions[:limit])
    wrote = dict.fromkeys(copy.job for version in shown for copy in version.copies if copy.job)
    jobs = tuple(info for job in wrote if (info := _remembered(known, job)) is not None)
    return KeyHistory(
        topic=topic,
        key=key,
        home=homes[0],
        versions=shown,
        more=len(versions) > limit,
        jobs=jobs,
        cold_segments_read=cold_reads.count,
    )


def _remembered(known: KnownPartitions, job: str) -> CompactionInfo | None:
    try:
        return compaction(known, job)
    except NotFound:
        return None


def check_key(topic: str, key: object) -> None:
    """Raises InvalidRequest."""
    if type(key) is not bytes:
        raise InvalidRequest(f"{topic}: a key is bytes, not {type(key).__name__}")


def _versions(
    stored: list[list[Stored]], places: KeyPlaces, key: bytes, partition: int, floor: int
) -> Iterator[KeyVersion]:
    seen = False
    later: int | None = None
    for copies in stored:
        each = copies[0]
        if not each.place.live:
            state = VersionState.PINNED
        elif each.offset < floor:
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
            segment=each.place.ref.id,
            run=each.place.run,
            state=state,
            superseded_by=later,
            log_start_offset=floor,
            horizon_ms=each.horizon_ms,
            value=each.value,
            headers=each.headers,
        )
        later = each.offset


def _traced(
    known: KnownPartitions, found: FoundPartition, told: list[KeyVersion], stored: list[list[Stored]]
) -> Iterator[KeyVersion]:
    uploaded = upload_times(known, found, [copy.place for copies in stored for copy in copies])

    def copy_of(place: Place) -> KeyCopy:
        job = SegmentId.job(place.ref.id)
        return KeyCopy(
            segment=place.ref.id,
            run=place.run,
            job="" if job is None else compaction_id(found.keys.topic, found.keys.partition, job),
            written_at_ms=uploaded[place.ref.id],
            added_at=place.ref.added_at,
            live=place.live,
            checkpoints=place.pins,
        )

    for version, copies in zip(told, stored, strict=True):
        yield msgspec.structs.replace(version, copies=tuple(copy_of(copy.place) for copy in copies))
