"""The edits of named consumers: committing, taking over, resetting and forgetting positions; and which deletions they
missed because cleaning dropped them. Pure (docs/rfcs/0009).
"""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import CONSUMERS_MAX, ConsumerPosition, Manifest
from lithify.manifest.refusals import not_created, refused_for_good
from lithify.manifest.words import span_text
from lithify.store.errors import Fenced, LithifyError, NotFound, OffsetOutOfRange, Unavailable

__all__ = [
    "EXPIRES_MS",
    "CommitPosition",
    "ForgetConsumer",
    "ResetPosition",
    "TakePosition",
    "find_consumer",
    "forgotten",
    "missed",
    "taken_over",
]

EXPIRES_MS = 7 * 86_400_000  # Kafka's offsets.retention.minutes


def find_consumer(head: Manifest, name: str) -> ConsumerPosition | None:
    return next((consumer for consumer in head.consumers if consumer.name == name), None)


def taken_over(where: str, known: ConsumerPosition) -> Fenced:
    return Fenced(
        f"{where} was taken over at manifest {known.committed_at}: another instance runs under this name, or its "
        "position was reset. This one stops; what it read since its last commit will be read again"
    )


def forgotten(where: str) -> NotFound:
    return NotFound(f"{where} was deleted; open it again to start over")


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """Consumer `name` has read everything before `offset`; answers with its entry.

    `expected`: the manifest number of the consumer's latest commit that this instance knows (0: none). A commit by
    another instance since then refuses this one. Offsets may go back. `rebuilt_to`: the consumer's state was rebuilt
    and shows every deletion below that offset, so it does not matter which of those cleaning dropped.
    """

    name: str
    offset: int
    expected: int
    instance: str
    rebuilt_to: int = 0

    # Twice is the same as once. SUBTLE! It never answers Already, even if its entry shows this offset. 1. This instance
    # commits offset 9; the request is delayed on its way to number 8. 2. It goes back and commits 5, which the entry
    # shows. 3. If that were Already, the delayed request could still create 8. Taking number 8 prevents that. Test:
    # tests/manifest/test_consumers.py
    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition] | Refused:
        if head is None or head.sealed:
            return _no_log(head)
        known = find_consumer(head, self.name)
        refused = self._refusal(head, known, now_ms)
        if refused is not None:
            return Refused(refused)
        mine = _moved(known, self.name, self.offset, self.instance, self.rebuilt_to)
        return _put(head, mine, number, now_ms)

    def _refusal(self, head: Manifest, known: ConsumerPosition | None, now_ms: int) -> LithifyError | None:
        where = _where(head, self.name)
        if self.offset > head.next_offset:
            return _beyond(head, self.name, self.offset)
        # An entry by this instance is its own earlier commit, whether or not it learned of its success.
        if known is not None and known.instance != self.instance and known.committed_at != self.expected:
            return taken_over(where, known)
        if known is None and self.expected != 0:
            return forgotten(where)
        return _full(head, now_ms) if known is None else None


@dataclass(frozen=True, slots=True)
class TakePosition:
    """From now on `instance` is consumer `name`, at the position that the name has; answers with its entry.

    SUBTLE! It applies to whatever the position is by then. If it expected one position, it could never replace an
    instance that commits after each record: that one would always have committed meanwhile. Test:
    tests/log/test_taking_over.py
    `new_at`: where the name begins if it has no position. None: it had one when `instance` looked; if it was deleted
    since, it is refused with NotFound. `holder`: only if that instance has the name ("": none has); None: whichever
    instance has it.
    """

    name: str
    instance: str
    new_at: int | None
    holder: str | None = None

    repeatable = True  # another instance in between simply loses the name again. Never Already, as in CommitPosition
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition] | Refused:
        if head is None or head.sealed:
            return _no_log(head)
        known = find_consumer(head, self.name)
        if known is None:
            return self._create(head, number, now_ms)
        if self.holder is not None and known.instance not in (self.holder, self.instance):
            return Refused(taken_over(_where(head, self.name), known))
        return _put(head, _moved(known, self.name, known.offset, self.instance), number, now_ms)

    def _create(self, head: Manifest, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition] | Refused:
        if self.holder or self.new_at is None:
            return Refused(forgotten(_where(head, self.name)))
        refused = _beyond(head, self.name, self.new_at) if self.new_at > head.next_offset else _full(head, now_ms)
        if refused is not None:
            return Refused(refused)
        return _put(head, _moved(None, self.name, self.new_at, self.instance), number, now_ms)


