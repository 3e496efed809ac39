"""Queries that read by plan (docs/rfcs/0021): they pin, plan, read their tasks in any order and some of them twice, as
workers that know nothing but the task, and renew the pin meanwhile. What all tasks give is held against the manifest's
records. They have dice of their own, so that histories without them are as they were."""

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from lithify.log import held
from lithify.log.planning import Wanted, wanted
from lithify.log.snapshot import Snapshot
from lithify.manifest.bounds import Bounds
from lithify.manifest.missing import explain_missing
from lithify.manifest.model import Checkpoint, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import DeleteCheckpoint
from lithify.segment.points import Points
from lithify.segment.read_plan import Part, planned
from lithify.segment.read_task import Hold, ReadTask
from lithify.segment.segments import Segments
from lithify.store.cache import Cache
from lithify.store.errors import Corrupt, NotFound, OffsetOutOfRange, SnapshotExpired
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from lithify.store.port import Pause
from tests.sim.actors import TRANSIENT, Life
from tests.sim.cast import Actor, Violation
from tests.sim.places import files_of
from tests.sim.rows import Row, by_key, checksum, decode, fetched, key_bytes, size_of
from tests.sim.site import Site
from tests.sim.truth import Truth

__all__ = ["queries_of"]

QUERIES_SHARE = 0.065
LASTING_MS = (900, 9_000, 30_000, 100_000)
TARGETS = (1, 500, 2_000, 1 << 20)  # bytes of a task
GROUP_ROWS = 2  # of a row group, where footers are read
REPEATS_SHARE, BY_NUMBER_SHARE, OTHERS_SHARE, LATE_SHARE = 0.1, 0.4, 0.3, 0.1
CLOCK_ERROR_MS = 2_000

_elsewhere = only_here(MemoryStore())  # planning asks no store: the tests say what footers would


class _Query(NamedTuple):
    files: PartitionFiles
    manifest: Manifest
    pin: Checkpoint
    ttl_ms: int


def queries_of(site: Site, seed: int, *, always: bool = False) -> dict[str, Life]:
    dice = random.Random(f"{seed}/queries")
    if dice.random() >= QUERIES_SHARE and not always:
        return {}
    known: dict[tuple[str, int], Manifest] = {}
    found = {f"query {index}": query(site, known) for index in range(dice.choice((1, 2, 3)))}
    return found | {"historian": historian(site, known)} if always else found


