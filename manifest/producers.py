"""Idempotent producers: their epochs, and the sequence numbers that identify a batch (P6, KIP-98). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import PRODUCERS_MAX, Manifest, ProducerEntry
from lithify.manifest.refusals import not_created, refused_for_good
from lithify.store.errors import Fenced, InvalidRequest, Unavailable

__all__ = ["OpenProducer", "ProducerStamp", "check_holds", "earlier_batch", "find_producer"]


@dataclass(frozen=True, slots=True)
class ProducerStamp:
    """`sequence` is the number, from 0, of the append's first record among all of this id that the partition holds."""

    id: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Give a producer its next epoch, before its first append; answers with the stamp for that append.

    Older epochs are fenced, so the sequence is final: it counts the records of all earlier instances, and a new
    instance continues from it. At the list's limit the longest idle producers are forgotten, but only those below the
    orphan floor: a batch of theirs still on its way is refused because of its segment's age.
    """

    id: str

    repeatable = True  # a repeat gives a later epoch; the one before was never used
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ProducerStamp] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return refused_for_good(head)
        # The epoch is the manifest's number. Counted from 0, an entry that was forgotten and opened again would give
        # the same epoch twice, and a long stalled instance could append as its successor. Test:
        # tests/protocol/test_p06_appends.py
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
        earlier = find_producer(head, self.id)
        sequence = 0 if earlier is None else earlier.next_sequence
        mine = ProducerEntry(id=self.id, epoch=epoch, next_sequence=sequence, touched_at=number)
        return Next(replace(head, producers=(*others, mine)), ProducerStamp(self.id, epoch, sequence))


def earlier_batch(head: Manifest, stamp: ProducerStamp, rows: int) -> Already[range] | Refused | None:
    where = f"{head.topic}/{head.partition}: producer {stamp.id!r}"
    entry = find_producer(head, stamp.id)
    if entry is None:
        # Never start at a sequence above 0: records from the forgotten past might be appended twice.
        return Refused(InvalidRequest(f"{where} is unknown here, or was forgotten; open it again for a new epoch"))
    if stamp.epoch < entry.epoch:
        return Refused(Fenced(f"{where} was opened again (epoch {entry.epoch}); this one, epoch {stamp.epoch}, stops"))
    if stamp.epoch > entry.epoch:
        return Refused(InvalidRequest(f"{where} sends epoch {stamp.epoch}, which was never opened"))
    for batch in entry.batches:
        if batch.sequence == stamp.sequence and batch.rows == rows:
            return Already(range(batch.base_offset, batch.base_offset + batch.rows))
    if stamp.sequence != entry.next_sequence:
        return Refused(
            InvalidRequest(f"{where} sends sequence {stamp.sequence}, expected {entry.next_sequence}; open it again")
        )
    return None


def find_producer(head: Manifest, producer_id: str) -> ProducerEntry | None:
    return next((p for p in head.producers if p.id == producer_id), None)


def check_holds(head: Manifest, stamp: ProducerStamp, where: str) -> None:
    """Raises Fenced if a later instance of the producer was opened."""
    newer = find_producer(head, stamp.id)
    if newer is not None and newer.epoch > stamp.epoch:
        raise Fenced(
            f"{where}: producer {stamp.id!r} was opened again by another instance (epoch {newer.epoch}). "
            "This instance stops"
        )
