"""Checkpoints and replaced segments: the edits that pin, release, and forget what was collected. Pure (P16, P20;
docs/rfcs/0005, 0016)."""

import shlex
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from lithify.manifest import time_index
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.homes import reachable
from lithify.manifest.model import (
    PINS_MAX,
    SCAN_TTL_MS_MAX,
    UNPINNED_MAX,
    Checkpoint,
    Manifest,
    PinOwner,
    Retired,
    RetiredList,
)
from lithify.manifest.refusals import not_created, refused_for_good
from lithify.manifest.retention import floor_at
from lithify.manifest.uploads import still_stand
from lithify.manifest.words import span_text
from lithify.store.errors import AlreadyExists, InvalidRequest, LithifyError, NotFound, Unavailable

__all__ = [
    "Collect",
    "CreateCheckpoint",
    "DeleteCheckpoint",
    "RefreshCheckpoint",
    "by_manifest",
    "expired",
    "handed_over",
    "let_go_text",
    "lists_waiting_text",
    "missing_text",
    "pin_missing_text",
    "pin_text",
    "pinning",
    "unpinned",
    "waiting_text",
]


def expired(checkpoint: Checkpoint, now_ms: int) -> bool:
    """Whether it may no longer be relied upon. It pins until a commit removes it (P20)."""
    return checkpoint.expires_at_ms is not None and checkpoint.expires_at_ms <= now_ms


def pin_text(pin: Checkpoint) -> str:
    """The owner and name of a checkpoint, for people."""
    return f"{'checkpoint' if pin.owner == 'user' else pin.owner} {shlex.quote(pin.name)}"


def let_go_text(topic: str, pin: Checkpoint) -> str:
    """How to end a pin, for people."""
    match pin.owner:
        case "user":
            return f"`lithify checkpoint delete {topic} {shlex.quote(pin.name)}` releases it"
        case "scan":
            return f"it is released when the scan ends, or {span_text(SCAN_TTL_MS_MAX)} after the scan was interrupted"
        case "view":
            return "it is released when the view is dropped, or after a few more publications"


def missing_text(head: Manifest, number: int, key: str, lacks: str = "") -> str:
    """That pinned manifest `number` is missing, or a run list of it, and what to do about it, for people. `key`: of the
    manifest; `lacks`: of the list."""
    pin = next(pin for pin in head.checkpoints if pin.manifest == number)
    return pin_missing_text(head.topic, pin, key, lacks)


def pin_missing_text(topic: str, pin: Checkpoint, key: str, lacks: str = "") -> str:
    """The same of what `pin` pins."""
    what = f"{lacks} is missing, a run list of {key}, which {pin_text(pin)} pins"
    if not lacks:
        what = f"{key} is pinned by {pin_text(pin)}, but missing"
    return f"{what}: restore the object; if you cannot, {let_go_text(topic, pin)}"


def pinning(retired: Retired | RetiredList, pins: Sequence[Checkpoint]) -> Checkpoint | None:
    """The first checkpoint of a manifest that names the segment or list. Requires: `pins` are sorted by manifest."""
    first = bisect_left(pins, retired.added_at, key=lambda pin: pin.manifest)
    return pins[first] if first < len(pins) and pins[first].manifest < retired.retired_at else None


