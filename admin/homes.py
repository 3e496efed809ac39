"""Where the segments of a topic are, and moving them on request (docs/rfcs/0031)."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from lithify.admin.home_watch import HomeState, RecentHomes
from lithify.admin.partitions import partition_at
from lithify.compactor.info import CompactionInfo, compaction_info
from lithify.compactor.request_edits import Submit
from lithify.manifest.cold import all_there, elsewhere, to_relocate
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.homes import HERE, told
from lithify.manifest.jobs import CompactorState, Job
from lithify.manifest.keys import SegmentId
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.manifest.move_price import MovePrice, move_price
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state, held_by
from lithify.manifest.units import Unit, segments_of
from lithify.store.errors import AlreadyExists, InvalidRequest
from lithify.store.home_names import physical, same_home
from lithify.store.owners import adopt_home
from lithify.store.port import NewId, Now

__all__ = ["HomeUse", "PartitionHomes", "adopt", "ask", "relocate", "status", "uses"]


class HomeUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition has in one home."""

    home: str  # "": the warehouse itself
    segments: int
    bytes: int
    records: int
    retired_segments: int = 0  # replaced, and not collected yet
    retired_bytes: int = 0


class PartitionHomes(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    cold_home: str  # where old segments go; "": they stay
    homes: tuple[HomeUse, ...]  # the warehouse first
    due_segments: int  # that the next relocation would move
    due_bytes: int
    due_price: MovePrice | None = None  # what that would cost; None: nothing is due
    why_none: str  # why nothing is due; "" if something is
    moving: str  # the relocation that is under way, or requested, by its id; "": none
    requested: bool = False  # it waits for a compactor
    failed: str = ""  # why the latest relocation that ended did; "": it did not fail
    away: tuple[HomeState, ...] = ()  # homes that do not answer


def status(known: KnownPartitions, recent: RecentHomes, topic: str, partition: int) -> PartitionHomes:
    found = partition_at(known, topic, partition)
    config = parse(found.topic.config)

    async def look(files: PartitionFiles) -> PartitionHomes:
        now_ms = await Now()
        manifest, state = await files.heads()
        return _status(manifest, state or first_state(manifest), config, now_ms)

    told = known.run(found.keys, look)
    others = [use.home for use in told.homes if use.home != HERE]
    states = recent.look(dict.fromkeys(others, found.keys.owner))
    return replace(told, away=tuple(state for state in states if state.away))


def _status(manifest: Manifest, state: CompactorState, config: TopicConfig, now_ms: int) -> PartitionHomes:
    due = to_relocate(manifest, config, now_ms, held_by(state)) if config.cold_home else "the topic has no cold home"
    chosen = () if isinstance(due, str) else due
    moving = next((job for job in state.jobs if job.relocates), None)
    last = max((job for job in state.history if job.relocates), key=lambda job: job.created_at_ms, default=None)
    return PartitionHomes(
        topic=manifest.topic,
        partition=manifest.partition,
        cold_home=config.cold_home,
        homes=uses(manifest),
        due_segments=len(chosen),
        due_bytes=sum(unit.bytes for unit in chosen),
        due_price=_price_of(chosen, config, now_ms),
        why_none=due if isinstance(due, str) else "",
        moving=moving.id if moving else "",
        requested=moving is not None and moving.status == "submitted",
        failed=last.reason if last is not None and last.status == "failed" else "",
    )


def _price_of(chosen: Sequence[Unit], config: TopicConfig, now_ms: int) -> MovePrice | None:
    return move_price(segments_of(chosen), config.cold_home, config, now_ms) if chosen else None


def uses(manifest: Manifest) -> tuple[HomeUse, ...]:
    """What a partition has in each of its homes, the warehouse first."""
    return tuple(_use(manifest, home) for home in (HERE, *manifest.homes))


def _use(manifest: Manifest, home: str) -> HomeUse:
    live = [segment for segment in manifest.segments() if segment.home == home]
    retired = [each for each in manifest.retired if each.home == home]
    return HomeUse(
        home=home,
        segments=len(live),
        bytes=sum(each.bytes for each in live),
        records=sum(each.rows for each in live),
        retired_segments=len(retired),
        retired_bytes=sum(each.bytes for each in retired),
    )


def relocate(known: KnownPartitions, topic: str, partition: int, *, back: bool = False) -> CompactionInfo:
    """To the topic's cold home, or `back` to the warehouse."""
    found = partition_at(known, topic, partition)
    config = parse(found.topic.config)
    to = HERE if back else config.cold_home
    if not back and not to:
        raise InvalidRequest(
            f"topic {topic} has no cold home: set cold.location or cold.storage.class ('lithify topic alter')"
        )

    async def request(files: PartitionFiles) -> tuple[Job, int]:
        return await ask(files, config, to), await Now()

    job, now_ms = known.run(found.keys, request)
    return compaction_info(topic, partition, job, now_ms)


async def ask(files: PartitionFiles, config: TopicConfig, to: str) -> Job:
    """The request that everything be moved to the home `to`. Raises InvalidRequest if everything is there, and stays.

    SUBTLE! It does not stay while a job may still move it elsewhere. 1. A move to the cold home is under way. 2. An
    operator gives that home up, and recalls what is there: nothing. 3. The move commits, and the home is wiped.
    Therefore such a job is waited for, like any other: the request comes after it. And `.compactor` is read first: a
    job that has ended by then has changed the manifest. Test: tests/protocol/test_p15_moves.py
    """
    state = await files.compactor_state()
    manifest, now_ms = await files.live_head(), await Now()
    moves = segments_of(elsewhere(manifest, to))
    where = f"{manifest.topic}/{manifest.partition}"
    if not moves and not _moves_elsewhere(state, to):
        raise InvalidRequest(f"{where}: nothing to move: {all_there(manifest, to)}")
    known_id = _under_way(state, to)
    if known_id is not None:
        raise AlreadyExists(
            f"{where}: a move to {told(to)} is under way: 'lithify compaction status {where}/{known_id}'"
        )
    job_id = SegmentId.for_job(manifest.id, await NewId())
    job = Job(
        id=job_id,
        kind="relocate",
        status="submitted",
        origin="manual",
        home=to,
        price=move_price(moves, to, config, now_ms) if moves else None,
        created_at_ms=now_ms,
    )
    return (await files.compactor.commit(Submit(first_state(manifest), job))).result


def _moves_elsewhere(state: CompactorState | None, home: str) -> bool:
    """Whether a job, or a request, may still move segments to another home. One that is to be cancelled may have
    committed, or may do so yet."""
    jobs = () if state is None else state.jobs
    return any(job.relocates and job.active and not same_home(job.home, home) for job in jobs)


def _under_way(state: CompactorState | None, home: str) -> str | None:
    """The request to move everything to `home` that has not ended, by its id."""
    jobs = () if state is None else state.jobs
    asked = (job for job in jobs if job.relocates and job.origin == "manual" and same_home(job.home, home))
    return next((job.id for job in asked if job.active and not job.cancel_requested), None)


def adopt(known: KnownPartitions, topic: str) -> tuple[str, ...]:
    """The homes that were adopted."""
    found = partition_at(known, topic, 0)
    homes = {parse(found.topic.config).cold_home}
    for number in range(found.topic.partitions):
        keys = partition_at(known, topic, number).keys
        homes.update(known.run(keys, lambda files: files.head()).homes)
    elsewhere_too = sorted(home for home in homes if physical(home) != HERE)
    if not elsewhere_too:
        raise InvalidRequest(f"topic {topic} has no other home than the warehouse: there is nothing to adopt")
    name = known.driver.answer(NewId())
    for home in elsewhere_too:
        adopt_home(known.driver.homes.store(home), found.keys.owner, known.driver.store, name)
    return tuple(elsewhere_too)
