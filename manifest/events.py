"""Event types: changes of numbered files, and notices of a process (docs/rfcs/0015). Pure.

A *change* is what a numbered file says that the one before it did not; `changes.py` derives changes. A *notice* is in
no file; only the process that emits it knows. A sink is a function that takes an event, in any thread.

Sizes are bytes in the store and rows; times are milliseconds since 1970 by the store's clock. No event contains a
record's key or value.
"""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from lithify.manifest.jobs import Ended, JobError, Kind, MergeCounts, Origin
from lithify.manifest.model import PinOwner, Retention
from lithify.store.apart import Fault

__all__ = [
    "Amount",
    "Appended",
    "AttemptBegan",
    "AttemptEnded",
    "CancelRequested",
    "CheckpointCreated",
    "CheckpointRefreshed",
    "CheckpointRemoved",
    "Claimed",
    "Collected",
    "CollectionEnded",
    "Compacted",
    "ConsumerCommitted",
    "ConsumerForgotten",
    "EpochRaised",
    "Event",
    "FloorRaised",
    "GarbageForgotten",
    "JobAdmitted",
    "JobChange",
    "JobEnded",
    "JobRequested",
    "Lost",
    "ManifestChange",
    "OrphanFloorRaised",
    "PartitionCreated",
    "PartitionSealed",
    "ProducerForgotten",
    "ProducerOpened",
    "QuarantineLifted",
    "Quarantined",
    "RangesDiscarded",
    "RangesRecorded",
    "Recovered",
    "Rests",
    "RetentionAltered",
    "SegmentsDropped",
    "Sink",
    "TransactionEnded",
    "TransactionForgotten",
    "TransactionResumed",
    "Trouble",
    "Waits",
    "What",
]


