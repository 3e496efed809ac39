"""Those who use a partition: producers, readers, consumers, admins. Each is what a process does around the production
coroutines, again after each crash with an empty memory; what it would keep on a disk of its own lies outside."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from lithify.log import checkpoints, positions
from lithify.log.append import append, outcome
from lithify.manifest.commit import WAS_IT_THERE
from lithify.manifest.consumers import CommitPosition, find_consumer
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.retention import floor_at
from lithify.manifest.transactions import TransactionStamp
from lithify.store.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    Fenced,
    InvalidRequest,
    NotFound,
    SnapshotExpired,
    Unavailable,
)
from lithify.store.port import Now, Pause
from tests.sim.cast import Actor, Damaged, Violation
from tests.sim.places import files_of
from tests.sim.rows import Row, by_key, encode, fetched, reference
from tests.sim.site import Handle, Site

__all__ = [
    "TRANSIENT",
    "Life",
    "append_some",
    "asks",
    "consumer",
    "idempotent",
    "is_no_fault_of_ours",
    "plain",
    "reader",
    "records",
    "transactional",
]

Life = Callable[[Actor], Coroutine[Any, Any, None]]
CLOCK_BEHIND_MS = 1_000  # a client's idea of the store's clock, at most
TRANSIENT = (Unavailable, CommitUnknown, NotFound, Damaged)  # not found: the topic is deleted, another will come


def records(site: Site, actor: Actor, name: str, now_ms: int) -> list[Row]:
    """One append's records, in their order; their tokens begin with `name`."""
    say, rows = actor.say, list[Row]()
    size = say.choice(site.sizes)
    for delta in range(say.randrange(1, 4)):
        key = site.keys[int(say.random() * len(site.keys))]
        dead = key is not None and say.random() < site.tombstone_share
        stamp_ms = now_ms - int(say.random() ** 4 * 5_000)
        rows.append(Row(delta, key, f"{name}.{delta}", dead, stamp_ms, size=size))
    return rows


async def send(files: PartitionFiles, handle: Handle, rows: list[Row], **stamps: Any) -> range:
    order = handle.config.order
    stored = sorted(rows, key=by_key) if order == "key" else rows
    body = encode(stored)
    ref, most = reference(stored, body, order), handle.config.l0_segments_max
    stamps["expiration_ms"] = handle.config.transactional_id_expiration_ms
    return await append(files, body, ref, l0_segments_max=most, **stamps)


async def append_some(site: Site, actor: Actor, files: PartitionFiles, handle: Handle, name: str) -> None:
    """Raises CommitUnknown, Unavailable, NotFound."""
    await send_once(site, files, handle, records(site, actor, name, await Now()))


async def send_once(site: Site, files: PartitionFiles, handle: Handle, rows: list[Row]) -> None:
    """The oracle hears what the producer was told. Raises CommitUnknown, Unavailable, NotFound, Damaged."""
    tokens = [row.token for row in rows]
    try:
        offsets = await send(files, handle, rows)
    except (Unavailable, NotFound, Damaged) as error:
        if WAS_IT_THERE not in getattr(error, "__notes__", ()):
            site.oracle.denied(handle.keys, tokens)
        raise
    site.oracle.acknowledged(handle.keys, tokens, offsets)


def plain(site: Site) -> Life:
    """Appends, and asks later what became of those it does not know of; it never sends anything twice."""
    done: list[int] = []

    async def live(actor: Actor) -> None:
        handle: Handle | None = None
        files: PartitionFiles | None = None
        unknown: list[tuple[PartitionKeys, str, list[str]]] = []
        while len(done) < site.appends:
            await Pause(site.rest(actor))
            name = f"{actor.name}.{len(done)}"
            try:
                if handle is None or files is None or actor.say.random() < 0.1:
                    handle = await site.open()
                    files = files_of(handle.keys)
                await handle.fresh(actor)
                rows = records(site, actor, name, await Now())
            except TRANSIENT:
                continue
            done.append(len(done))
            try:
                await send_once(site, files, handle, rows)
            except CommitUnknown as error:
                is_no_fault_of_ours(error)
                unknown.append((handle.keys, error.token, [row.token for row in rows]))
            except (Unavailable, NotFound, Damaged):
                pass  # refused: it is not there
            if unknown and actor.say.random() < 0.5:
                await asks(site, files, handle, *unknown.pop(), settle=actor.say.random() < 0.3)

    return live


def is_no_fault_of_ours(error: BaseException | None) -> None:
    """A commit that its own invariants refused, after an earlier try, is told as unknown: it is worse than that."""
    while error is not None:
        if isinstance(error, Corrupt) and not isinstance(error, Damaged):
            raise Violation(f"an append would break an invariant (P2): {error}")
        error = error.__cause__


