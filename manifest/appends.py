"""The edits that producers make to a manifest: appending a segment, and announcing an idempotent producer. Pure.

An append needs no epoch. Its segment id is its idempotence token; a producer's sequence numbers and an application's
transaction versions carry that across restarts (P6, P7; KIP-98 for the terms).
"""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.commit import Already, Next, Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import (
    PRODUCER_BATCHES_KEPT,
    PRODUCERS_MAX,
    TIME_INDEX_MAX,
    Bucket,
    Manifest,
    ProducerBatch,
    ProducerEntry,
    SegmentRef,
)
from lithify.manifest.retention import floor_at
from lithify.manifest.transactions import EXPIRATION_MS, Place, TransactionStamp, dated, earlier_version, remember
from lithify.store.errors import Fenced, InvalidRequest, LithifyError, NotFound, Unavailable

__all__ = ["Append", "BelowOrphanFloor", "OpenProducer", "ProducerStamp", "refused_for_good", "topic_gone"]


class BelowOrphanFloor(LithifyError):
    """The append's segment id is older than the orphan floor, so its upload may be collected: upload it again under a
    new id. It certainly did not happen."""


@dataclass(frozen=True, slots=True)
class ProducerStamp:
    """`sequence` is the number, from 0, of the append's first record among all of this id that the partition holds."""

    id: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append one uploaded segment; answers with the range of offsets it was given.

    Requires: `segment` has rows, no base offset, and was uploaded whole under its id.
    """

    segment: SegmentRef
    l0_segments_max: int
    producer: ProducerStamp | None = None
    transaction: TransactionStamp | None = None
    expiration_ms: int = EXPIRATION_MS  # of an idle application, where there is no room for another

    repeatable = True  # by the segment id, while its live or retired entry is there; afterwards the floor refuses it

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, range] | Already[range] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest; create the topic first"))
        known = self._known(head)
        if known is not None:
            return known
        if head.sealed:
            return refused_for_good(head)
        earlier = self._earlier(head)
        if earlier is not None:
            return earlier
        if SegmentId.manifest_id(self.segment.id) < head.orphan_floor:
            return Refused(BelowOrphanFloor(f"segment {self.segment.id} is older than the orphan floor"))
        if len(head.l0) >= self.l0_segments_max:
            return Refused(
                Unavailable(
                    f"{head.topic}/{head.partition} holds {len(head.l0)} L0 segments, its limit: compaction is behind. "
                    "Nothing was appended; retry later, and see 'lithify compaction explain'"
                )
            )
        base, rows = head.next_offset, self.segment.rows
        ref = replace(self.segment, base_offset=base, min_offset=base, max_offset=base + rows - 1, added_at=number)
        producers = head.producers
        if self.producer is not None:
            entry = _entry(head, self.producer.id)
            assert entry is not None  # _earlier refused an unknown producer
            batch = ProducerBatch(self.producer.sequence, rows, base)
            entry = replace(
                entry,
                next_sequence=self.producer.sequence + rows,
                batches=(*entry.batches, batch)[-PRODUCER_BATCHES_KEPT:],
                touched_at=number,
            )
            producers = (*(p for p in producers if p.id != entry.id), entry)
        transactions = dated(head.transactions, number, now_ms)
        if self.transaction is not None:
            place = Place(head, number, now_ms, range(base, base + rows))
            found = remember(transactions, self.transaction, place, self.expiration_ms)
            if isinstance(found, LithifyError):
                return Refused(found)
            transactions = found
        floor, index = self._room_in_index(head, now_ms)
        value = replace(
            head,
            l0=(*head.l0, ref),
            next_offset=base + rows,
            log_start_offset=floor,
            time_index=time_index.grow(index, ref),
            producers=producers,
            transactions=transactions,
        )
        return Next(value, range(base, base + rows))

    def _room_in_index(self, head: Manifest, now_ms: int) -> tuple[int, tuple[Bucket, ...]]:
        """Where buckets must be joined, the floor that readers see by now is stored first: a bucket below it, joined
        with one above, would stay as long as that, and the floor would fall (R3)."""
        if len(head.time_index) < TIME_INDEX_MAX:
            return head.log_start_offset, head.time_index
        floor = floor_at(head, now_ms)
        return floor, time_index.trim(head.time_index, floor, head.next_offset, head.rows)

    def _known(self, head: Manifest) -> Already[range] | None:
        """That it is there, by its segment's id."""
        for known in (*reversed(head.l0), *reversed(head.retired)):
            if known.id == self.segment.id and known.base_offset is not None:
                return Already(range(known.base_offset, known.base_offset + known.rows))
        return None

    def _earlier(self, head: Manifest) -> Already[range] | Refused | None:
        """What the head says of its place in a sequence."""
        if self.transaction is not None:
            verdict = earlier_version(head, self.transaction)
            if verdict is not None:
                return verdict
        return None if self.producer is None else _earlier_batch(head, self.producer, self.segment.rows)