class Amount(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount of segments."""

    segments: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.segments + other.segments, self.rows + other.rows, self.bytes + other.bytes)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.segments - other.segments, self.rows - other.rows, self.bytes - other.bytes)


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="event", tag=_tag):
    """Partition None: the whole topic. Topic "": the warehouse."""

    topic: str = ""
    partition: int | None = None


class ManifestChange(Event, frozen=True, kw_only=True):
    manifest: int = 0  # number of the `.manifest` with this change
    at_ms: int = 0


class PartitionCreated(ManifestChange, frozen=True, kw_only=True):
    pass


class PartitionSealed(ManifestChange, frozen=True, kw_only=True):
    """Its topic was deleted (P21)."""

    let_go: Amount


class Appended(ManifestChange, frozen=True, kw_only=True):
    """One L0 segment; `size` counts it."""

    segment: str
    offset: int  # of its first record
    size: Amount
    producer: str = ""
    application: str = ""  # of a transaction
    version: int | None = None  # of that transaction


class Compacted(ManifestChange, frozen=True, kw_only=True):
    """A job's outputs replaced its sources (P13)."""

    job: str
    replaced: Amount
    made: Amount
    cleaned_to: int


class SegmentsDropped(ManifestChange, frozen=True, kw_only=True):
    """Segments below the log start offset were retired without a job (R3)."""

    dropped: Amount


class FloorRaised(ManifestChange, frozen=True, kw_only=True):
    """The stored log start offset. Readers may have seen a higher one already: they apply retention by their clock."""

    before: int
    log_start_offset: int
    by_hand: bool = False  # on request, up to an offset


class RetentionAltered(ManifestChange, frozen=True, kw_only=True):
    retention: Retention
    config_at: int  # the version of the topic's configuration


class EpochRaised(ManifestChange, frozen=True, kw_only=True):
    """The first half of a claim; `Claimed` is the second (P5)."""

    epoch: int


class Quarantined(ManifestChange, frozen=True, kw_only=True):
    reason: str
    segment: str


class QuarantineLifted(ManifestChange, frozen=True, kw_only=True):
    segment: str


class GarbageForgotten(ManifestChange, frozen=True, kw_only=True):
    """Retired segments left the list: their bytes are gone, or only checkpoints keep them (P16)."""

    forgotten: Amount


class OrphanFloorRaised(ManifestChange, frozen=True, kw_only=True):
    orphan_floor: int


class CheckpointCreated(ManifestChange, frozen=True, kw_only=True):
    owner: PinOwner
    name: str
    id: str
    expires_at_ms: int | None


class CheckpointRefreshed(ManifestChange, frozen=True, kw_only=True):
    owner: PinOwner
    name: str
    id: str
    expires_at_ms: int | None


class CheckpointRemoved(ManifestChange, frozen=True, kw_only=True):
    """By request, because it had expired, or because another of its owner took its place."""

    owner: PinOwner
    name: str
    id: str


class ConsumerCommitted(ManifestChange, frozen=True, kw_only=True):
    name: str
    offset: int  # of the next record it wants
    missed_to: int = 0  # deletions below it were dropped before it could read them


class ConsumerForgotten(ManifestChange, frozen=True, kw_only=True):
    name: str


class ProducerOpened(ManifestChange, frozen=True, kw_only=True):
    id: str
    epoch: int


class ProducerForgotten(ManifestChange, frozen=True, kw_only=True):
    id: str


class TransactionEnded(ManifestChange, frozen=True, kw_only=True):
    application: str


class TransactionResumed(ManifestChange, frozen=True, kw_only=True):
    """The application had ended, and sends records again."""

    application: str


class TransactionForgotten(ManifestChange, frozen=True, kw_only=True):
    application: str


class JobChange(Event, frozen=True, kw_only=True):
    compactor: int = 0  # number of the `.compactor` with this change
    at_ms: int = 0


class Claimed(JobChange, frozen=True, kw_only=True):
    """Another compactor now owns the partition (P5)."""

    epoch: int
    owner: str  # host:pid
    former: str  # "": it had no owner


class JobRequested(JobChange, frozen=True, kw_only=True):
    job: str
    sources: int  # L0 segments and runs named in the request; 0: everything


class CancelRequested(JobChange, frozen=True, kw_only=True):
    job: str


class JobAdmitted(JobChange, frozen=True, kw_only=True):
    job: str
    kind: Kind
    origin: Origin
    reason: str
    input: Amount
    ranges: int


class AttemptBegan(JobChange, frozen=True, kw_only=True):
    job: str
    attempt: int
    worker: str  # host:pid
    recorded: int  # key ranges that earlier attempts recorded
    ranges: int


class RangesRecorded(JobChange, frozen=True, kw_only=True):
    """Progress (P11): `fresh` more key ranges are done; now `recorded` of `ranges`."""

    job: str
    fresh: int
    recorded: int
    ranges: int
    made: Amount
    counts: MergeCounts


class RangesDiscarded(JobChange, frozen=True, kw_only=True):
    """Outputs are missing or damaged; these ranges are done again (P12)."""

    job: str
    discarded: int
    recorded: int
    lost: Amount  # of their outputs


class AttemptEnded(JobChange, frozen=True, kw_only=True):
    """Before its job was done. Without an error it was stopped, or its compactor died without recording an end."""

    job: str
    attempt: int
    recorded: int  # key ranges that this attempt recorded
    error: JobError | None


class JobEnded(JobChange, frozen=True, kw_only=True):
    job: str
    kind: Kind | None  # None: a request that was never admitted
    origin: Origin
    status: Ended
    reason: str
    error: JobError | None
    attempts: int
    ranges: int
    recorded: int
    input: Amount
    made: Amount
    counts: MergeCounts
    created_at_ms: int
    started_at_ms: int | None
    peak_memory_bytes: int


# Conditions that may last longer than one pass:
What = Literal[
    "topics not listed",
    "topic skipped",
    "an older version of a topic is damaged",
    "end of a topic not noted",
    "partition failed",
    "partition not ranked",
    "partition not relieved",
    "partition not collected",
    "objects could not be deleted",
    "unannounced partitions not swept",
    "stale temporaries stay",
]


class Trouble(Event, frozen=True, kw_only=True):
    """Something fails, or fails for another reason than before."""

    what: What
    fault: Fault
    topic_id: str = ""


class Recovered(Event, frozen=True, kw_only=True):
    """It no longer fails."""

    what: What
    topic_id: str = ""


class Lost(Event, frozen=True, kw_only=True):
    """Another compactor took the partition from this one (P5)."""

    fault: Fault


class Rests(Event, frozen=True, kw_only=True):
    """Something is due in the partition, but nothing will be done until something changes: the work waits, another
    compactor owns the partition, or this one was told to stop."""

    outcome: str
    reason: str


class Waits(Event, frozen=True, kw_only=True):
    """A due job has waited for minutes, for a worker or for room."""

    bytes: int
    since_ms: int


class Collected(Event, frozen=True, kw_only=True):
    """Objects of a partition were deleted."""

    topic_id: str
    objects: int
    bytes: int
    boundary: int


class CollectionEnded(Event, frozen=True, kw_only=True):
    """A pass of the collector over the warehouse."""

    swept: bool
    objects: int
    bytes: int
    waiting: int  # retired segments that wait for the grace period
    failed: int  # partitions that could not be collected


Sink = Callable[[Event], None]