async def asks(
    site: Site,
    files: PartitionFiles,
    handle: Handle,
    sent_to: PartitionKeys,
    token: str,
    tokens: list[str],
    *,
    settle: bool,
) -> None:
    try:
        offsets = await outcome(files, token, settle=settle)
    except TRANSIENT:
        return
    except InvalidRequest:
        if sent_to == handle.keys:
            raise
        site.world.counts["token of a deleted topic refused"] += 1
        return
    if sent_to != handle.keys:
        raise Violation(f"{handle.keys} tells {offsets} of an append to {sent_to}")
    if offsets is None:
        site.oracle.denied(handle.keys, tokens)
    else:
        site.oracle.acknowledged(handle.keys, tokens, offsets)


def idempotent(site: Site, producer_id: str) -> Life:
    """Sends each batch until it knows that it is there, and some once more (KIP-98)."""
    done: list[int] = []

    async def live(actor: Actor) -> None:
        while len(done) < site.appends:
            await Pause(site.rest(actor))
            try:
                handle = await site.open()
                files = files_of(handle.keys)
                stamp = (await files.manifest.commit(OpenProducer(producer_id))).result
                await _sequence(site, actor, handle, files, stamp, done)
            except (*TRANSIENT, Fenced, InvalidRequest):
                continue  # opened anew; the batch under way is given up, whatever became of it

    return live


async def _sequence(
    site: Site, actor: Actor, handle: Handle, files: PartitionFiles, stamp: ProducerStamp, done: list[int]
) -> None:
    while len(done) < site.appends:
        await handle.fresh(actor)
        rows = records(site, actor, f"{actor.name}.{len(done)}", await Now())
        done.append(len(done))
        for repeat in range(6):
            try:
                offsets = await send(files, handle, rows, producer=stamp)
                site.oracle.acknowledged(handle.keys, [row.token for row in rows], offsets)
                if repeat or actor.say.random() < 0.8:
                    break
            except (CommitUnknown, Unavailable):
                if repeat == 5:
                    raise
            await Pause(site.rest(actor))
        stamp = ProducerStamp(stamp.id, stamp.epoch, stamp.sequence + len(rows))
        await Pause(site.rest(actor))


def transactional(site: Site) -> Life:
    """A stream query: the version under way, and what it holds, survive its crashes."""
    batches: list[list[Row]] = []
    committed: list[int] = []

    async def live(actor: Actor) -> None:
        while len(committed) < site.appends:
            await Pause(site.rest(actor))
            version = len(committed)
            try:
                handle = await site.open()
                files = files_of(handle.keys)
                if len(batches) == version:
                    batches.append(records(site, actor, f"{actor.name}.{version}", await Now()))
                rows = batches[version]
                offsets = await send(files, handle, rows, transaction=TransactionStamp(actor.name, version))
                site.oracle.acknowledged(handle.keys, [row.token for row in rows], offsets)
            except (*TRANSIENT, AlreadyExists):
                continue
            committed.append(version)

    return live


async def read_slowly(site: Site, actor: Actor, files: PartitionFiles, manifest: Manifest) -> None:
    """Every object of a manifest, one after the other, while the world goes on. Raises SnapshotExpired."""
    truth = site.oracle.truth(files.keys)
    for ref in manifest.segments():
        if actor.say.random() < 0.3:
            await Pause(site.rest(actor))
        since = site.world.steps
        if await fetched(files.keys, ref) is None:
            if truth.retained(manifest.id) and not truth.harms.since(ref.id, since):
                raise Violation(f"{actor.name} reads manifest {manifest.id}, retained, and {ref.id} is gone (P16)")
            raise SnapshotExpired(ref.id)
    site.world.counts["manifest read whole"] += 1


async def _newest(site: Site, actor: Actor, files: PartitionFiles) -> Manifest:
    """The head; never one that was the past already when the search for it began."""
    truth = site.oracle.truth(files.keys)
    known = 0 if truth.head is None else truth.head.id
    manifest = await files.head()
    if manifest.id < known:
        raise Violation(f"{actor.name} takes manifest {manifest.id} for the head, which {known} was before (P3)")
    site.world.held("P3")
    return manifest


async def _start(site: Site, files: PartitionFiles, manifest: Manifest) -> int:
    """Where a reader sees the log start."""
    now_ms = await Now()
    floor = floor_at(manifest, now_ms)
    site.oracle.sees_start(files.keys, manifest.id, now_ms, floor)
    return floor


