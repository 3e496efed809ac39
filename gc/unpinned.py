"""Segments that only manifests below the boundary name: what checkpoints keep, and kept (P16, P20). Coroutines.

A replaced segment that only checkpoints keep leaves the retired list after the grace period (lithify.manifest.pins).
Then only the pinned manifests name it; once these are no longer pinned, they are read here.
"""

from bisect import bisect

import msgspec

from lithify.gc.reachable import Garbage, list_garbage, live_in, named_by, pinned_manifests, segment_garbage
from lithify.manifest.homes import Where, refuse_unreachable
from lithify.manifest.model import Manifest, RunList, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import by_manifest, let_go_text, missing_text, pin_missing_text, pin_text
from lithify.store.errors import Corrupt, InvalidRequest

__all__ = ["LetGo", "kept_by_pins", "let_go"]


class LetGo(msgspec.Struct, frozen=True):
    """What manifests that are no longer pinned leave behind."""

    segments: tuple[Garbage, ...] = ()  # nothing else names them
    # By manifest: those of `segments` that it names.
    alone: dict[int, frozenset[Where]] = {}
    files: dict[int, Garbage] = {}  # the files of these manifests, as far as they exist
    lists: dict[int, tuple[Garbage, ...]] = {}  # by manifest: its run lists that no head and no pinned manifest names
    kept: tuple[Garbage, ...] = ()  # of manifests that cannot be read, with the reason

    def looked_at(self, refused: frozenset[Where]) -> frozenset[int]:
        """The manifests of which only the file itself is left to delete, if the store did not delete `refused`."""
        return frozenset(number for number, named in self.alone.items() if not named & refused)

    def lists_of(self, numbers: frozenset[int]) -> list[Garbage]:
        """The run lists that are needed no more once the manifests `numbers` were looked at.

        SUBTLE! Not one that another of these manifests names, and none if one cannot be read: what only that names
        would never be known. Nor before the commit that says that they were looked at. What a process leaves that dies
        after it, a sweep finds, as it does their own files. Test: tests/protocol/test_p23_lists_of_pins.py
        """
        if self.kept:
            return []
        needed = {garbage.key for number, some in self.lists.items() if number not in numbers for garbage in some}
        free = {garbage.key: garbage for number in sorted(numbers) for garbage in self.lists.get(number, ())}
        return [garbage for key, garbage in free.items() if key not in needed]


async def let_go(files: PartitionFiles, head: Manifest) -> LetGo:
    """What only the unpinned manifests of `head` name."""
    segments: dict[Where, Garbage] = {}
    alone: dict[int, frozenset[Where]] = {}
    there: dict[int, Garbage] = {}
    lists: dict[int, tuple[Garbage, ...]] = {}
    kept: list[Garbage] = []
    look = _Look(files, head)
    for number in head.unpinned:
        key = files.keys.manifest.key(number)
        try:
            left, listed = await look.only_in(number)
            refuse_unreachable(files.keys, left or (), files.homes)
        except _ListUnread as error:
            swept = (
                "'lithify gc run --sweep' removes what it named, unless a checkpoint needs that list: then restore it"
            )
            kept.append(Garbage(key, 0, f"{error}; {swept}"))
            continue
        except (Corrupt, InvalidRequest) as error:
            kept.append(Garbage(key, 0, f"what only manifest {number} names is kept until this is solved: {error}"))
            continue
        why = f"only manifest {number} named it, and no checkpoint pins that any more"
        found = [segment_garbage(files.keys, ref, why, "unpinned") for ref in left or ()]
        segments |= {g.where: g for g in found}
        alone[number] = frozenset(g.where for g in found)
        if left is not None:
            reason = f"manifest {number} is dead, and no checkpoint pins it any more"
            there[number] = Garbage(key, 0, reason, cause="unpinned")
            lists[number] = tuple(list_garbage(files.keys, each, why, "unpinned") for each in listed)
    return LetGo(tuple(segments.values()), alone, there, lists, tuple(kept))


