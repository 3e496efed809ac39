"""The files of a partition, and the small files beside them: what `.manifest`, `.boundary`, `.topic` and `.warehouse`
hold. Pure: frozen structs, encoded as JSON (docs/rfcs/0002), which operators read with `jq`.

Names carry units. Offsets are int64, assigned without gaps at commit. Times are milliseconds since 1970 by the store's
clock. A field that ends in `_at` is a manifest number: the only order that the protocol relies on.
"""

from typing import Literal

import msgspec

from lithify.manifest.runs import Key, Runs, SegmentRef, SortedRun

__all__ = [
    "COMPLETED_JOBS_MAX",
    "CONSUMERS_MAX",
    "FORMAT",
    "FORMAT_HOMES",
    "FORMAT_LISTS",
    "FORMAT_MAX",
    "GROUP_MAX",
    "GROWTHS_MAX",
    "HOMES_MAX",
    "KEY_BOUND_BYTES",
    "KIND",
    "PARTITIONS_MAX",
    "PASSED_OVER_MAX",
    "PINS_MAX",
    "PRODUCERS_MAX",
    "PRODUCER_BATCHES_KEPT",
    "RETIRED_LISTS_MAX",
    "RETIRED_MAX",
    "SCAN_TTL_MS_MAX",
    "TIME_INDEX_MAX",
    "TRANSACTIONS_MAX",
    "UNPINNED_MAX",
    "UPLOADED_SEGMENTS_MAX",
    "UPLOADS_MAX",
    "UPLOAD_TTL_MS_MAX",
    "Boundary",
    "Bucket",
    "Checkpoint",
    "Collected",
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
    "RetiredList",
    "RunList",
    "SegmentRef",
    "SortedRun",
    "Stretch",
    "TopicFile",
    "Transaction",
    "Upload",
    "UploadAppended",
    "WarehouseFile",
]

FORMAT = 1  # of every numbered file that an earlier lithify may read
# Of those that name another home than the warehouse: an earlier lithify must not act on them, for its sweep would take
# segments of another storage class for orphans (docs/rfcs/0031).
FORMAT_HOMES = 2
# Of manifests that have run lists: an earlier lithify would see a partition without the runs that are listed there.
FORMAT_LISTS = 3
FORMAT_MAX = FORMAT_LISTS  # a reader refuses a larger one
# The field that says what a numbered file is. Without it a boundary would decode as a manifest with default fields.
KIND = "kind"

# Every list has a limit; the edit that would exceed it describes what happens then.
KEY_BOUND_BYTES = 32  # key bounds in manifests are cut to this, rounded outward
RETIRED_MAX = 16_384
RETIRED_LISTS_MAX = 4_096
# If there are more, no collection has looked for long; the sweep finds what the oldest kept.
UNPINNED_MAX = 512
COMPLETED_JOBS_MAX = 64
PRODUCERS_MAX = 1_024
PRODUCER_BATCHES_KEPT = 5  # as Kafka: how many of its latest batches a producer may repeat
TRANSACTIONS_MAX = 1_024
PASSED_OVER_MAX = 16  # stretches of one application's versions
CONSUMERS_MAX = 256
TIME_INDEX_MAX = 128
GROWTHS_MAX = 16  # the growths for which it is noted where the logs ended
PARTITIONS_MAX = 10_000  # of a topic
PinOwner = Literal["user", "scan", "view"]  # who made a checkpoint and releases it (docs/rfcs/0016)
PINS_MAX: dict[PinOwner, int] = {"user": 256, "scan": 512, "view": 16}  # checkpoints of each in a partition
SCAN_TTL_MS_MAX = 3_600_000  # a scan's checkpoint expires at most this long after its last refresh
UPLOADS_MAX = 256  # that stand in a partition (docs/rfcs/0019)
UPLOAD_TTL_MS_MAX = 7 * 86_400_000
UPLOADED_SEGMENTS_MAX = 4_096  # that one commit appends
HOMES_MAX = 8  # besides the warehouse, in which a partition has segments, or may have (docs/rfcs/0031)
GROUP_MAX = 256  # appends of several callers in one commit (docs/rfcs/0024)


