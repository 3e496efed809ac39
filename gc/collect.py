"""Collect the garbage of one partition: normal passes, which list nothing, and the orphan sweep. Coroutines.

Each rule is described where it is kept: P16-P19 of docs/protocol.md, docs/rfcs/0005.
"""

from collections.abc import Iterable, Sequence

import msgspec

from lithify.gc.objects import delete, every_object, gone
from lithify.gc.reachable import (
    Garbage,
    Reach,
    collectable,
    collectable_lists,
    dead_numbers,
    list_garbage,
    live_in,
    named_by,
    next_boundary,
    orphan,
    orphan_list,
    pinned_manifests,
    segment_garbage,
    waits,
    waits_for,
    wants_floor,
)
from lithify.gc.unpinned import kept_by_pins, let_go
from lithify.manifest.ages import young
from lithify.manifest.edits import Already, Next
from lithify.manifest.homes import HERE, Where, named_homes, where
from lithify.manifest.keys import PartitionKeys, RunListId, SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import FORMAT, Boundary, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, expired, handed_over, missing_text
from lithify.manifest.relocations import ForgetHomes, may_upload
from lithify.manifest.uploads import ran_out
from lithify.manifest.version import Version
from lithify.store.errors import Corrupt, LithifyError
from lithify.store.home_names import physical
from lithify.store.port import Now, ObjectInfo, OwnHome

__all__ = ["Pass", "collect", "collect_deleted", "sweep"]