def by_manifest(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    return sorted(checkpoints, key=lambda pin: pin.manifest)


def handed_over(
    retired: Sequence[Retired | RetiredList], checkpoints: Sequence[Checkpoint], boundary: int, homes: Collection[str]
) -> frozenset[str]:
    """The segments and run lists that only checkpoints keep. Their entries may leave the list, since the pinned
    manifests name them; they stay as long as these are pinned. Segments in none of `homes` are left to a process that
    can reach them."""
    pins = by_manifest(checkpoints)
    if not pins:
        return frozenset()
    return frozenset(
        r.id for r in retired if r.retired_at <= boundary and reachable(r, homes) and pinning(r, pins) is not None
    )


def unpinned(head: Manifest, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
    """The manifests that lose their last pin when the list becomes `checkpoints`, if the retired list may already have
    forgotten segments because of them.

    Forgotten segments were retired below the orphan floor, and the manifests that named them are below it too; so a pin
    above the floor can come and go without a note. At the limit the oldest are left to the sweep.
    """
    kept = {pin.manifest for pin in checkpoints}
    gone = sorted(pin.manifest for pin in head.checkpoints if pin.manifest not in kept)
    return (*head.unpinned, *(number for number in gone if number < head.orphan_floor))[-UNPINNED_MAX:]


def waiting_text(head: Manifest) -> str:
    """What a full retired list waits for, and what to do about it."""
    return (
        f"{len(head.retired)} replaced segments wait for collection: run 'lithify gc run'. Each leaves the list one "
        "grace period after it was replaced, even if a checkpoint still keeps it"
    )


def lists_waiting_text(head: Manifest) -> str:
    """The same for run lists."""
    return (
        f"{len(head.retired_lists)} replaced run lists wait for collection: run 'lithify gc run'. Each is forgotten "
        "one grace period after it was replaced, even if a checkpoint still keeps it"
    )


@dataclass(frozen=True, slots=True)
class CreateCheckpoint:
    """Pin the manifest that this very commit creates (P20).

    SUBTLE! Not the head that it is applied to. 1. We read head 7. 2. A collection releases what only head 7 kept. 3. We
    pin 7, which can no longer be read whole. Test: tests/protocol/test_p20_checkpoints.py
    """

    id: str
    name: str
    ttl_ms: int | None
    replaces: Checkpoint | None = None  # an expired one of this name; if it was refreshed since, it stays
    owner: PinOwner = "user"

    repeatable = True  # by the checkpoint id
    frees = False

    def __post_init__(self) -> None:
        """Raises InvalidRequest if a scan would pin for too long."""
        error = _lasts_too_long(self.owner, self.ttl_ms)
        if error is not None:
            raise error

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, Checkpoint] | Already[Checkpoint] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return refused_for_good(head)
        for known in head.checkpoints:
            if known.id == self.id:
                return Already(known)
            if (known.owner, known.name) == (self.owner, self.name) and known != self.replaces:
                return Refused(AlreadyExists(f"{head.topic}/{head.partition} has a checkpoint {self.name!r} already"))
        others = tuple(c for c in head.checkpoints if c != self.replaces)
        going = _gives_way(self.owner, others, now_ms)
        kept = tuple(c for c in others if c.id not in going)
        if sum(c.owner == self.owner for c in kept) >= PINS_MAX[self.owner]:
            return Refused(_too_many(head, self.owner, kept, now_ms))
        mine = Checkpoint(
            id=self.id,
            owner=self.owner,
            name=self.name,
            manifest=number,
            created_at_ms=now_ms,
            expires_at_ms=None if self.ttl_ms is None else now_ms + self.ttl_ms,
        )
        floor = floor_at(head, now_ms)  # stored in the pinned manifest, which keeps it (R3)
        value = replace(
            head,
            checkpoints=(*kept, mine),
            unpinned=unpinned(head, kept),
            log_start_offset=floor,
            time_index=time_index.trim(head.time_index, floor, head.next_offset, head.rows),
        )
        return Next(value, mine)


def _gives_way(owner: PinOwner, pins: Sequence[Checkpoint], now_ms: int) -> frozenset[str]:
    """The ids of those of `pins` that are removed because `owner` adds one. An owner makes room only for itself."""
    mine = by_manifest([pin for pin in pins if pin.owner == owner])
    excess = len(mine) + 1 - PINS_MAX[owner]
    if excess <= 0 or owner == "user":
        return frozenset()
    # SUBTLE! Judge by the clock of this very commit: a scan that was refreshed meanwhile is still reading. Test:
    # tests/protocol/test_p20_owners.py
    going = mine[:excess] if owner == "view" else [pin for pin in mine if expired(pin, now_ms)]
    return frozenset(pin.id for pin in going)


def _too_many(head: Manifest, owner: PinOwner, pins: Sequence[Checkpoint], now_ms: int) -> LithifyError:
    place, most = f"{head.topic}/{head.partition}", PINS_MAX[owner]
    if owner != "user":
        first_ms = min(pin.expires_at_ms or now_ms for pin in pins if pin.owner == owner) - now_ms
        return Unavailable(
            f"{place} has {most} pins of {owner}s, its limit. A pin stays until it is released, or expires after its "
            f"last renewal; the first expires in {span_text(first_ms)}. Retry then, or read without a pin"
        )
    oldest = by_manifest([pin for pin in pins if pin.owner == owner])[0]
    told = let_go_text(head.topic, oldest)
    return Unavailable(f"{place} has {most} checkpoints, its limit. Delete one first; for the oldest, {told}")


def _lasts_too_long(owner: PinOwner, ttl_ms: int | None) -> LithifyError | None:
    """A scan whose process was killed must not pin for ever, since nobody else knows about it."""
    if owner != "scan" or (ttl_ms is not None and ttl_ms <= SCAN_TTL_MS_MAX):
        return None
    return InvalidRequest(
        f"a scan pins for at most {span_text(SCAN_TTL_MS_MAX)}, and refreshes its pin meanwhile: give a ttl of at most "
        "that"
    )


@dataclass(frozen=True, slots=True)
class RefreshCheckpoint:
    """Give a checkpoint a new expiry. Refused if gone: found by id, since another may have its name by now (P20)."""

    id: str
    ttl_ms: int | None

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, Checkpoint] | Refused:
        mine = None if head is None else next((c for c in head.checkpoints if c.id == self.id), None)
        if head is None or mine is None or expired(mine, now_ms):
            return Refused(NotFound(f"checkpoint {self.id} was deleted or has expired; create a new one"))
        error = _lasts_too_long(mine.owner, self.ttl_ms)
        if error is not None:
            return Refused(error)
        fresh = replace(mine, expires_at_ms=None if self.ttl_ms is None else now_ms + self.ttl_ms)
        return Next(replace(head, checkpoints=tuple(fresh if c is mine else c for c in head.checkpoints)), fresh)


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint:
    id: str

    repeatable = True
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        if head is None or all(c.id != self.id for c in head.checkpoints):
            return Already(None)
        kept = tuple(c for c in head.checkpoints if c.id != self.id)
        return Next(replace(head, checkpoints=kept, unpinned=unpinned(head, kept)), None)


