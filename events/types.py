"""Event types: what every event has, and the changes of numbered files (docs/rfcs/0015). Pure.

A *change* is what a numbered file says that the one before it did not; `changes.py` derives changes. What no file says
is a notice: `notices.py`. A sink is a function that takes an event, in any thread.

Sizes are bytes in the store and rows; times are milliseconds since 1970 by the store's clock. No event contains a
record's key or value.
"""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from lithify.manifest.jobs import Ended, JobError, Kind, MergeCounts, Origin
from lithify.manifest.model import PinOwner, Retention

__all__ = [
    "Amount",
    "Appended",
    "AttemptBegan",
    "AttemptEnded",
    "CancelRequested",
    "ChainName",
    "Change",
    "CheckpointCreated",
    "CheckpointRefreshed",
    "CheckpointRemoved",
    "Claimed",
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
    "ManifestChange",
    "OrphanFloorRaised",
    "OwnerLeft",
    "PartitionCreated",
    "PartitionSealed",
    "ProducerForgotten",
    "ProducerOpened",
    "QuarantineLifted",
    "Quarantined",
    "RangesDiscarded",
    "RangesRecorded",
    "RetentionAltered",
    "SegmentsDropped",
    "Sink",
    "TransactionEnded",
    "TransactionForgotten",
    "TransactionResumed",
    "UploadBegun",
    "UploadCommitted",
    "UploadRemoved",
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
    """Partition None: the whole topic. Topic "": the warehouse. Topic id "": whatever life of the topic it is."""

    topic: str = ""
    topic_id: str = ""
    partition: int | None = None


Sink = Callable[[Event], None]
ChainName = Literal["manifest", "compactor"]


class Change(Event, frozen=True, kw_only=True):
    """Of one numbered file."""

    index: int = 0  # its place among the changes of its file
    at_ms: int = 0

    @property
    def chain(self) -> ChainName:
        raise NotImplementedError

    @property
    def number(self) -> int:
        """Of the file in its chain."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        """Whoever derives this change from the files gives it this id; no other change has it."""
        return f"{self.topic_id}/{self.partition}/{self.chain}/{self.number}/{self.index}"


class ManifestChange(Change, frozen=True, kw_only=True):
    manifest: int = 0  # number of the `.manifest` with this change

    @property
    def chain(self) -> ChainName:
        return "manifest"

    @property
    def number(self) -> int:
        return self.manifest


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
    checkpoint: str  # its id
    expires_at_ms: int | None


class CheckpointRefreshed(ManifestChange, frozen=True, kw_only=True):
    owner: PinOwner
    name: str
    checkpoint: str  # its id
    expires_at_ms: int | None


class CheckpointRemoved(ManifestChange, frozen=True, kw_only=True):
    """By request, because it had expired, or because another of its owner took its place."""

    owner: PinOwner
    name: str
    checkpoint: str  # its id


class ConsumerCommitted(ManifestChange, frozen=True, kw_only=True):
    name: str
    offset: int  # of the next record it wants
    missed_to: int = 0  # deletions below it were dropped before it could read them


class ConsumerForgotten(ManifestChange, frozen=True, kw_only=True):
    name: str


class ProducerOpened(ManifestChange, frozen=True, kw_only=True):
    producer: str
    epoch: int


class ProducerForgotten(ManifestChange, frozen=True, kw_only=True):
    producer: str


class TransactionEnded(ManifestChange, frozen=True, kw_only=True):
    application: str


class TransactionResumed(ManifestChange, frozen=True, kw_only=True):
    """The application had ended, and sends records again."""

    application: str


class TransactionForgotten(ManifestChange, frozen=True, kw_only=True):
    application: str


class UploadBegun(ManifestChange, frozen=True, kw_only=True):
    """Segments may be uploaded under its name from now on (P22)."""

    upload: str  # its name
    expires_at_ms: int


class UploadCommitted(ManifestChange, frozen=True, kw_only=True):
    """Its segments are appended, each has an `Appended` in the same manifest; or its version had been, by another."""

    upload: str  # its name
    offset: int  # of its first record
    rows: int


class UploadRemoved(ManifestChange, frozen=True, kw_only=True):
    """It had expired, or the topic was deleted."""

    upload: str  # its name
    appended: bool


class JobChange(Change, frozen=True, kw_only=True):
    compactor: int = 0  # number of the `.compactor` with this change

    @property
    def chain(self) -> ChainName:
        return "compactor"

    @property
    def number(self) -> int:
        return self.compactor


class Claimed(JobChange, frozen=True, kw_only=True):
    """Another compactor now owns the partition (P5)."""

    epoch: int
    owner: str  # host:pid
    former: str  # "": it had no owner


class OwnerLeft(JobChange, frozen=True, kw_only=True):
    """Its compactor gave the partition up: whoever comes next claims at once (P5)."""

    epoch: int
    owner: str  # host:pid


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