class Numbered(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields that every numbered file begins with; the commit sets all except `format`."""

    format: int
    id: int = 0  # its own number
    nonce: str = ""  # distinguishes this body from a rival's (P1)
    committed_at_ms: int = 0


class Collected(Numbered, frozen=True, omit_defaults=True, kw_only=True):
    """Files of chains that are collected."""

    boundary_seen: int = 0  # the number of a `.boundary` that its writer had seen: only a hint (docs/rfcs/0034)


class RunList(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename={"checksum": "xxh3"}):
    """An object beside the manifests that lists a stretch of a manifest's runs (docs/rfcs/0027)."""

    id: str  # `<manifest number>-<nonce>-<index>`: of the manifest for which it was written
    segments: int  # how many it lists
    bytes: int  # of the object
    added_at: int  # the first manifest that named it
    checksum: str  # XXH3-64 of the object's bytes, 16 hexadecimal digits


class RetiredList(msgspec.Struct, frozen=True, kw_only=True):
    """A run list that manifests in [added_at, retired_at) name, and that is not yet collected (P16)."""

    id: str
    bytes: int
    added_at: int
    retired_at: int

    @property
    def home(self) -> str:
        """The warehouse: lists are beside the manifests."""
        return ""


class Retired(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename={"home": "store"}):
    """A replaced segment: readable by manifests in [added_at, retired_at), its bytes not yet collected (P16). After a
    grace period, a segment that only checkpoints keep leaves the list; then only their manifests name it.

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
    """A compaction whose commit is in the manifest, until `.compactor` has recorded its end (P13)."""

    id: str
    committed_at: int


class ProducerBatch(msgspec.Struct, frozen=True):
    sequence: int  # of its first record
    rows: int
    base_offset: int


class ProducerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotent producer (KIP-98): its next sequence, and its latest batches, which it may repeat."""

    id: str
    epoch: int
    next_sequence: int = 0
    batches: tuple[ProducerBatch, ...] = ()
    touched_at: int  # manifest number of its latest commit; it expires only below the orphan floor (P6)


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """A range of consecutive numbers. In JSON an array of the two."""

    first: int
    last: int  # inclusive


class Transaction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The latest append of an application that numbers its appends (such as a stream query with its batch ids)."""

    application: str
    version: int
    base_offset: int
    rows: int
    touched_at: int = 0  # manifest number of that append; 0: unknown, written by an earlier lithify
    touched_at_ms: int = 0
    ended: bool = False  # the application said that it will send no more
    # Versions below the latest that were not sent and still may be; ascending.
    passed_over: tuple[Stretch, ...] = ()


class UploadAppended(msgspec.Struct, frozen=True, array_like=True):
    """What became of an upload. In JSON an array of the three numbers."""

    number: int  # of the manifest that appended it, or another upload of the same version (docs/rfcs/0011)
    base_offset: int
    rows: int


class Upload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Segments that may be uploaded now and appended later, by one commit (P22). While this entry stands, no sweep
    deletes what is named after it. An older lithify drops it when it commits: then the commit of its segments is
    refused (docs/rfcs/0019)."""

    id: str  # 16 hexadecimal digits
    begun_at: int  # the number of the manifest that has it first. It and the id are the upload; either alone is not
    expires_at_ms: int  # by the store's clock; it stands until a commit removes it
    appended: UploadAppended | None = None

    @property
    def name(self) -> str:
        """What the ids of its segments begin with."""
        return f"{self.begun_at:012d}-{self.id}"


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pinned manifest: the one that this checkpoint's own commit created (P20).

    If an older lithify commits, `owner` is lost, and from then on the checkpoint looks like a user's. No pin is lost:
    its maker finds it by its id (docs/rfcs/0016).
    """

    id: str
    owner: PinOwner = "user"
    name: str  # unique among this owner's
    manifest: int
    created_at_ms: int
    expires_at_ms: int | None = None  # by the store's clock; it pins until a commit removes it


class Bucket(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the log in the time index: [start, the next bucket's start), or up to the log's end.

    In JSON an array of the five numbers. Retention drops whole buckets, oldest first (R3, docs/rfcs/0007).
    """

    start: int  # offset
    max_timestamp_ms: int  # of all records ever appended to it, so that a merge moves no floor
    rows: int  # of it in live segments
    bytes: int  # that its live records take in the store: as appended, or fewer after a merge
    raw_bytes: int = 0  # of its live records, counted as in SegmentRef; too low if an earlier release appended some


class ConsumerPosition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far a named consumer has read (docs/rfcs/0009)."""

    name: str
    offset: int  # of the next record it wants
    committed_at: int  # the manifest number of its latest commit, which the next commit must name
    committed_at_ms: int
    # The instance that made that commit. A later instance of this name takes the position over.
    instance: str = ""
    missed_to: int = 0  # cleaning dropped tombstones between `offset` and here before this consumer read them


class Quarantine(msgspec.Struct, frozen=True):
    """Why compaction of this partition is stopped until a person has looked (R6)."""

    reason: str
    segment: str
    since_ms: int


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a partition is kept. -1: no bound. If bounds differ, the one that keeps less wins (D9)."""

    ms: int = -1
    bytes: int = -1
    records: int = -1


class Manifest(Collected, frozen=True, omit_defaults=True, kw_only=True, tag_field=KIND, tag="manifest"):
    """The whole state of a partition at version `id`."""

    topic: str
    topic_id: str
    partition: int
    compactor_epoch: int = 0
    next_offset: int = 0
    log_start_offset: int = 0  # stored retention floor (R3)
    deleted_to: int = 0  # the highest offset before which records were deleted by hand
    # All offsets below were merged with each other (R4). It only grows, and is not a state of the log: a clean of the
    # first and third of three appends raises it to where the second begins, and what the third superseded is missing
    # below it.
    # Readers may rely on `as_of` of `lithify.manifest.compacted`, if there is one.
    cleaned_to: int = 0
    orphan_floor: int = 0  # appends with an older id are refused, so that orphans can be deleted (P7)
    retention: Retention | None = None  # the bounds in force; None: an earlier version of lithify stored none
    config_at: int = 0  # the `.topic` number that gave these bounds; 0: the one that announced the partition
    last_compacted_at_ms: int | None = None
    last_cleaned_at_ms: int | None = None
    sealed: bool = False  # terminal: the topic was deleted (P21)
    quarantine: Quarantine | None = None
    l0: tuple[SegmentRef, ...] = ()  # in offset order
    runs: tuple[SortedRun, ...] = ()  # by smallest offset. As stored, those that come after what `lists` list
    lists: tuple[RunList, ...] = ()  # in the order of what they list: the first segments of `runs`
    time_index: tuple[Bucket, ...] = ()  # by start
    retired: tuple[Retired, ...] = ()
    retired_lists: tuple[RetiredList, ...] = ()
    completed_jobs: tuple[CompletedJob, ...] = ()
    producers: tuple[ProducerEntry, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    unpinned: tuple[int, ...] = ()  # manifests no longer pinned by any checkpoint: what only they name can be deleted
    consumers: tuple[ConsumerPosition, ...] = ()
    uploads: tuple[Upload, ...] = ()
    # Every home besides the warehouse to which a job was ever admitted, until a sweep has found it empty (P18).
    homes: tuple[str, ...] = ()

    def segments(self) -> tuple[SegmentRef, ...]:
        """Every live segment: L0, then the runs'."""
        return self.l0 + Runs.of(self.runs).segments

    @property
    def rows(self) -> int:
        """Rows of all live segments, including those below the floor."""
        return sum(segment.rows for segment in self.l0) + Runs.of(self.runs).rows

    @property
    def replaced(self) -> tuple[Retired | RetiredList, ...]:
        """What waits for collection."""
        return (*self.retired, *self.retired_lists)

    @property
    def format_needed(self) -> int:
        """The format that says who may act on it."""
        if self.lists or self.retired_lists:
            return FORMAT_LISTS
        return FORMAT_HOMES if self.homes else FORMAT


class Boundary(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="boundary"):
    """Numbers at or below `manifest` / `compactor` are dead (P4). The heads are those that its writer saw (P17)."""

    topic: str
    topic_id: str
    partition: int
    manifest: int = 0
    compactor: int = 0
    manifest_head: int = 0
    compactor_head: int = 0


class Growth(msgspec.Struct, frozen=True):
    """A topic was given more partitions: how many it had, and where their logs ended, by partition. Missing or None:
    unknown."""

    partitions: int
    ends: tuple[int | None, ...]


class TopicFile(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="topic"):
    """A topic's configuration at version `id`. Never collected; a deletion is a version too (P21)."""

    topic: str
    topic_id: str
    partitions: int
    config: dict[str, str]
    created_at_ms: int
    deleted: bool = False
    # The bounds that the first alteration of retention replaced. Partitions whose manifests have no bounds, because an
    # earlier version of lithify wrote them, use these until bounds are committed there (R3).
    former_bounds: Retention | msgspec.UnsetType = msgspec.UNSET
    growths: tuple[Growth, ...] | msgspec.UnsetType = msgspec.UNSET  # (docs/rfcs/0013) unset: not recorded


class WarehouseFile(Numbered, frozen=True, kw_only=True, tag_field=KIND, tag="warehouse"):
    """A warehouse's settings at version `id`: those that were set; the rest have their defaults. Never collected."""

    config: dict[str, str]
