"""The truth of a partition at version N, and the other small files around it: what `.manifest`, `.boundary`,
`.topic` and `.warehouse` hold. Pure: frozen structs, encoded as JSON (docs/rfcs/0002), read by operators with `jq`.

Names carry units. Offsets are int64, assigned densely at commit. Times are milliseconds since 1970 by the store's
clock. A field that ends in `_at` is a manifest number: the only order the protocol knows.
"""

from typing import Literal

import msgspec

__all__ = [
    "COMPLETED_JOBS_MAX",
    "CONSUMERS_MAX",
    "FORMAT",
    "GROWTHS_MAX",
    "KEY_BOUND_BYTES",
    "KIND",
    "PARTITIONS_MAX",
    "PASSED_OVER_MAX",
    "PINS_MAX",
    "PRODUCERS_MAX",
    "PRODUCER_BATCHES_KEPT",
    "RETIRED_MAX",
    "SCAN_TTL_MS_MAX",
    "TIME_INDEX_MAX",
    "TRANSACTIONS_MAX",
    "UNPINNED_MAX",
    "Boundary",
    "Bucket",
    "Checkpoint",
    "CompletedJob",
    "ConsumerPosition",
    "Growth",
    "Key",
    "Manifest",
    "Numbered",
    "PinOwner",
    "ProducerBatch",
    "ProducerEntry",
    "Quarantine",
    "Retention",
    "Retired",
    "SegmentRef",
    "SortedRun",
    "Stretch",
    "TopicFile",
    "Transaction",
    "WarehouseFile",
]

FORMAT = 1  # of every numbered file; a reader refuses a larger one
KIND = "kind"  # the field that says what a numbered file is: a boundary would read as an empty manifest

# Every list has a bound; what happens at it is told at the edit that would grow it.
KEY_BOUND_BYTES = 32  # key bounds in manifests are cut to this, rounded outward
RETIRED_MAX = 16_384
UNPINNED_MAX = 512  # by then a collection has not looked for long; the sweep finds what the oldest kept
COMPLETED_JOBS_MAX = 64
PRODUCERS_MAX = 1_024
PRODUCER_BATCHES_KEPT = 5  # as Kafka: how many of its latest batches a producer may repeat
TRANSACTIONS_MAX = 1_024
PASSED_OVER_MAX = 16  # stretches of one application's versions
CONSUMERS_MAX = 256
TIME_INDEX_MAX = 128
GROWTHS_MAX = 16  # of which it is known where the logs ended
PARTITIONS_MAX = 10_000  # of a topic
PinOwner = Literal["user", "scan", "view"]  # who made a checkpoint, and lets it go (docs/rfcs/0016)
PINS_MAX: dict[PinOwner, int] = {"user": 256, "scan": 512, "view": 16}  # checkpoints of each in a partition
SCAN_TTL_MS_MAX = 3_600_000  # a scan's checkpoint expires that long after its last refresh at the latest


