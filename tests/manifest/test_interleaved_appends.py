"""P1-P7 and P16-P19 together: appenders, collectors and claims interleaved, with lost and late replies."""

import contextlib

import pytest

from lithify.gc.collect import collect, sweep
from lithify.manifest.appends import Append, BelowOrphanFloor
from lithify.manifest.claims import Claim
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import FORMAT, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown, Unavailable
from lithify.store.port import NewId, Put
from tests.everyday import seeds
from tests.interleave import World
from tests.refs import segment_ref

KEYS = PartitionKeys("t", "0123456789abcdef", 0)
FIRST = Manifest(format=FORMAT, topic="t", topic_id="0123456789abcdef", partition=0)
GRACE_MS = 1_000


async def append(files: PartitionFiles, rows: int) -> tuple[str, range]:
    for _ in range(4):
        head = files.manifest.seen if files.manifest.seen.number else await files.manifest.refresh()
        segment_id = SegmentId.for_append(head.number, await NewId())
        await Put(KEYS.segment(segment_id), b"x" * rows)
        try:
            done = await files.manifest.commit(Append(segment_ref(segment_id, rows=rows), 10_000))
        except BelowOrphanFloor:
            await files.manifest.refresh()
            continue
        except CommitUnknown as error:
            raise CommitUnknown(str(error), segment_id) from error
        return segment_id, done.result
    raise Unavailable("four uploads were too old")


async def producer(log: list[tuple[str, range]], unknown: list[str], appends: int) -> None:
    files = PartitionFiles(KEYS)
    for rows in range(1, appends + 1):
        try:
            log.append(await append(files, rows % 3 + 1))
        except CommitUnknown as error:
            unknown.append(error.token)
        except Unavailable:
            pass


async def collector(passes: int) -> None:
    files = PartitionFiles(KEYS)
    for index in range(passes):
        with contextlib.suppress(Unavailable, CommitUnknown):
            await (sweep(files, GRACE_MS) if index % 3 == 2 else collect(files, GRACE_MS))


async def claimer(claims: int, epochs: list[int]) -> None:
    files = PartitionFiles(KEYS)
    for _ in range(claims):
        with contextlib.suppress(Unavailable, CommitUnknown):
            epochs.append((await files.manifest.commit(Claim(None))).result)


@pytest.mark.parametrize("seed", seeds(8, 60))
def test_every_acknowledged_append_is_there_once(seed: int) -> None:
    world = World(seed, fault_share=0.0 if seed % 4 == 0 else 0.25, sleep_share=0.0 if seed % 3 == 0 else 0.01)
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    acknowledged: list[tuple[str, range]] = []
    unknown: list[str] = []
    epochs: list[int] = []
    for index in range(4):
        world.start(f"producer {index}", producer(acknowledged, unknown, 30))
    world.start("collector 1", collector(25))
    world.start("collector 2", collector(25))
    world.start("claimer", claimer(5, epochs))
    world.run()
    unexpected = [a.failed for a in world.actors if a.failed is not None]
    assert not unexpected, f"seed {seed}: {unexpected}"
    head = world.alone(PartitionFiles(KEYS).head())
    live = {s.id: range(s.min_offset, s.max_offset + 1) for s in head.segments()}
    for segment_id, offsets in acknowledged:
        assert live.get(segment_id) == offsets, f"seed {seed}: {segment_id} was acknowledged as {offsets}"
    assert set(live) <= {s for s, _ in acknowledged} | set(unknown), f"seed {seed}: an unacknowledged append appeared"
    assert sorted(o for r in live.values() for o in r) == list(range(head.next_offset))
    assert all(KEYS.segment(s) in world.objects for s in live), f"seed {seed}: a live segment was collected"
    assert epochs == sorted(set(epochs))


def test_faults_were_exercised() -> None:
    world = World(1, fault_share=0.25)
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    world.start("producer", producer([], [], 200))
    world.run()
    assert {"lost reply", "never arrived", "arrives late", "unavailable"} <= world.counts.keys()