_FOR_EVER_MS = 1 << 45  # a thousand years
AGED_LOOK_BACK_MAX = 64  # boundary files read to find one that is a grace period old


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass over a partition deleted (or would have deleted), and where its boundary is."""

    deleted: tuple[Garbage, ...] = ()
    refused: tuple[Garbage, ...] = ()  # what the store refused to delete, with its reason; a later pass tries again
    # What stays, and why: in a dry run what waits, in a sweep what no manifest names.
    kept: tuple[Garbage, ...] = ()
    boundary: int = 0
    waiting: int = 0  # retired segments that wait for the boundary
    checkpoints_expired: int = 0
    finished: bool = False  # sealed, and empty: later passes have nothing to do here
    # Until a file of the partition changes, later passes have nothing to do here before this time; None: they may have.
    rests_until_ms: int | None = None

    def then(self, later: "Pass") -> "Pass":
        """Both as one; an object that both deleted (in a dry run, would delete) counts once, and what the later one
        deleted was not kept."""
        known = {garbage.key for garbage in self.deleted}
        gone_later = {garbage.where for garbage in later.deleted}
        return Pass(
            deleted=(*self.deleted, *(garbage for garbage in later.deleted if garbage.key not in known)),
            refused=(*self.refused, *later.refused),
            kept=(*(garbage for garbage in self.kept if garbage.where not in gone_later), *later.kept),
            boundary=later.boundary,
            waiting=later.waiting,
            checkpoints_expired=self.checkpoints_expired,
            finished=self.finished and later.finished,
        )


class _Advance(msgspec.Struct, frozen=True):
    """The next boundary file. Does nothing if another collector was faster (P4, P17)."""

    expects: int  # number of the boundary file that the decision was based on
    value: Boundary

    repeatable = True
    frees = True

    def apply(self, head: Boundary | None, number: int, now_ms: int) -> Next[Boundary, bool] | Already[bool]:
        if (0 if head is None else head.id) != self.expects:
            return Already(False)
        return Next(self.value, True)


async def collect(files: PartitionFiles, grace_ms: int, *, dry_run: bool = False) -> Pass:
    """One normal pass. If there is nothing to do it writes nothing; it never lists objects.

    SUBTLE! Read the boundary before the head, and take retired entries and pins from that head alone (P19). Otherwise:
    1. We read head 7. 2. A checkpoint pins manifest 8, and the boundary passes 8. 3. By that boundary and the pins of
    head 7 we would delete manifest 8. Test: tests/protocol/test_p19_collectors.py
    """
    boundary = await files.boundary.refresh()
    manifest = await files.head()
    if not dry_run and any(retired.retired_at == manifest.id for retired in manifest.replaced):
        # The boundary stays below the head, so segments retired by the head itself wait for a successor, which an idle
        # partition would never get.
        dead = boundary.value.manifest if boundary.value else 0
        await files.manifest.commit(Collect(dead, frozenset(), homes=files.homes, always=True))
        manifest = await files.head()
    full = wants_floor(manifest)
    boundary, freed = await _advance(files, boundary, manifest, grace_ms, dry_run=dry_run, wanted=full)
    dead = boundary.value.manifest if boundary.value else 0
    raises = full and dead > manifest.orphan_floor
    going, left = collectable(manifest, dead, files.homes), await let_go(files, manifest)
    garbage = [
        segment_garbage(files.keys, r, f"replaced by manifest {r.retired_at}; the boundary is {dead}", "replaced")
        for r in going
    ]
    lists = collectable_lists(manifest, dead)
    garbage += [
        list_garbage(files.keys, r, f"replaced by manifest {r.retired_at}; the boundary is {dead}", "replaced")
        for r in lists
    ]
    garbage += left.segments
    now_ms = await Now()
    over = frozenset(c.id for c in manifest.checkpoints if expired(c, now_ms))
    # Bytes first, then the commit that forgets them: a crash in between leaves entries, not orphans (P16).
    refused = [] if dry_run else await delete(garbage)
    # If the store refuses to delete one object, keep only its entry; forget the others.
    stay = frozenset(g.where for g in refused)
    forgotten = frozenset(r.id for r in going if where(files.keys, r) not in stay)
    forgotten |= frozenset(r.id for r in lists if Where(HERE, files.keys.run_list(r.id)) not in stay)
    looked_at = left.looked_at(stay)
    handed = handed_over(manifest.replaced, manifest.checkpoints, dead, files.homes)
    freed += [file for number, file in left.files.items() if number in looked_at]
    freed += left.lists_of(looked_at)
    if not dry_run:
        lapsed = any(ran_out(upload, now_ms) for upload in manifest.uploads)
        if forgotten or over or looked_at or handed or raises or lapsed:
            forget = Collect(dead, forgotten, over, looked_at, homes=files.homes, always=raises)
            await files.manifest.commit(forget)
        refused += await delete(freed)
    kept = [*left.kept, *(await _waiting(files, manifest, grace_ms, forgotten) if dry_run else ())]
    quiet = not (garbage or looked_at or freed or over or handed or full or refused)
    return Pass(
        deleted=gone([*garbage, *freed], refused),
        refused=tuple(refused),
        kept=tuple(kept),
        boundary=dead,
        waiting=sum(r.id not in handed for r in manifest.retired) - len(going),
        checkpoints_expired=len(over),
        rests_until_ms=_rests_until(files, manifest, boundary.value, now_ms) if quiet else None,
        finished=manifest.sealed
        and not (_has_waiting(manifest) or freed)
        and not waits(manifest, boundary.value, files.compactor.seen.number, files.homes),
    )


def _has_waiting(manifest: Manifest) -> bool:
    """Whether a sealed partition still has something to collect that its manifest knows of."""
    return bool(manifest.replaced or manifest.checkpoints or manifest.unpinned or manifest.homes)


def _rests_until(files: PartitionFiles, manifest: Manifest, boundary: Boundary | None, now_ms: int) -> int | None:
    if manifest.replaced or manifest.unpinned or manifest.sealed:
        return None
    if waits(manifest, boundary, files.compactor.seen.number, files.homes):
        return None
    ends_ms = [c.expires_at_ms for c in manifest.checkpoints] + [upload.expires_at_ms for upload in manifest.uploads]
    return min((ms for ms in ends_ms if ms is not None), default=now_ms + _FOR_EVER_MS)


async def _waiting(
    files: PartitionFiles, manifest: Manifest, grace_ms: int, forgotten: frozenset[str]
) -> list[Garbage]:
    """What stays for now, and what each object waits for."""
    waiting = [r for r in manifest.retired if r.id not in forgotten]
    kept = [segment_garbage(files.keys, r, waits_for(r, manifest, grace_ms, files.homes)) for r in waiting]
    lists = [r for r in manifest.retired_lists if r.id not in forgotten]
    kept += [list_garbage(files.keys, r, waits_for(r, manifest, grace_ms, files.homes)) for r in lists]
    return [*kept, *await kept_by_pins(files, manifest)]


async def collect_deleted(files: PartitionFiles, grace_ms: int, *, dry_run: bool = False) -> Pass:
    """The same for a partition of a deleted topic; also finishes an interrupted deletion (P21). Does nothing if the
    partition was never created."""
    if not dry_run:
        await files.manifest.commit(Seal())
    if not files.manifest.seen.number and (await files.manifest.refresh()).value is None:
        return Pass(finished=True)
    return await collect(files, grace_ms, dry_run=dry_run)


async def _advance(
    files: PartitionFiles,
    current: Version[Boundary],
    manifest: Manifest,
    grace_ms: int,
    *,
    dry_run: bool,
    wanted: bool = False,
) -> tuple[Version[Boundary], list[Garbage]]:
    """Move the boundary as far as the grace period allows, or note today's heads so that a later pass can.

    `wanted`: an orphan or a full list waits for it, so move it however little that frees. Answers with the boundary in
    force, and the numbered files that were just freed.
    """
    old = current.value
    compactor_head = (await files.compactor.refresh()).number
    reach, aging = await _reach(files, current, grace_ms)
    to = next_boundary(manifest, old, reach, files.homes, wanted=wanted)
    if to is None and (aging or not (wanted or waits(manifest, old, compactor_head, files.homes))):
        return current, []
    at = Reach(old.manifest, old.compactor) if old else Reach(0, 0)
    to = to or at
    value = Boundary(
        format=FORMAT,
        topic=files.keys.topic,
        topic_id=files.keys.topic_id,
        partition=files.keys.partition,
        manifest=to.manifest,
        compactor=to.compactor,
        manifest_head=manifest.id,
        compactor_head=max(compactor_head, old.compactor_head if old else 0),
    )
    freed = list(_numbers(files.keys, at, to, pinned_manifests(manifest)))
    if dry_run:
        return Version(current.number, value), freed
    committed = await files.boundary.commit(_Advance(current.number, value))
    if not committed.result:
        # Another collector moved it, and deletes what it freed; we keep to the boundary that we know.
        return current, []
    return committed.version, freed


async def _reach(files: PartitionFiles, newest: Version[Boundary], grace_ms: int) -> tuple[Reach, bool]:
    """The heads, less one, in the newest boundary file that is a grace period old; and whether a younger file with
    newer heads is still aging. Ages are by the store's clock: Last-Modified against now (P17)."""
    now_ms = await Now()
    version: Version[Boundary] | None = newest
    aging = False
    for _ in range(AGED_LOOK_BACK_MAX):
        if version is None or version.value is None:
            break
        seen_ms = version.value.committed_at_ms if version.modified_ms is None else version.modified_ms
        if now_ms - seen_ms >= grace_ms:
            found = version.value
            return Reach(found.manifest_head - 1, max(found.compactor_head - 1, 0)), aging
        aging = True
        version = await files.boundary.glance(version.number - 1) if version.number > 1 else None
    return Reach(0, 0), aging


