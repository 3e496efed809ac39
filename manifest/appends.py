"""The edits that append a segment, or several at once, and what every append does to a manifest. Pure.

An append needs no epoch. Its segment id is its idempotence token; a producer's sequence numbers and an application's
transaction versions carry that across restarts (P6, P7).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import (
    GROUP_MAX,
    PRODUCER_BATCHES_KEPT,
    TIME_INDEX_MAX,
    Bucket,
    Manifest,
    ProducerBatch,
    SegmentRef,
)
from lithify.manifest.producers import ProducerStamp, earlier_batch, find_producer
from lithify.manifest.refusals import not_created, refused_for_good
from lithify.manifest.retention import floor_at
from lithify.manifest.transactions import EXPIRATION_MS, Place, TransactionStamp, dated, earlier_version, remember
from lithify.store.errors import LithifyError, Unavailable

__all__ = ["Answers", "Append", "AppendMany", "BelowOrphanFloor", "Full", "NoneAppended", "appended", "full"]


class BelowOrphanFloor(LithifyError):
    """The append's segment id is older than the orphan floor, so its upload may already be collected. Upload it again
    under a new id: the append certainly did not happen."""


@dataclass(frozen=True, slots=True)
class Append:
    """Append one uploaded segment; answers with the range of its offsets.

    Requires: `segment` has rows, no base offset, and was uploaded whole under its id.
    """

    segment: SegmentRef
    l0_segments_max: int
    producer: ProducerStamp | None = None
    transaction: TransactionStamp | None = None
    expiration_ms: int = EXPIRATION_MS  # before an idle application may be forgotten, if there is no room for another

    repeatable = True  # by the segment id while its entry is live or retired; later the orphan floor refuses it
    frees = False

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, range] | Already[range] | Refused:
        if head is None:
            return not_created()
        verdict = self.placed(head, number, now_ms)
        if isinstance(verdict, Next):
            return Next(_indexed(head, verdict.value, now_ms), verdict.result)
        return verdict

    def placed(self, head: Manifest, number: int, now_ms: int) -> Next[Manifest, range] | Already[range] | Refused:
        """As `apply`, but the time index and the floor are left as they are."""
        known = self.known(head)
        if known is not None:
            return known
        if head.sealed:
            return refused_for_good(head)
        earlier = self._earlier(head)
        if earlier is not None:
            return earlier
        if SegmentId.manifest_id(self.segment.id) < head.orphan_floor:
            return Refused(BelowOrphanFloor(f"segment {self.segment.id} is older than the orphan floor"))
        no_room = full(head, self.l0_segments_max)
        if no_room is not None:
            return Refused(no_room)
        base, rows = head.next_offset, self.segment.rows
        producers = head.producers
        if self.producer is not None:
            entry = find_producer(head, self.producer.id)
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
        value = replace(_placed(head, (self.segment,), number), producers=producers, transactions=transactions)
        return Next(value, range(base, base + rows))

    def known(self, head: Manifest) -> Already[range] | None:
        """Whether the head already has this segment, by its id."""
        for known in (*reversed(head.l0), *reversed(head.retired)):
            if known.id == self.segment.id and known.base_offset is not None:
                return Already(range(known.base_offset, known.base_offset + known.rows))
        return None

    def _earlier(self, head: Manifest) -> Already[range] | Refused | None:
        """What the head says about the append's place in a sequence of versions or batches."""
        if self.transaction is not None:
            verdict = earlier_version(head, self.transaction)
            if verdict is not None:
                return verdict
        return None if self.producer is None else earlier_batch(head, self.producer, self.segment.rows)


class NoneAppended(LithifyError):
    """No member of a group was appended, and not all had been before: `answers` says what became of each."""

    def __init__(self, answers: "Answers") -> None:
        super().__init__("none of several appends was accepted")
        self.answers = answers


Answers = tuple[range | Refused, ...]
"""Of each member of a group: its offsets, or why it was not appended."""


@dataclass(frozen=True, slots=True)
class AppendMany:
    """Append what several callers have uploaded, each as `Append` does, one after the other; answers with what became
    of each (docs/rfcs/0024). A member that is refused changes nothing for those after it.

    A commit is evidence that its head was current, so the refusals in it hold, unless an earlier attempt is open
    (`Committed.open`).
    """

    members: tuple[Append, ...]

    repeatable = True  # each member recognises itself, or is refused below the orphan floor
    frees = False

    def __post_init__(self) -> None:
        own = {member.segment.id for member in self.members}
        if len(own) < len(self.members) or not 0 < len(own) <= GROUP_MAX:
            raise ValueError(f"a group has 1 to {GROUP_MAX} members, and each uploaded a segment of its own")

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, Answers] | Already[Answers] | Refused:
        if head is None:
            return not_created()
        following, answers = head, list[range | Refused]()
        for member in self.members:
            verdict = member.placed(following, number, now_ms)
            if isinstance(verdict, Next):
                following = verdict.value
            answers.append(verdict if isinstance(verdict, Refused) else verdict.result)
        if following is not head:
            return Next(_indexed(head, following, now_ms), tuple(answers))
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        if not refused:
            return Already(tuple(answers))
        return Refused(NoneAppended(tuple(answers)), final=all(each.final for each in refused))


def appended(head: Manifest, segments: Sequence[SegmentRef], number: int, now_ms: int) -> Manifest:
    """`head` with the records of `segments` behind its last one, in that order, as manifest `number` will have it."""
    return _indexed(head, _placed(head, segments, number), now_ms)


def _placed(head: Manifest, segments: Sequence[SegmentRef], number: int) -> Manifest:
    added: list[SegmentRef] = []
    base = head.next_offset
    for segment in segments:
        end = base + segment.rows
        added.append(replace(segment, base_offset=base, min_offset=base, max_offset=end - 1, added_at=number))
        base = end
    return replace(head, l0=(*head.l0, *added), next_offset=base)


def _indexed(head: Manifest, following: Manifest, now_ms: int) -> Manifest:
    """`following`, which appends to `head`, with the floor and the time index that belong to it."""
    added = following.l0[len(head.l0) :]
    floor, index = _room_in_index(head, len(added), now_ms)
    for segment in added:
        index = time_index.grow(index, segment)
    return replace(following, log_start_offset=floor, time_index=index)


class Full(Unavailable):
    """A partition has as many L0 segments as it may have (`l0.segments.max`); only compaction makes room. `holds`: this
    alone, without a remedy."""

    def __init__(self, message: str, holds: str = "") -> None:
        super().__init__(message)
        self.holds = holds


def full(head: Manifest, l0_segments_max: int) -> Full | None:
    """Why nothing can be appended to `head`, if it has too many L0 segments."""
    if len(head.l0) < l0_segments_max:
        return None
    holds = f"{head.topic}/{head.partition} holds {len(head.l0)} L0 segments, its limit"
    see = f"'lithify compaction explain {head.topic}'"
    return Full(f"{holds}: compaction is behind. Nothing was appended there; retry later, and see {see}", holds)


def _room_in_index(head: Manifest, more: int, now_ms: int) -> tuple[int, tuple[Bucket, ...]]:
    """Before buckets are joined, store the floor that readers see now. Otherwise a bucket below it, joined with one
    above, would stay as long as that one, and the floor would fall (R3)."""
    if len(head.time_index) + more <= TIME_INDEX_MAX:
        return head.log_start_offset, head.time_index
    floor = floor_at(head, now_ms)
    return floor, time_index.trim(head.time_index, floor, head.next_offset, head.rows)