@dataclass(frozen=True, slots=True)
class Collect:
    """Forget retired segments and run lists whose bytes are gone, or that only checkpoints keep, expired checkpoints
    and expired uploads; raise the orphan floor (P16, P22).

    Requires: the bytes of `collected` were deleted before, under a boundary of at least `boundary`; so were those that
    only the manifests `looked_at` named.
    """

    boundary: int
    collected: frozenset[str]
    homes: Collection[str] = field(kw_only=True)  # that the collector can reach
    expired_checkpoints: frozenset[str] = frozenset()
    looked_at: frozenset[int] = frozenset()  # of the manifests that are no longer pinned
    always: bool = False  # the orphan sweep commits even if this changes nothing (P18)

    repeatable = True  # it only takes away and raises
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        checkpoints = tuple(
            c
            for c in head.checkpoints
            # If it was refreshed since it was found expired, it stays.
            if c.id not in self.expired_checkpoints or not expired(c, now_ms)
        )
        # SUBTLE! By the checkpoints of this very head. 1. The collector sees a checkpoint. 2. It is deleted. 3. If its
        # segments were handed over now, nothing would name them. Test: tests/protocol/test_p16_pins.py
        leaving = self.collected | handed_over(head.replaced, checkpoints, self.boundary, self.homes)
        value = replace(
            head,
            retired=tuple(r for r in head.retired if r.id not in leaving),
            retired_lists=tuple(r for r in head.retired_lists if r.id not in leaving),
            checkpoints=checkpoints,
            unpinned=tuple(n for n in unpinned(head, checkpoints) if n not in self.looked_at),
            orphan_floor=max(head.orphan_floor, self.boundary),
            uploads=still_stand(head.uploads, now_ms),
        )
        same = ("retired", "retired_lists", "checkpoints", "unpinned", "uploads")
        if not self.always and all(getattr(value, field) == getattr(head, field) for field in same):
            return Already(None)
        return Next(value, None)