def _numbers(keys: PartitionKeys, at: Reach, to: Reach, pins: frozenset[int]) -> Iterable[Garbage]:
    for number in range(at.manifest + 1, to.manifest + 1):
        if number not in pins:
            reason = f"manifest {number} is dead: the boundary is {to.manifest}"
            yield Garbage(keys.manifest.key(number), 0, reason, cause="number")
    for number in range(at.compactor + 1, to.compactor + 1):
        reason = f"compactor file {number} is dead: boundary {to.compactor}"
        yield Garbage(keys.compactor.key(number), 0, reason, cause="number")


async def sweep(files: PartitionFiles, grace_ms: int, *, dry_run: bool = False) -> Pass:
    """List all objects of the partition, and delete those that nothing can name (P18).

    SUBTLE! The order is the proof:
    1. List: objects uploaded later are not considered.
    2. Commit a higher orphan floor: an append with an older id is refused from now on, and a commit names no older run
       list (P23); what came before is in the head.
    3. Read the jobs.
    4. Read the head: the outputs of a job that is gone from the jobs are in it. So is what was appended of an upload
       that is gone; the rest of it can be appended no more (P22).
    If any of this cannot be read whole, the sweep raises before it has deleted anything. Test:
    tests/protocol/test_p18_sweep.py
    """
    listed = await every_object(files.keys.root)
    boundary = await files.boundary.refresh()
    manifest = await files.head()
    elsewhere, away = await _listed_elsewhere(files, manifest)
    everything = [o.key for objects in (listed, *elsewhere.values()) for o in objects]
    known = named_by(manifest)
    segments = {i for key in everything if (i := files.keys.segment_id(key)) is not None} - known
    lists = {i for key in everything if (i := files.keys.run_list_id(key)) is not None} - known
    ages = (*map(SegmentId.manifest_id, segments), *map(RunListId.number, lists))
    young = any(age >= manifest.orphan_floor for age in ages)
    boundary, freed = await _advance(files, boundary, manifest, grace_ms, dry_run=dry_run, wanted=young)
    dead = boundary.value.manifest if boundary.value else 0
    if not dry_run:
        await files.manifest.commit(Collect(dead, frozenset(), homes=files.homes, always=True))
    state = await files.compactor_state()
    manifest, named = await _head_and_pinned(files)
    pins = pinned_manifests(manifest)
    deleted = dead_numbers(files.keys, ((o.key, o.size) for o in listed), boundary.value, pins)
    kept: list[Garbage] = []
    others = [
        Garbage(found.key, found.size, "its name is not one of lithify's")
        for found in listed
        if not files.keys.is_ours(found.key)
    ]
    floor = max(manifest.orphan_floor, dead)
    for home, objects in {HERE: listed, **elsewhere}.items():
        for found in objects:
            segment_id, list_id = files.keys.segment_id(found.key), files.keys.run_list_id(found.key)
            if segment_id is not None and segment_id not in named:
                # In a sealed partition no job can commit any more, and no compactor will come back to end it.
                goes, reason = orphan(segment_id, floor, None if manifest.sealed else state, manifest.uploads)
            elif list_id is not None and list_id not in named:
                goes, reason = orphan_list(list_id, floor)
            else:
                continue
            (deleted if goes else kept).append(
                Garbage(found.key, found.size, reason, home, cause="orphan" if goes else "")
            )
    refused = [] if dry_run else await delete([*deleted, *freed])
    refused += away
    if not dry_run:
        gone_from = [home for home in manifest.homes if not elsewhere.get(physical(home))]
        await _forget_homes(files, gone_from, grace_ms)
    waits_here = bool(_has_waiting(manifest) or deleted or freed or kept)
    return Pass(
        deleted=gone(deleted, refused),
        refused=tuple(refused),
        kept=(*kept, *others),
        boundary=dead,
        waiting=len(manifest.retired),
        finished=manifest.sealed and not waits_here,
    )