@dataclass(frozen=True, slots=True)
class ResetPosition:
    """Consumer `name` continues at `offset` (None: the log's end), whichever instance has it; that instance is refused
    at its next commit. `anew`: from the log's start, so that deletions dropped so far do not matter to the next
    instance."""

    name: str
    offset: int | None
    instance: str
    anew: bool = False

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition] | Refused:
        if head is None or head.sealed:
            return _no_log(head)
        known = find_consumer(head, self.name)
        offset = head.next_offset if self.offset is None else self.offset
        if known is None:
            return Refused(forgotten(_where(head, self.name)))
        if offset > head.next_offset:
            return Refused(_beyond(head, self.name, offset))
        mine = _moved(known, self.name, offset, self.instance, head.next_offset if self.anew else 0)
        return _put(head, mine, number, now_ms)


def _where(head: Manifest, name: str) -> str:
    return f"{head.topic}/{head.partition}: consumer {name!r}"


def _no_log(head: Manifest | None) -> Refused:
    if head is None:
        return not_created()
    return refused_for_good(head)


def _beyond(head: Manifest, name: str, offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"{_where(head, name)}: offset {offset} is beyond the end of the log, {head.next_offset}; give at most that"
    )


def _full(head: Manifest, now_ms: int) -> Unavailable | None:
    if len(head.consumers) < CONSUMERS_MAX or _leaving(head, now_ms) is not None:
        return None
    return Unavailable(
        f"{head.topic}/{head.partition} remembers {CONSUMERS_MAX} consumers, its limit, and none has left records "
        f"unread for {span_text(EXPIRES_MS)}: delete one that is not used any more ('lithify consumer list "
        f"{head.topic}' and 'lithify consumer delete {head.topic} NAME')"
    )


def _leaving(head: Manifest, now_ms: int) -> ConsumerPosition | None:
    """The consumer that is forgotten at the limit: of those considered gone, the one that committed longest ago."""
    gone = (consumer for consumer in head.consumers if _is_gone(consumer, head, now_ms))
    return min(gone, key=lambda consumer: consumer.committed_at_ms, default=None)


def _is_gone(consumer: ConsumerPosition, head: Manifest, now_ms: int) -> bool:
    """SUBTLE! A consumer that has read everything commits nothing, however long it lives. So an old commit is not
    enough: it must also have had something to read for as long, or the log must have dropped what it would read next.
    Test: tests/manifest/test_consumers.py"""
    long_ago_ms = now_ms - EXPIRES_MS
    if consumer.committed_at_ms >= long_ago_ms:
        return False
    unread = any(b.start >= consumer.offset and b.max_timestamp_ms < long_ago_ms for b in head.time_index)
    return unread or consumer.offset < head.log_start_offset


def _moved(
    known: ConsumerPosition | None, name: str, offset: int, instance: str, rebuilt_to: int = 0
) -> ConsumerPosition:
    """The entry as `instance` changes it; `_put` adds the time."""
    missed_to = 0 if known is None or offset == 0 else known.missed_to
    return ConsumerPosition(
        name=name,
        offset=offset,
        committed_at=0,
        committed_at_ms=0,
        instance=instance,
        missed_to=missed_to if missed_to > rebuilt_to else 0,
    )


def _put(head: Manifest, moved: ConsumerPosition, number: int, now_ms: int) -> Next[Manifest, ConsumerPosition]:
    mine = replace(moved, committed_at=number, committed_at_ms=now_ms)
    others = [consumer for consumer in head.consumers if consumer.name != mine.name]
    if len(others) >= CONSUMERS_MAX and (leaving := _leaving(head, now_ms)) is not None:
        others.remove(leaving)
    consumers = tuple(sorted((*others, mine), key=lambda consumer: consumer.name))
    return Next(replace(head, consumers=consumers), mine)


@dataclass(frozen=True, slots=True)
class ForgetConsumer:
    """Delete a position and its alarm. A running instance is refused at its next commit."""

    name: str

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is not None and head.sealed:
            return refused_for_good(head)
        if head is None or find_consumer(head, self.name) is None:
            return Already(None)
        return Next(replace(head, consumers=tuple(c for c in head.consumers if c.name != self.name)), None)


def missed(consumers: tuple[ConsumerPosition, ...], dropped_to: int) -> tuple[ConsumerPosition, ...]:
    """The consumers after a clean that dropped expired tombstones, the highest at offset `dropped_to` - 1.

    A consumer that has not read up to there may hold a key whose deletion it will never see. That includes one at 0: it
    may have read something without committing. If it really begins anew, its first commits say so (`rebuilt_to`).
    """
    return tuple(
        replace(consumer, missed_to=max(consumer.missed_to, dropped_to)) if consumer.offset < dropped_to else consumer
        for consumer in consumers
    )
