"""The edits that consumers make to a manifest: committing and forgetting named positions; and what cleaning took from
under them. Pure (docs/rfcs/0009).
"""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.appends import refused_for_good
from lithify.manifest.commit import Already, Next, Refused
from lithify.manifest.model import CONSUMERS_MAX, ConsumerPosition, Manifest
from lithify.store.errors import Fenced, LithifyError, NotFound, OffsetOutOfRange, Unavailable

__all__ = ["CommitPosition", "ForgetConsumer", "find_consumer", "forgotten", "missed", "taken_over"]


def find_consumer(head: Manifest, name: str) -> ConsumerPosition | None:
    return next((consumer for consumer in head.consumers if consumer.name == name), None)


def taken_over(where: str, known: ConsumerPosition) -> Fenced:
    return Fenced(
        f"{where} was taken over at manifest {known.committed_at}: another instance runs under this name, or its "
        "position was reset. This one stops; what it read since its last commit will be read again"
    )


def forgotten(where: str) -> NotFound:
    return NotFound(f"{where} was deleted; open it anew to begin again")


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """Consumer `name` has read everything before `offset`; answers with its entry.

    `expected` is the manifest number of the consumer's latest commit that this instance knows (0: it must have none):
    another instance's commit since then refuses this one. Offsets may go back. `rebuilt_to`: what the consumer holds
    was made anew and shows every deletion below that offset, so it does not matter which of those cleaning dropped.
    """

    name: str
    offset: int
    expected: int
    instance: str
    rebuilt_to: int = 0

    # Twice is the same as once. SUBTLE! It never answers Already, though its entry may show this very offset: a commit
    # of this instance to another offset may still be on its way to this number, and only taking the number turns it
    # away. Test: tests/manifest/test_consumers.py
    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition] | Refused:
        if head is None:
            return Refused(NotFound("the partition has no manifest; create the topic first"))
        if head.sealed:
            return refused_for_good(head)
        known = find_consumer(head, self.name)
        refused = self._refusal(head, known)
        if refused is not None:
            return Refused(refused)
        missed_to = 0 if known is None or self.offset == 0 else known.missed_to
        mine = ConsumerPosition(
            name=self.name,
            offset=self.offset,
            committed_at=number,
            committed_at_ms=now_ms,
            instance=self.instance,
            missed_to=missed_to if missed_to > self.rebuilt_to else 0,
        )
        others = (consumer for consumer in head.consumers if consumer.name != self.name)
        consumers = tuple(sorted((*others, mine), key=lambda consumer: consumer.name))
        return Next(replace(head, consumers=consumers), mine)

    def _refusal(self, head: Manifest, known: ConsumerPosition | None) -> LithifyError | None:
        where = f"{head.topic}/{head.partition}: consumer {self.name!r}"
        if self.offset > head.next_offset:
            return OffsetOutOfRange(
                f"{where}: offset {self.offset} lies beyond the log, which ends before {head.next_offset}"
            )
        # An entry of this instance is its own earlier commit, whether or not it learned of that one's outcome.
        if known is not None and known.instance != self.instance and known.committed_at != self.expected:
            return taken_over(where, known)
        if known is None and self.expected != 0:
            return forgotten(where)
        if known is None and len(head.consumers) >= CONSUMERS_MAX:
            return Unavailable(
                f"{head.topic}/{head.partition} remembers {CONSUMERS_MAX} consumers, its limit: delete one that is "
                "not used any more ('lithify consumer list' and 'delete')"
            )
        return None


@dataclass(frozen=True, slots=True)
class ForgetConsumer:
    """Its position and its alarm are gone; an instance that still runs is refused at its next commit."""

    name: str

    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is not None and head.sealed:
            return refused_for_good(head)
        if head is None or find_consumer(head, self.name) is None:
            return Already(None)
        return Next(replace(head, consumers=tuple(c for c in head.consumers if c.name != self.name)), None)


def missed(consumers: tuple[ConsumerPosition, ...], dropped_to: int) -> tuple[ConsumerPosition, ...]:
    """The consumers after a clean that dropped expired tombstones, the highest at offset `dropped_to` - 1.

    Who has not read up to there may hold a key whose deletion it will never see. So may one at 0: it may have read
    what it has not committed yet; if it begins anew instead, its first commits say so (`rebuilt_to`).
    """
    return tuple(
        replace(consumer, missed_to=max(consumer.missed_to, dropped_to)) if consumer.offset < dropped_to else consumer
        for consumer in consumers
    )
