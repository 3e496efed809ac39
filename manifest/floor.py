"""The edits that move the retention floor or its bounds, and that retire the segments below it (R3). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.claims import fenced
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import RETIRED_MAX, Manifest, Retention, SegmentRef, SortedRun
from lithify.manifest.pins import waiting_text
from lithify.manifest.refusals import not_created, refused_for_good, topic_gone
from lithify.manifest.retention import floor_at
from lithify.manifest.retired import retire
from lithify.store.errors import OffsetOutOfRange, Unavailable

__all__ = ["DropSegments", "RaiseFloor", "SetBounds", "droppable"]


def droppable(manifest: Manifest, floor: int, held: frozenset[str]) -> tuple[SegmentRef, ...]:
    """The live segments wholly below `floor`, except those that active jobs hold (`held`): these go with their job's
    commit, otherwise steady retention would starve every long job (R3)."""
    return tuple(s for s in manifest.segments() if s.max_offset < floor and s.id not in held)


@dataclass(frozen=True, slots=True)
class RaiseFloor:
    """Delete records by hand: the log starts at `before_offset` or later (KIP-107's deleteRecords). Answers with the
    log start offset. DropSegments frees the bytes later."""

    before_offset: int

    repeatable = True  # it only raises
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, int] | Already[int] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return refused_for_good(head)
        by_hand = self.before_offset
        if by_hand > head.next_offset:
            text = f"{head.topic}/{head.partition}: the log ends at offset {head.next_offset}"
            return Refused(
                OffsetOutOfRange(
                    f"{text}, so records cannot be deleted before {by_hand}; give at most {head.next_offset}"
                )
            )
        floor = max(floor_at(head, now_ms), by_hand)
        if floor == head.log_start_offset and by_hand <= head.deleted_to:
            return Already(floor)
        value = replace(
            head,
            log_start_offset=floor,
            deleted_to=max(head.deleted_to, by_hand),
            time_index=time_index.trim(head.time_index, floor, head.next_offset, head.rows),
        )
        return Next(value, floor)


@dataclass(frozen=True, slots=True)
class SetBounds:
    """The topic was altered: from this commit on `retention` holds, as version `config_at` of the configuration says; a
    later version is not overwritten. The floor under the old bounds is stored, so that nothing readers no longer saw
    comes back under wider bounds (R3)."""

    retention: Retention
    config_at: int
    # The old bounds, for a partition made by an earlier version of lithify: its manifest has none.
    unset: Retention

    repeatable = True  # by the version of the configuration
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return Refused(topic_gone(head))
        if self.config_at <= head.config_at:
            return Already(None)
        head = replace(head, retention=head.retention or self.unset)
        floor = floor_at(head, now_ms)
        index = time_index.trim(head.time_index, floor, head.next_offset, head.rows)
        value = replace(head, log_start_offset=floor, time_index=index)
        return Next(replace(value, retention=self.retention, config_at=self.config_at), None)


@dataclass(frozen=True, slots=True)
class DropSegments:
    """Retire the segments wholly below the floor, and store the floor. Only the owner of `epoch` may: it knows what its
    jobs hold (`held`). A quarantine for one of these segments ends. Answers with the retired segments."""

    epoch: int
    held: frozenset[str]

    repeatable = True  # a segment retires once
    frees = True

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, tuple[SegmentRef, ...]] | Already[tuple[SegmentRef, ...]] | Refused:
        if head is None:
            return not_created()
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        if head.sealed:
            return Refused(topic_gone(head))
        floor = floor_at(head, now_ms)
        found = droppable(head, floor, self.held)
        if not found:
            return Already(())
        room = RETIRED_MAX - len(head.retired)
        if room <= 0:
            return Refused(Unavailable(f"{head.topic}/{head.partition}: {waiting_text(head)}"))
        found = tuple(sorted(found, key=lambda s: s.min_offset)[:room])
        gone = frozenset(s.id for s in found)
        value = replace(
            head,
            log_start_offset=floor,
            l0=tuple(s for s in head.l0 if s.id not in gone),
            runs=_without(head.runs, gone),
            retired=(*head.retired, *retire(found, number)),
            # A damaged segment that is retired is not part of the log any more (R6).
            quarantine=None if head.quarantine is not None and head.quarantine.segment in gone else head.quarantine,
        )
        index = time_index.trim(head.time_index, floor, head.next_offset, value.rows)
        return Next(replace(value, time_index=index), found)


def _without(runs: Iterable[SortedRun], gone: frozenset[str]) -> tuple[SortedRun, ...]:
    left = ((run, tuple(s for s in run.segments if s.id not in gone)) for run in runs)
    return tuple(replace(run, segments=segments) for run, segments in left if segments)
