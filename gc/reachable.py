"""What may be deleted, decided from what was read. Pure (P16-P18)."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from lithify.manifest.homes import HERE, Where, reachable, where
from lithify.manifest.jobs import CompactorState, Job
from lithify.manifest.keys import PartitionKeys, RunListId, SegmentId
from lithify.manifest.model import (
    PRODUCERS_MAX,
    TRANSACTIONS_MAX,
    Boundary,
    Manifest,
    Retired,
    RetiredList,
    RunList,
    SegmentRef,
    Upload,
)
from lithify.manifest.pins import by_manifest, let_go_text, pin_text, pinning
from lithify.manifest.uploads import upload_of
from lithify.manifest.words import span_text

__all__ = [
    "BOUNDARY_STEP_MIN",
    "Cause",
    "Garbage",
    "Reach",
    "collectable",
    "collectable_lists",
    "dead_numbers",
    "list_garbage",
    "live_in",
    "named_by",
    "next_boundary",
    "orphan",
    "orphan_list",
    "pinned_manifests",
    "protecting_job",
    "segment_garbage",
    "waits",
    "waits_for",
    "wants_floor",
]

BOUNDARY_STEP_MIN = 256  # numbers that one boundary file must free, unless retired segments wait (docs/rfcs/0005)


Cause = Literal["replaced", "unpinned", "number", "orphan", "unannounced", ""]
"""Why an object is garbage, in a word: a segment or run list that a compaction or a drop replaced; one that only a
deleted checkpoint kept; a dead numbered file; what was uploaded and nothing names; all of a partition that no topic
names."""


class Garbage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One object, and why it is deleted (or would be, in a dry run)."""

    key: str
    bytes: int  # 0: not counted. Only a sweep, which lists them, knows the sizes of numbered files
    reason: str
    home: str = HERE
    cause: Cause = ""  # "": it stays

    @property
    def where(self) -> Where:
        return Where(self.home, self.key)


def segment_garbage(keys: PartitionKeys, ref: SegmentRef | Retired, reason: str, cause: Cause = "") -> Garbage:
    """The object of a segment."""
    home, key = where(keys, ref)
    return Garbage(key, ref.bytes, reason, home, cause)


class Reach(msgspec.Struct, frozen=True):
    """How far the boundary may move: the heads, less one, in a boundary file that is a grace period old (P17)."""

    manifest: int
    compactor: int


def pinned_manifests(manifest: Manifest) -> frozenset[int]:
    """The manifests that checkpoints pin. An expired checkpoint pins until a commit removes it (P20)."""
    return frozenset(checkpoint.manifest for checkpoint in manifest.checkpoints)


def collectable(manifest: Manifest, boundary: int, homes: Collection[str]) -> list[Retired]:
    """Retired segments whose bytes may be deleted: no manifest above `boundary`, and no pinned one, names them (P16).

    Segments in none of `homes` are left to a process that can reach them: if their entries were forgotten here, their
    bytes would stay there for ever.
    """
    pins = by_manifest(manifest.checkpoints)
    old = [it for it in manifest.retired if it.retired_at <= boundary and reachable(it, homes)]
    return [it for it in old if pinning(it, pins) is None]


def collectable_lists(manifest: Manifest, boundary: int) -> list[RetiredList]:
    """Retired run lists that may be deleted. One that a manifest needs which is no longer pinned stays until that was
    looked at: without the list nobody would know what the manifest named (P23)."""
    pins = by_manifest(manifest.checkpoints)
    old = [it for it in manifest.retired_lists if it.retired_at <= boundary]
    return [it for it in old if pinning(it, pins) is None and _not_looked_at(it, manifest) is None]


def _not_looked_at(retired: RetiredList, manifest: Manifest) -> int | None:
    """A manifest that names the list, is no longer pinned, and was not yet looked at."""
    return next((number for number in manifest.unpinned if retired.added_at <= number < retired.retired_at), None)


def list_garbage(keys: PartitionKeys, ref: RunList | RetiredList, reason: str, cause: Cause = "") -> Garbage:
    """The object of a run list."""
    return Garbage(keys.run_list(ref.id), ref.bytes, reason, cause=cause)


def waits_for(retired: Retired | RetiredList, manifest: Manifest, grace_ms: int, homes: Collection[str]) -> str:
    """What the bytes of a retired segment or run list wait for, if it is not collectable yet."""
    pin = pinning(retired, by_manifest(manifest.checkpoints))
    needed = _not_looked_at(retired, manifest) if isinstance(retired, RetiredList) else None
    if not reachable(retired, homes):
        why = f"it is in another home ({retired.home!r}), which this lithify cannot reach: upgrade lithify"
    elif pin is None and needed is not None:
        why = f"manifest {needed}, which was pinned, names it: a collection must read that first"
    elif pin is None:
        why = f"it stays readable for the grace period ({span_text(grace_ms)})"
    else:
        why = f"{pin_text(pin)} pins manifest {pin.manifest}, which names it: {let_go_text(manifest.topic, pin)}"
    return f"replaced by manifest {retired.retired_at}; {why}"