def query(site: Site, known: dict[tuple[str, int], Manifest]) -> Life:
    """One after the other. `known`: every manifest that a query was given, by root and number."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(site.rest(actor))
            try:
                files = files_of((await site.open()).keys)
                ttl_ms = actor.say.choice(LASTING_MS)
                site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
                manifest, pin = await held.opened(files, None, ttl_ms, None)
                assert pin is not None
                known[files.keys.root, manifest.id] = manifest
                site.world.counts["query planned"] += 1
                await _reads(site, actor, _Query(files, manifest, pin, ttl_ms), known)
                if actor.say.random() < 0.6:
                    await files.manifest.commit(DeleteCheckpoint(pin.id))
            except SnapshotExpired:
                site.world.counts["query expired"] += 1
            except TRANSIENT:
                continue

    return live


async def _reads(site: Site, actor: Actor, mine: _Query, known: dict[tuple[str, int], Manifest]) -> None:
    say, truth = actor.say, site.oracle.truth(mine.files.keys)
    asked = _asked(site, actor, mine.manifest)
    try:
        tasks = _planned(actor, truth, mine, asked)
    except OffsetOutOfRange:
        return
    found: list[Row] = []
    for task in say.sample(tasks, len(tasks)):
        if say.random() < BY_NUMBER_SHARE:
            await _by_number(site, actor, mine, known)
        if say.random() < LATE_SHARE:
            await Pause(mine.ttl_ms)  # no worker is free
        if say.random() < REPEATS_SHARE:
            await _worker(site, actor, truth, task)  # which dies with what it has read
        found += await _worker(site, actor, truth, task)
    wrong = _differs(found, truth, mine.manifest, asked)
    if wrong is not None:
        raise Violation(f"{actor.name} asks manifest {mine.manifest.id} for {asked}, and is given {wrong}")
    site.world.held("R1" if asked.view == "latest" else "R2")
    site.world.counts[f"query of {asked.view} read whole"] += 1


def _asked(site: Site, actor: Actor, manifest: Manifest) -> Wanted:
    say = actor.say
    cuts = sorted(key_bytes(say.choice([key for key in site.keys if key is not None])) for _ in range(2))
    offsets = sorted(say.randrange(manifest.next_offset + 1) for _ in range(2))
    return wanted(
        actor.name,
        view=say.choice(("latest", "log", "log" if None in site.keys else "latest")),
        low=cuts[0] if say.random() < OTHERS_SHARE else None,
        high=cuts[1] if say.random() < OTHERS_SHARE else None,
        start_offset=offsets[0] if say.random() < OTHERS_SHARE else 0,
        end_offset=offsets[1] if say.random() < OTHERS_SHARE else None,
        tombstones=say.random() < 0.5,
    )


def _planned(actor: Actor, truth: Truth, mine: _Query, asked: Wanted) -> list[ReadTask]:
    def explain(_: Manifest, missing: NotFound) -> NotFound:
        return missing

    segments = Segments(mine.files.keys, _elsewhere)
    points = Points(segments, Cache(), mine.manifest)
    snapshot = Snapshot(segments, points, mine.manifest.log_start_offset, explain, mine.pin, ttl_ms=mine.ttl_ms)
    parts: dict[str, Sequence[Part]] = {}
    if actor.say.random() < 0.5:
        parts = {ref.id: _groups(truth.contents.rows(ref)) for ref in mine.manifest.segments()}
    return list(planned(snapshot.task(asked), parts, actor.say.choice(TARGETS)))


def _groups(rows: Sequence[Row]) -> list[Part]:
    """What the footer of such a segment would say."""
    groups = [rows[first : first + GROUP_ROWS] for first in range(0, len(rows), GROUP_ROWS)]
    return [_part(group, [key_bytes(row.key) for row in group if row.key is not None]) for group in groups]


def _part(rows: Sequence[Row], keys: Sequence[bytes]) -> Part:
    offsets = [row.offset for row in rows]
    low, high = min(keys, default=None), max(keys, default=None)
    return Part(low, high, min(offsets), max(offsets), size_of(rows), len(rows))


async def _by_number(site: Site, actor: Actor, mine: _Query, known: dict[tuple[str, int], Manifest]) -> None:
    """Another process of the query opens its manifest; or somebody one of those of long ago."""
    say, files, number, ttl_ms = actor.say, mine.files.again(), mine.manifest.id, None
    if say.random() < OTHERS_SHARE:
        number = _of_long_ago(site, actor, files, known)
    elif say.random() < 0.5:
        ttl_ms = mine.ttl_ms
    await _asks_for(site, actor, files, known, number, ttl_ms)


def _of_long_ago(site: Site, actor: Actor, files: PartitionFiles, known: dict[tuple[str, int], Manifest]) -> int:
    """One that is dead, and whose file is there, if any is."""
    truth = site.oracle.truth(files.keys)
    numbers = [number for root, number in known if root == files.keys.root]
    there = [n for n in numbers if n <= truth.dead and files.keys.manifest.key(n) in site.world.objects]
    return actor.say.choice(there or numbers)


def historian(site: Site, known: dict[tuple[str, int], Manifest]) -> Life:
    """Asks for nothing but manifests of long ago."""

    async def live(actor: Actor) -> None:
        files: PartitionFiles | None = None
        while True:
            await Pause(site.rest(actor))
            with suppress(*TRANSIENT):
                files = files or files_of((await site.open()).keys)
                if any(root == files.keys.root for root, _ in known):
                    await _asks_for(site, actor, files, known, _of_long_ago(site, actor, files, known), None)

    return live


async def _asks_for(
    site: Site,
    actor: Actor,
    files: PartitionFiles,
    known: dict[tuple[str, int], Manifest],
    number: int,
    ttl_ms: int | None,
) -> None:
    truth, since_ms = site.oracle.truth(files.keys), site.world.now_ms
    dead, head = truth.dead, truth.head
    pins = () if head is None else tuple(pin for pin in head.checkpoints if pin.manifest == number)
    try:
        manifest, _ = await held.at(files, number, ttl_ms)
    except SnapshotExpired:
        if number > truth.dead and ttl_ms is None:
            raise Violation(f"{actor.name} is refused manifest {number}, which is retained (P17)") from None
        site.world.counts["manifest by number refused"] += 1
        return
    if manifest != known[files.keys.root, number]:
        raise Violation(f"{actor.name} is given another manifest {number} (P4)")
    error_ms = site.oracle.error_ms + CLOCK_ERROR_MS
    lasting = any(pin.expires_at_ms is None or pin.expires_at_ms > since_ms - error_ms for pin in pins)
    if number <= dead and not lasting:
        raise Violation(f"{actor.name} is given manifest {number}, which is dead, and no pin of it lasts (P4, P20)")
    site.world.held("P4", *(("P20",) if number <= dead else ()))
    site.world.counts["manifest by number"] += 1


async def _worker(site: Site, actor: Actor, truth: Truth, task: ReadTask) -> list[Row]:
    """It has the task alone. Raises SnapshotExpired, Unavailable."""
    files, rows = files_of(task.keys), list[Row]()
    assert task.hold is not None
    renewal = held.Renewal(files, task.hold)
    await _keeps(site, actor, truth, renewal, task.hold)
    for ref in task.segments:
        if actor.say.random() < 0.3:
            await Pause(site.rest(actor))
        since = site.world.steps
        found = await fetched(task.keys, ref)
        if found is None:
            await _is_missing(actor, truth, files, task, ref.id, since)
            continue
        if checksum(found.body) != ref.checksum:
            if not truth.harms.since(ref.id, since):
                raise Violation(f"{actor.name} reads {ref.id}, which is not what was written (P10)")
            raise SnapshotExpired(ref.id)
        base = ref.base_offset or 0
        rows += [replace(row, offset=row.offset + base) for row in decode(found.body)]
        await _keeps(site, actor, truth, renewal, task.hold)
    return list(_shown(task, rows))


async def _keeps(site: Site, actor: Actor, truth: Truth, renewal: held.Renewal, hold: Hold) -> None:
    since_ms = site.world.now_ms
    site.oracle.judge.asks_to_pin(actor.name, hold.ttl_ms)
    if not await renewal.keep():
        site.world.counts["renewal failed"] += 1
        return
    pins = () if truth.head is None else truth.head.checkpoints
    pin = next((pin for pin in pins if pin.id == hold.id), None)
    error_ms = site.oracle.error_ms + CLOCK_ERROR_MS
    if pin is not None and pin.expires_at_ms is not None:
        if pin.expires_at_ms < since_ms + hold.ttl_ms * 3 // 5 - error_ms:
            raise Violation(f"{actor.name} renews {pin}, which does not last (P20)")
        site.world.counts["pin of a query lasts"] += 1


async def _is_missing(
    actor: Actor, truth: Truth, files: PartitionFiles, task: ReadTask, segment_id: str, since: int
) -> None:
    head = await files.head()
    told = explain_missing(head, files.boundary.seen.value, task.manifest_id, NotFound(segment_id))
    if truth.harms.since(segment_id, since):
        raise SnapshotExpired(segment_id)
    if isinstance(told, Corrupt) or truth.retained(task.manifest_id):
        raise Violation(f"{actor.name} reads manifest {task.manifest_id}, and {segment_id} is gone: {told} (P16, P20)")
    raise told


def _within(row: Row, bounds: Bounds) -> bool:
    if row.offset < (bounds.from_offset or 0) or (bounds.to_offset is not None and row.offset >= bounds.to_offset):
        return False
    if row.key is None:
        return bounds.low is None
    key = key_bytes(row.key)
    return (bounds.low is None or bounds.low <= key) and (bounds.high is None or key < bounds.high)


def _shown(task: ReadTask, rows: Iterable[Row]) -> Iterable[Row]:
    """What a worker makes of the rows of the task's segments, as lithify.segment.read_batches does."""
    read = sorted((row for row in rows if _within(row, task.read_bounds)), key=by_key)
    if task.view == "log":
        return read
    latest = {row.key: row for row in read if row.key is not None}.values()
    return [row for row in latest if _within(row, task.bounds) and (task.tombstones or not row.dead)]


def _differs(found: Sequence[Row], truth: Truth, manifest: Manifest, asked: Wanted) -> str | None:
    """How it differs from what the manifest's records say, by the words of the RFC alone."""
    floor = manifest.log_start_offset
    stored = [row for ref in manifest.segments() for row in truth.contents.rows(ref) if row.offset >= floor]
    if asked.view == "latest":
        newest = {row.key: row for row in sorted(stored, key=lambda row: row.offset) if row.key is not None}
        stored = [row for row in newest.values() if asked.tombstones or not row.dead]
    bounds = Bounds(asked.low, asked.high, asked.start_offset, asked.end_offset)
    expected = sorted(row.offset for row in stored if _within(row, bounds))
    given = sorted(row.offset for row in found)
    return None if given == expected else f"offsets {given}, not {expected} (R1, R2)"