class Numbered(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every numbered file begins with; the commit sets all but `format`."""

    format: int
    id: int = 0  # its own number
    nonce: str = ""  # tells this body from a rival's (P1)
    committed_at_ms: int = 0


Key = bytes  # of a record; this name leaves `bytes` free to mean sizes


# A manifest holds thousands of references, so the longest names are shorter in JSON: 350 bytes each (docs/rfcs/0002).
_IN_JSON = {
    "home": "store",
    "raw_bytes": "raw",
    "min_timestamp_ms": "min_ts_ms",
    "max_timestamp_ms": "max_ts_ms",
    "min_horizon_ms": "horizon_ms",
    "max_horizon_ms": "last_horizon_ms",
    "checksum": "xxh3",
}


class SegmentRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename=_IN_JSON):
    """One immutable Parquet object.

    `min_key` is ≤ every key and `max_key` ≥ every key: exact up to 32 bytes, rounded outward beyond (then `max_key` is
    filled with zeros to 32). None is unbounded (or, where both are, no keyed record at all). In an L0 segment row r has
    offset `base_offset` + r's `offset_delta`; segments of runs carry offsets in the rows and have no base offset.
    """

    id: str
    home: str = ""  # where its bytes are (lithify.manifest.homes); "" is the warehouse itself
    bytes: int  # of the Parquet object
    raw_bytes: int  # of its columns in memory, for planning
    max_row_bytes: int = 0  # of its largest row in memory, where that is more than a row group usually has; else 0
    rows: int
    min_key: Key | None = None
    max_key: Key | None = None
    base_offset: int | None = None
    min_offset: int
    max_offset: int  # inclusive
    min_timestamp_ms: int
    max_timestamp_ms: int
    tombstones: int = 0
    min_horizon_ms: int | None = None  # earliest stamped tombstone horizon in it (R4)
    max_horizon_ms: int | None = None  # and the latest
    order: str = "key"  # "key": by (key, offset); "offset": by offset
    added_at: int = 0  # the manifest that made it live
    checksum: str  # XXH3-64 of the object's bytes, 16 hexadecimal digits


class SortedRun(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Segments with disjoint key ranges in key order (in offset-ordered topics: disjoint offsets, in offset order)."""

    id: str
    # Of all that was ever merged into it nothing lay below this offset. An older lithify that commits drops it: 0 says
    # that nothing is known, and costs no more than the compacted state until the next clean (docs/rfcs/0017).
    reaches_to: int = 0
    segments: tuple[SegmentRef, ...]


class Retired(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename={"home": "store"}):
    """A replaced segment: readable by manifests in [added_at, retired_at), its bytes not yet collected (P16). Once a
    grace period has passed, one that only checkpoints keep is named by their manifests alone.

    `base_offset` and `rows` let a repeated append recognise itself after its segment was compacted (P6).
    """

    id: str
    home: str = ""
    bytes: int
    rows: int
    base_offset: int | None = None
    added_at: int
    retired_at: int


class CompletedJob(msgspec.Struct, frozen=True):
    """A compaction whose commit is in the manifest, until `.compactor` shows it terminal (P13)."""

    id: str
    committed_at: int


class ProducerBatch(msgspec.Struct, frozen=True):
    sequence: int  # of its first record
    rows: int
    base_offset: int


class ProducerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotent producer (KIP-98): what it may send next, and its latest batches, which it may repeat."""

    id: str
    epoch: int
    next_sequence: int = 0
    batches: tuple[ProducerBatch, ...] = ()
    touched_at: int  # manifest number of its latest commit; it expires only below the orphan floor (P6)


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Numbers one after the other. In JSON an array of the two."""

    first: int
    last: int  # inclusive


class Transaction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The latest append of an application that numbers its own appends (a stream query and its batch id)."""

    application: str
    version: int
    base_offset: int
    rows: int
    touched_at: int = 0  # manifest number of that append; 0: an earlier lithify wrote it, and did not say
    touched_at_ms: int = 0
    ended: bool = False  # the application said that it sends no more
    passed_over: tuple[Stretch, ...] = ()  # versions below the latest that were not sent, and may be; they ascend


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pinned manifest: the one that this checkpoint's own commit created (P20).

    An older lithify that commits drops `owner`, and the checkpoint looks like a user's from then on. That loses no pin:
    who made it goes by its id (docs/rfcs/0016).
    """

    id: str
    owner: PinOwner = "user"
    name: str  # of one of this owner's
    manifest: int
    created_at_ms: int
    expires_at_ms: int | None = None  # by the store's clock; it pins until a commit removes it


class Bucket(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the log as the time index knows it: [start, the next bucket's start), or to the log's end.

    In JSON an array of the five numbers. Retention forgets whole buckets, oldest first (R3, docs/rfcs/0007).
    """

    start: int  # offset
    max_timestamp_ms: int  # of all records ever appended to it: a merge does not move a floor
    rows: int  # that live segments hold of it
    bytes: int  # that its live records take in the store: as appended, or fewer since a merge
    raw_bytes: int = 0  # of its live records, counted as in SegmentRef; too few where an earlier release appended them


class ConsumerPosition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far a named consumer has read (docs/rfcs/0009)."""

    name: str
    offset: int  # of the next record it wants
    committed_at: int  # the manifest number of its latest commit: what the next one must know
    committed_at_ms: int
    instance: str = ""  # who made that commit: another process of this name that comes later takes the position over
    missed_to: int = 0  # cleaning dropped tombstones between `offset` and here before it had read them


class Quarantine(msgspec.Struct, frozen=True):
    """Why compaction of this partition is stopped until a person looked (R6)."""

    reason: str
    segment: str
    since_ms: int


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a partition stays. -1: no bound. The more aggressive bound wins (D9)."""

    ms: int = -1
    bytes: int = -1
    records: int = -1


class Manifest(Numbered, frozen=True, omit_defaults=True, kw_only=True, tag_field=KIND, tag="manifest"):
    """The whole truth of a partition at version `id`."""

    topic: str
    topic_id: str
    partition: int
    compactor_epoch: int = 0
    next_offset: int = 0
    log_start_offset: int = 0  # stored retention floor (R3)
    deleted_to: int = 0  # the highest offset before which records were deleted by hand
    # Every offset below was merged with every other (R4). It only grows, and is no state of the log: a clean of the
    # first and third of three appends raises it to where the second begins, and below that lacks what gave way to the
    # third. What a reader may rely on is `as_of` of `lithify.manifest.compacted`, where there is one.
    cleaned_to: int = 0
    orphan_floor: int = 0  # appends whose id is older are refused, so that orphans can go (P7)
    retention: Retention | None = None  # the bounds in force; None: an earlier version of lithify wrote none down
    config_at: int = 0  # the `.topic` number that gave these bounds; 0: the one that announced the partition
    last_compacted_at_ms: int | None = None
    last_cleaned_at_ms: int | None = None
    sealed: bool = False  # terminal: the topic was deleted (P21)
    quarantine: Quarantine | None = None
    l0: tuple[SegmentRef, ...] = ()  # in offset order
    runs: tuple[SortedRun, ...] = ()  # by smallest offset
    time_index: tuple[Bucket, ...] = ()  # by start
    retired: tuple[Retired, ...] = ()
    completed_jobs: tuple[CompletedJob, ...] = ()
    producers: tuple[ProducerEntry, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    unpinned: tuple[int, ...] = ()  # manifests that no checkpoint pins any more: what only they name is to be deleted
    consumers: tuple[ConsumerPosition, ...] = ()

    def segments(self) -> tuple[SegmentRef, ...]:
        """Every live segment: L0, then the runs'."""
        return self.l0 + tuple(segment for run in self.runs for segment in run.segments)

    @property
    def rows(self) -> int:
        """Of all live segments, those below the floor included."""
        return sum(segment.rows for segment in self.segments())


class Boundary(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="boundary"):
    """Numbers at or below `manifest` / `compactor` are dead (P4); the heads are what its writer saw (P17)."""

    topic: str
    topic_id: str
    partition: int
    manifest: int = 0
    compactor: int = 0
    manifest_head: int = 0
    compactor_head: int = 0


class Growth(msgspec.Struct, frozen=True):
    """A topic was given more partitions: how many it had, and where their logs ended, by partition; what is missing,
    or None, is not known."""

    partitions: int
    ends: tuple[int | None, ...]


class TopicFile(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="topic"):
    """A topic's configuration at version `id`. Never collected; deletion is a version, too (P21)."""

    topic: str
    topic_id: str
    partitions: int
    config: dict[str, str]
    created_at_ms: int
    deleted: bool = False
    # What the first alteration of retention found. Partitions whose manifests hold no bounds, because an earlier
    # version of lithify wrote them, go by these until bounds are committed there (R3).
    former_bounds: Retention | msgspec.UnsetType = msgspec.UNSET
    growths: tuple[Growth, ...] | msgspec.UnsetType = msgspec.UNSET  # (docs/rfcs/0013) unset: not noted


class WarehouseFile(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="warehouse"):
    """A warehouse's settings at version `id`: what was set, the rest has its defaults. Never collected."""

    config: dict[str, str]