def named_by(manifest: Manifest) -> frozenset[str]:
    """The segments and run lists that a manifest names, live or retired."""
    return live_in(manifest).union(r.id for r in manifest.replaced)


def live_in(manifest: Manifest) -> frozenset[str]:
    """The segments and run lists of a manifest."""
    return frozenset(each.id for each in (*manifest.segments(), *manifest.lists))


def next_boundary(
    manifest: Manifest, current: Boundary | None, reach: Reach, homes: Collection[str], *, wanted: bool = False
) -> Reach | None:
    """How far to advance the boundary now. None: it would free too little to be worth another file, which stays.
    `wanted`: any advance is worth it."""
    at = Reach(current.manifest, current.compactor) if current else Reach(0, 0)
    to = Reach(max(at.manifest, reach.manifest), max(at.compactor, reach.compactor))
    numbers = to.manifest - at.manifest + to.compactor - at.compactor
    # A segment that only a checkpoint keeps leaves the list too; otherwise the list would grow until then.
    frees = any(at.manifest < it.retired_at <= to.manifest and reachable(it, homes) for it in manifest.replaced)
    return to if numbers >= BOUNDARY_STEP_MIN or frees or (wanted and numbers) else None


def wants_floor(manifest: Manifest) -> bool:
    """Whether a list is half full, its entries can only be forgotten below the orphan floor, and none is below it. If
    nothing else is ever collected, nothing else raises that floor."""
    lists = ((manifest.producers, PRODUCERS_MAX), (manifest.transactions, TRANSACTIONS_MAX))
    return not manifest.sealed and any(
        2 * len(entries) >= bound and all(entry.touched_at >= manifest.orphan_floor for entry in entries)
        for entries, bound in lists
    )


def waits(manifest: Manifest, current: Boundary | None, compactor_head: int, homes: Collection[str]) -> bool:
    """Whether something here waits for the boundary to pass it."""
    at = Reach(current.manifest, current.compactor) if current else Reach(0, 0)
    last = Reach(manifest.id - 1, max(compactor_head - 1, 0))
    return next_boundary(manifest, current, last, homes) is not None and last != at


def protecting_job(segment_id: str, state: CompactorState | None) -> Job | None:
    """The job whose name in `segment_id` protects the segment (P10): any job in `.compactor` except a completed one.

    The outputs of a completed job are in the manifest, which is read after the jobs. Any other segment with its name
    was left by an interrupted attempt, and nothing can name it any more.
    """
    if state is None:
        return None
    jobs = (*state.jobs, *state.history)
    return next((j for j in jobs if j.status != "completed" and SegmentId.of_job(segment_id, j.id)), None)


def orphan(
    segment_id: str, floor: int, state: CompactorState | None, uploads: Sequence[Upload] = ()
) -> tuple[bool, str]:
    """Whether the sweep may delete a segment that no manifest names, with the reason. `floor`: the orphan floor after
    the sweep's own commit; `uploads`: those of the head that it read last (P18, P22)."""
    upload = upload_of(segment_id, uploads)
    if upload is not None:
        return False, f"upload {upload.name} protects it, until it expires and a collection removes it"
    job = protecting_job(segment_id, state)
    if job is not None:
        return False, f"job {job.id} ({job.status}) protects it"
    age = SegmentId.manifest_id(segment_id)
    if age >= floor:
        return (
            False,
            f"its upload began at manifest {age}, at or above the orphan floor {floor}, so it may still be committed",
        )
    return True, f"no manifest names it, and it was begun at manifest {age}, below the orphan floor {floor}"


def orphan_list(list_id: str, floor: int) -> tuple[bool, str]:
    """Whether the sweep may delete a run list that no manifest names, with the reason. A commit that begins now would
    not name it either, if it is below `floor` (P23)."""
    age = RunListId.number(list_id)
    if age >= floor:
        return False, f"it was written for manifest {age}, at or above the orphan floor {floor}, so it may be named yet"
    return True, f"no manifest names it, and it was written for manifest {age}, below the orphan floor {floor}"


def dead_numbers(
    keys: PartitionKeys, found: Iterable[tuple[str, int]], boundary: Boundary | None, pins: frozenset[int]
) -> list[Garbage]:
    """The numbered files in `found` (key, bytes) that are at or below the boundary and not pinned."""
    dead = Reach(boundary.manifest, boundary.compactor) if boundary else Reach(0, 0)
    garbage: list[Garbage] = []
    for key, size in found:
        manifest, compactor = keys.manifest.number(key), keys.compactor.number(key)
        if manifest is not None and manifest <= dead.manifest and manifest not in pins:
            reason = f"manifest {manifest} is dead: the boundary is {dead.manifest}"
            garbage.append(Garbage(key, size, reason, cause="number"))
        if compactor is not None and compactor <= dead.compactor:
            reason = f"compactor file {compactor} is dead: the boundary is {dead.compactor}"
            garbage.append(Garbage(key, size, reason, cause="number"))
    return garbage