class _ListUnread(Exception):
    """A manifest that is no longer pinned cannot be read, because of one of its run lists. If nothing else names that
    list, nobody needs to restore it: a sweep takes it."""


class _Look:
    """Looks at the manifests that a head lists as no longer pinned, in their order."""

    def __init__(self, files: PartitionFiles, head: Manifest) -> None:
        self._files = files
        self._head = head
        self._known = named_by(head)
        self._pins = sorted(pinned_manifests(head))
        self._above: tuple[int, frozenset[str]] = (0, frozenset())  # the pinned manifest read last

    async def only_in(self, number: int) -> tuple[list[SegmentRef] | None, list[RunList]]:
        """The segments and run lists that only manifest `number` names, or other manifests that are no longer pinned.
        None: a sweep took it, with everything it named. If that cannot be determined, raises _ListUnread, Corrupt or
        InvalidRequest.

        SUBTLE! Skip what the head still lists as retired: the normal pass deletes it once its grace period is over. A
        segment that is neither live nor retired was handed over, so it was retired at or below a boundary. It was live
        without a gap since its `added_at`, so of the pinned manifests only the nearest one below and the nearest one
        above can still name it. Test: tests/protocol/test_p16_pins.py
        """
        left = await _unpinned(self._files, number)
        if left is None:
            return None, []
        at = bisect(self._pins, number)
        below = self._pins[at - 1] if at else 0
        others = self._known | (await self._named_in(self._pins[at]) if at < len(self._pins) else frozenset())
        return (
            [ref for ref in left.segments() if ref.id not in others and ref.added_at > below],
            [each for each in left.lists if each.id not in others and each.added_at > below],
        )

    async def _named_in(self, pinned: int) -> frozenset[str]:
        if self._above[0] != pinned:
            there = await self._files.pinned(pinned)
            if there is None or there.value is None:  # its checkpoint may be gone since; the next pass will see
                key, lacks = self._files.keys.manifest.key(pinned), "" if there is None else there.lacks
                raise Corrupt(missing_text(self._head, pinned, key, lacks), lacks or key)
            self._above = pinned, live_in(there.value)
        return self._above[1]


async def _unpinned(files: PartitionFiles, number: int) -> Manifest | None:
    """Raises _ListUnread if it is there, and a run list that it names is not. (A sweep that deletes both may have
    stopped between. Until the next one takes the rest, nobody knows what else the manifest named.)"""
    try:
        version = await files.pinned(number)
    except Corrupt as error:
        if files.keys.run_list_id(error.key) is None:
            raise
        raise _ListUnread(f"manifest {number}'s run list is damaged") from error
    if version is not None and version.lacks:
        raise _ListUnread(f"manifest {number}'s run list is missing")
    return None if version is None else version.value


async def kept_by_pins(files: PartitionFiles, head: Manifest) -> list[Garbage]:
    """Segments and run lists that only checkpoints keep, each with the first of them, for people. A pinned manifest
    that cannot be read is listed with the reason."""
    kept: dict[str, Garbage] = {}
    known = named_by(head)
    for pin in by_manifest(head.checkpoints):
        key = files.keys.manifest.key(pin.manifest)
        try:
            version = await files.pinned(pin.manifest)
        except (Corrupt, InvalidRequest) as error:
            kept[str(pin.manifest)] = Garbage(key, 0, str(error))
            continue
        pinned = None if version is None else version.value
        if version is not None and version.lacks:
            kept[str(pin.manifest)] = Garbage(key, 0, pin_missing_text(head.topic, pin, key, version.lacks))
        told = let_go_text(head.topic, pin)
        why = f"kept only by {pin_text(pin)}, which pins manifest {pin.manifest}: {told}"
        for ref in () if pinned is None else pinned.segments():
            if ref.id not in known and ref.id not in kept:
                kept[ref.id] = segment_garbage(files.keys, ref, why)
        for each in () if pinned is None else pinned.lists:
            if each.id not in known and each.id not in kept:
                kept[each.id] = list_garbage(files.keys, each, why)
    return list(kept.values())
