"""Segments that only manifests below the boundary name: what checkpoints keep, and kept (P16, P20). Coroutines.

A replaced segment that only checkpoints keep leaves the retired list after the grace period (lithify.manifest.pins).
Then only the pinned manifests name it; once these are no longer pinned, they are read here.
"""

from bisect import bisect

import msgspec

from lithify.gc.reachable import Garbage, named_by, pinned_manifests, segment_garbage
from lithify.manifest.homes import Where, refuse_unreachable
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import by_manifest, let_go_text, missing_text, pin_text
from lithify.store.errors import Corrupt, InvalidRequest

__all__ = ["LetGo", "kept_by_pins", "let_go"]


class LetGo(msgspec.Struct, frozen=True):
    """What manifests that are no longer pinned leave behind."""

    segments: tuple[Garbage, ...] = ()  # nothing else names them
    # By manifest: those of `segments` that it names.
    alone: dict[int, frozenset[Where]] = {}
    files: dict[int, Garbage] = {}  # the files of these manifests, as far as they exist
    kept: tuple[Garbage, ...] = ()  # of manifests that cannot be read, with the reason

    def looked_at(self, refused: frozenset[Where]) -> frozenset[int]:
        """The manifests of which only the file itself is left to delete, if the store did not delete `refused`."""
        return frozenset(number for number, named in self.alone.items() if not named & refused)


async def let_go(files: PartitionFiles, head: Manifest) -> LetGo:
    """What only the unpinned manifests of `head` name."""
    segments: dict[Where, Garbage] = {}
    alone: dict[int, frozenset[Where]] = {}
    there: dict[int, Garbage] = {}
    kept: list[Garbage] = []
    look = _Look(files, head)
    for number in head.unpinned:
        key = files.keys.manifest.key(number)
        try:
            left = await look.only_in(number)
            refuse_unreachable(files.keys, left or (), files.homes)
        except (Corrupt, InvalidRequest) as error:
            kept.append(
                Garbage(key, 0, f"segments that only manifest {number} names are kept until this is solved: {error}")
            )
            continue
        why = f"only manifest {number} named it, and no checkpoint pins that any more"
        found = [segment_garbage(files.keys, ref, why, "unpinned") for ref in left or ()]
        segments |= {g.where: g for g in found}
        alone[number] = frozenset(g.where for g in found)
        if left is not None:
            reason = f"manifest {number} is dead, and no checkpoint pins it any more"
            there[number] = Garbage(key, 0, reason, cause="unpinned")
    return LetGo(tuple(segments.values()), alone, there, tuple(kept))


class _Look:
    """Looks at the manifests that a head lists as no longer pinned, in their order."""

    def __init__(self, files: PartitionFiles, head: Manifest) -> None:
        self._files = files
        self._head = head
        self._known = named_by(head)
        self._pins = sorted(pinned_manifests(head))
        self._above: tuple[int, frozenset[str]] = (0, frozenset())  # the pinned manifest read last

    async def only_in(self, number: int) -> list[SegmentRef] | None:
        """The segments that only manifest `number` names, or other manifests that are no longer pinned. None: a sweep
        took it, with everything it named. Raises Corrupt and InvalidRequest if that cannot be determined.

        SUBTLE! Skip what the head still lists as retired: the normal pass deletes it once its grace period is over. A
        segment that is neither live nor retired was handed over, so it was retired at or below a boundary. It was live
        without a gap since its `added_at`, so of the pinned manifests only the nearest one below and the nearest one
        above can still name it. Test: tests/protocol/test_p16_pins.py
        """
        left = await _segments(self._files, number)
        if left is None:
            return None
        at = bisect(self._pins, number)
        below = self._pins[at - 1] if at else 0
        others = self._known | (await self._named_in(self._pins[at]) if at < len(self._pins) else frozenset())
        return [ref for ref in left if ref.id not in others and ref.added_at > below]

    async def _named_in(self, pinned: int) -> frozenset[str]:
        if self._above[0] != pinned:
            segments = await _segments(self._files, pinned)
            if segments is None:  # its checkpoint may be gone since the head was read; the next pass will see
                key = self._files.keys.manifest.key(pinned)
                raise Corrupt(missing_text(self._head, pinned, key), key)
            self._above = pinned, frozenset(segment.id for segment in segments)
        return self._above[1]


async def _segments(files: PartitionFiles, number: int) -> tuple[SegmentRef, ...] | None:
    version = await files.manifest.read(number)
    return None if version is None or version.value is None else version.value.segments()


async def kept_by_pins(files: PartitionFiles, head: Manifest) -> list[Garbage]:
    """Segments that only checkpoints keep, each with the first of them, for people. A pinned manifest that cannot be
    read is listed with the reason."""
    kept: dict[str, Garbage] = {}
    known = named_by(head)
    for pin in by_manifest(head.checkpoints):
        try:
            segments = await _segments(files, pin.manifest)
        except (Corrupt, InvalidRequest) as error:
            kept[str(pin.manifest)] = Garbage(files.keys.manifest.key(pin.manifest), 0, str(error))
            continue
        told = let_go_text(head.topic, pin)
        why = f"kept only by {pin_text(pin)}, which pins manifest {pin.manifest}: {told}"
        for ref in segments or ():
            if ref.id not in known and ref.id not in kept:
                kept[ref.id] = segment_garbage(files.keys, ref, why)
    return list(kept.values())