def reader(site: Site, pins: bool) -> Life:
    """Reads the head, or what it pinned; again and again."""

    async def live(actor: Actor) -> None:
        say = actor.say
        handle = await _opened(site, actor)
        files, rounds = files_of(handle.keys), 0
        while True:
            await Pause(site.rest(actor))
            rounds += 1
            try:
                handle = handle if rounds % 4 else await site.open()
                if handle.keys != files.keys:
                    files = files_of(handle.keys)
                if not pins:
                    manifest = await _newest(site, actor, files)
                    await _start(site, files, manifest)
                    await read_slowly(site, actor, files, manifest)
                    continue
                name = f"pin {actor.name} {say.randrange(2)}"
                ttl_ms = say.choice((None, 500, 5_000, 100_000))
                site.oracle.judge.asks_to_pin(actor.name, ttl_ms)
                asked_ms = site.world.now_ms - site.oracle.error_ms - CLOCK_BEHIND_MS
                manifest, found = await checkpoints.pin(files, name, ttl_ms)
                if found.expires_at_ms is not None and found.expires_at_ms <= asked_ms:
                    raise Violation(f"{actor.name} is given {found}, which had expired (P20)")
                if say.random() < 0.7:
                    await read_slowly(site, actor, files, manifest)
                if say.random() < 0.4:
                    longer_ms = say.choice((None, 5_000))
                    site.oracle.judge.asks_to_pin(actor.name, longer_ms)
                    await checkpoints.refresh(files, name, longer_ms)
                if say.random() < 0.5:
                    await checkpoints.delete(files, name)
            except SnapshotExpired:
                site.world.counts["snapshot expired"] += 1
            except TRANSIENT:
                continue

    return live


async def _opened(site: Site, actor: Actor) -> Handle:
    while True:
        with contextlib.suppress(*TRANSIENT):
            return await site.open()
        await Pause(site.rest(actor))


def consumer(site: Site, name: str) -> Life:
    """Reads the log from its beginning, follows it, keeps the latest of each key, and commits how far it came."""

    async def live(actor: Actor) -> None:
        handle = await _opened(site, actor)
        files = files_of(handle.keys)
        state: dict[str | None, Row] = {}
        while True:
            await Pause(site.rest(actor))
            try:
                mine = await positions.take(files, name, lambda head: head.log_start_offset)
                state.clear()
                await _follow(site, actor, files, mine, state)
            except (*TRANSIENT, Fenced, SnapshotExpired):
                handle = await _opened(site, actor)
                files = files_of(handle.keys)

    return live


async def _follow(
    site: Site,
    actor: Actor,
    files: PartitionFiles,
    mine: ConsumerPosition,
    state: dict[str | None, Row],
) -> None:
    position = rebuilt_to = floor = 0
    while True:
        await Pause(site.rest(actor))
        manifest = await _newest(site, actor, files)
        if manifest.sealed:
            raise NotFound("sealed")
        await read_slowly(site, actor, files, manifest)
        # A clock that was ahead may have told too high a start: what was hidden then is not held now. That the start
        # never falls by one clock is R3's to check.
        floor = max(floor, await _start(site, files, manifest))
        contents = site.oracle.truth(files.keys).contents
        found = sorted((row for ref in manifest.segments() for row in contents.rows(ref)), key=lambda row: row.offset)
        for row in found:
            if row.offset >= max(position, floor):
                state[row.key] = row
        rebuilt_to = rebuilt_to or manifest.next_offset
        position = max(position, manifest.next_offset)
        edit = CommitPosition(mine.name, position, mine.committed_at, mine.instance, rebuilt_to)
        committed = await files.manifest.commit(edit)
        mine = committed.result
        assert committed.version.value is not None
        _compare(site, actor, files, manifest, floor, state, mine.missed_to)
        if find_consumer(committed.version.value, mine.name) != mine:
            raise Violation(f"{actor.name}: its position is {mine}, and not in the manifest (RFC 0009)")


def _compare(
    site: Site,
    actor: Actor,
    files: PartitionFiles,
    manifest: Manifest,
    floor: int,
    state: dict[str | None, Row],
    missed_to: int,
) -> None:
    """What a state store has made of the records it was given: the latest of each key, unless it was warned."""
    site.world.counts["consumer's state compared"] += 1
    for key, row in site.oracle.truth(files.keys).contents.scan(manifest).items():
        known = state.get(key)
        if key is None or row.offset < floor or (known is not None and known.offset == row.offset):
            continue
        if row.dead and (known is None or known.dead or missed_to > row.offset):
            continue
        raise Violation(f"{actor.name}: key {key} is at {known and known.offset}, not at {row.offset} (R2, RFC 0009)")
