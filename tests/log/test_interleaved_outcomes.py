"""What `outcome` says of lost appends is true, whatever compaction and collection did meanwhile (P4, P6, P7)."""

import contextlib
from dataclasses import dataclass, field

import pytest

from lithify.gc.collect import collect, sweep
from lithify.log.append import append, outcome
from lithify.log.intake import prepare
from lithify.log.record import Record
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.config import parse
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import Manifest, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.segment.write import encode_append
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.port import NewId, Pause
from tests.everyday import seeds
from tests.protocol.recording import Recording
from tests.protocol.scene import FIRST, KEYS

BODY, REF = encode_append(prepare([Record(b"k", b"1"), Record(b"k", b"2")], parse({}), 1, "t"), "offset")
GRACE_MS = 500


def offsets_of(chain: dict[int, Manifest]) -> dict[str, range]:
    live = [segment for number in sorted(chain) for segment in chain[number].l0]
    return {segment.id: range(segment.min_offset, segment.max_offset + 1) for segment in live}


@dataclass
class Told:
    acknowledged: list[range] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    verdicts: list[tuple[str, range | None]] = field(default_factory=list)
    undecided: int = 0


async def appender(told: Told, appends: int) -> None:
    files = PartitionFiles(KEYS)
    for _ in range(appends):
        try:
            told.acknowledged.append(await append(files, BODY, REF, l0_segments_max=10_000))
        except CommitUnknown as error:
            told.tokens.append(error.token)
        except Unavailable:
            pass


async def asker(told: Told, rounds: int, settle: bool) -> None:
    files = PartitionFiles(KEYS)
    for index in range(rounds):
        await Pause(100)
        for token in told.tokens[-(index % 4) - 1 :]:
            try:
                told.verdicts.append((token, await outcome(files, token, settle=settle)))
            except CommitUnknown:
                told.undecided += 1
            except Unavailable:
                pass


async def retirer(rounds: int) -> None:
    """Compacts whatever there is into nothing, so that collection forgets appends."""
    files = PartitionFiles(KEYS)
    for _ in range(rounds):
        try:
            head = await files.head()
            job = SegmentId.for_job(head.id, await NewId())
            edit = CommitCompaction(
                epoch=0,
                job=job,
                segments=tuple(segment.id for segment in head.l0),
                run=SortedRun(id=job, segments=()),
                coverage_offset=0,
                clean=False,
                forget=tuple(done.id for done in head.completed_jobs),
                lost=tuple((segment.min_offset, segment.rows) for segment in head.l0),
            )
            await files.manifest.commit(edit)
        except (Unavailable, CommitUnknown, InvalidRequest):
            pass  # invalid where an earlier commit of its own arrived late: the sources are gone


async def collector(rounds: int) -> None:
    files = PartitionFiles(KEYS)
    for index in range(rounds):
        with contextlib.suppress(Unavailable, CommitUnknown):
            await (sweep(files, GRACE_MS) if index % 3 == 2 else collect(files, GRACE_MS))


def run(seed: int) -> tuple[Recording, Told]:
    world, told = Recording(seed, fault_share=0.35, sleep_share=0.01), Told()
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    for index in range(3):
        world.start(f"appender {index}", appender(told, 25))
    world.start("asker", asker(told, 30, settle=False))
    world.start("settler", asker(told, 15, settle=True))
    world.start("retirer", retirer(20))
    world.start("collector", collector(30))
    world.run()
    unexpected = [actor.failed for actor in world.actors if actor.failed is not None]
    assert not unexpected, f"seed {seed}: {unexpected}"
    world.alone(asker(told, len(told.tokens), settle=True))
    return world, told


@pytest.fixture(autouse=True)
def _give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that many commits are left unknown."""
    monkeypatch.setattr("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", 2)


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_what_is_said_of_lost_appends_is_true(seed: int) -> None:
    world, told = run(seed)
    appended = offsets_of(world.chain)
    for token, offsets in told.verdicts:
        assert appended.get(token.rpartition(":")[2]) == offsets, f"seed {seed}: {token} was said to be {offsets}"
    assert set(told.acknowledged) <= set(appended.values()), f"seed {seed}"
    assert len(set(told.acknowledged)) == len(told.acknowledged)
    unknown = {token.rpartition(":")[2] for token in told.tokens}
    silent = [offsets for segment, offsets in appended.items() if segment not in unknown]
    assert sorted(told.acknowledged, key=min) == sorted(silent, key=min), f"seed {seed}: one happened unknown to all"
    ends = sorted(appended.values(), key=min)
    assert [offsets.start for offsets in ends] == [0, *(offsets.stop for offsets in ends)][: len(ends)]


def test_every_answer_was_given() -> None:
    runs = [run(seed) for seed in range(5)]
    seen = [verdict for _, told in runs for verdict in told.verdicts]
    assert any(offsets is None for _, offsets in seen)
    assert any(offsets is not None for _, offsets in seen)
    assert any(told.undecided for _, told in runs)
    assert all(world.chain[max(world.chain)].orphan_floor > 0 for world, _ in runs)