async def _listed_elsewhere(
    files: PartitionFiles, manifest: Manifest
) -> tuple[dict[str, list[ObjectInfo]], list[Garbage]]:
    """What lies in the other places of the partition, by place, and for those that do not answer why. (A storage class
    of the warehouse's bucket is no other place.)"""
    found: dict[str, list[ObjectInfo]] = {}
    away: list[Garbage] = []
    for place in dict.fromkeys(map(physical, manifest.homes)):
        if place != HERE:
            try:
                await OwnHome(place, files.keys.owner)
                found[place] = await every_object(files.keys.segments, place)
            except LithifyError as error:
                away.append(Garbage(files.keys.segments, 0, f"it cannot be listed: {error}", place))
    return found, away


async def _forget_homes(files: PartitionFiles, homes: Sequence[str], grace_ms: int) -> None:
    """Forget those of `homes` in which nothing is, or may be.

    SUBTLE! Read the head, list, then read the jobs; and forget a home only if the head is still that one. Otherwise:
    1. We read the jobs: there is none. 2. A job is admitted, and notes the home in the head. 3. We read that head, and
    forget the home while the job copies segments to it. Test: tests/protocol/test_p18_sweep_of_homes.py

    In a deleted topic nobody ends a job that was left in progress. It counts until its owner has given no sign of life
    for a grace period.
    """
    for home in homes:
        head = await files.head()
        try:
            await OwnHome(home, files.keys.owner)
            there = physical(home) != HERE and await every_object(files.keys.segments, physical(home))
        except LithifyError:
            continue  # the sweep has told it, or the next one will
        state = await files.compactor_state()
        if head.sealed and state is not None and not young(state.heartbeat_at_ms, await Now(), grace_ms):
            state = None
        if not (there or home in named_homes(head) or may_upload(state, home)):
            await files.manifest.commit(ForgetHomes((home,), head.id))


async def _head_and_pinned(files: PartitionFiles) -> tuple[Manifest, frozenset[str]]:
    """The head, and the ids of what it and the manifests that it pins name: segments and run lists. Raises Corrupt if a
    pinned manifest is missing.

    SUBTLE! 1. We read head 7, which pins manifest 3. 2. The checkpoint is deleted, and another process collects
    manifest 3. 3. We find it absent. That is damage only if a later head still pins it. Test:
    tests/protocol/test_p18_sweep.py
    """
    absent: dict[int, str] = {}  # with what they lack, if they are there
    while True:  # bounded: each round finds one more pinned manifest absent
        manifest = await files.head()
        pins = pinned_manifests(manifest)
        gone = sorted(absent.keys() & pins)
        if gone:
            key, lacks = files.keys.manifest.key(gone[0]), absent[gone[0]]
            text = missing_text(manifest, gone[0], key, lacks)
            raise Corrupt(f"{text}. The sweep deleted nothing", lacks or key)
        named = named_by(manifest)
        for number in sorted(pins):
            pinned = await files.pinned(number)
            if pinned is None or pinned.value is None:
                absent[number] = "" if pinned is None else pinned.lacks
                break
            named |= live_in(pinned.value)
        else:
            return manifest, named