def _earlier_batch(head: Manifest, stamp: ProducerStamp, rows: int) -> Already[range] | Refused | None:
    where = f"{head.topic}/{head.partition}: producer {stamp.id!r}"
    entry = _entry(head, stamp.id)
    if entry is None:
        # Never a fresh start at a sequence above 0: records of the forgotten past might be doubled.
        return Refused(InvalidRequest(f"{where} is not known here (any more); open it again to get a new epoch"))
    if stamp.epoch < entry.epoch:
        return Refused(Fenced(f"{where} was opened again (epoch {entry.epoch}); this one, epoch {stamp.epoch}, stops"))
    if stamp.epoch > entry.epoch:
        return Refused(InvalidRequest(f"{where} sends epoch {stamp.epoch}, which was never opened"))
    for batch in entry.batches:
        if batch.sequence == stamp.sequence and batch.rows == rows:
            return Already(range(batch.base_offset, batch.base_offset + batch.rows))
    if stamp.sequence != entry.next_sequence:
        return Refused(
            InvalidRequest(f"{where} sends sequence {stamp.sequence}, {entry.next_sequence} is next; open it again")
        )
    return None


def _entry(head: Manifest, producer_id: str) -> ProducerEntry | None:
    return next((p for p in head.producers if p.id == producer_id), None)


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Give a producer its next epoch, before its first append; answers with the stamp of that. Older epochs are fenced,
    so the sequence says for good how many records of theirs there are: an instance that starts again goes on from it.

    At the bound of the list the producers idle for longest give way, and only those below the orphan floor: a batch of
    theirs that is still under way is refused by its segment's age.
    """

    id: str

    repeatable = True  # twice is a later epoch; nobody has used the one before

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ProducerStamp] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest; create the topic first"))
        if head.sealed:
            return refused_for_good(head)
        # The manifest's number: counted from 0, an entry that was forgotten and opened anew would give an epoch twice,
        # and a stalled instance of long ago could append as its successor.
        # Test: tests/protocol/test_p06_appends.py
        epoch = number
        others = [p for p in head.producers if p.id != self.id]
        if len(others) >= PRODUCERS_MAX:
            oldest = min(others, key=lambda p: p.touched_at)
            if oldest.touched_at >= head.orphan_floor:
                return Refused(
                    Unavailable(
                        f"{head.topic}/{head.partition} remembers {PRODUCERS_MAX} producers, its limit, and none is "
                        "old enough to be forgotten; reuse producer ids, or let garbage collection run"
                    )
                )
            others.remove(oldest)
        earlier = _entry(head, self.id)
        sequence = 0 if earlier is None else earlier.next_sequence
        mine = ProducerEntry(id=self.id, epoch=epoch, next_sequence=sequence, touched_at=number)
        return Next(replace(head, producers=(*others, mine)), ProducerStamp(self.id, epoch, sequence))


def topic_gone(head: Manifest) -> NotFound:
    return NotFound(f"topic {head.topic} was deleted; a topic of that name made since is another one: open it anew")


def refused_for_good(head: Manifest) -> Refused:
    """By a sealed partition. SUBTLE! A client that saw it alive a moment ago may create a number that is collected by
    now, and then nobody can tell what became of that (P4). Nobody need: whatever was there went with the topic.
    Test: tests/log/test_deleted_topics.py
    """
    return Refused(topic_gone(head), final=True)
