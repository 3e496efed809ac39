"""Instances of consumers interleaved with producers, a compactor and collectors, under faults, from a seed."""

from dataclasses import dataclass, field
from itertools import groupby, pairwise

import pytest

from lithify.gc.collect import collect
from lithify.log.positions import take
from lithify.manifest.appends import BelowOrphanFloor
from lithify.manifest.consumers import CommitPosition, find_consumer
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import ConsumerPosition
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown, Fenced, LithifyError, Unavailable
from lithify.store.port import Pause
from tests.everyday import seeds
from tests.protocol.recording import Recording
from tests.protocol.scene import FIRST, KEYS, append, claim, compact

NAMES = ("left", "right")


@dataclass
class Told:
    """What an instance was told of its commits."""

    name: str
    committed: list[ConsumerPosition] = field(default_factory=list)
    unknown: int = 0
    ended: LithifyError | None = None


async def instance(told: Told, rounds: int, *, hot: bool) -> None:
    """A hot one commits again and again, whether or not there is something new, and hardly waits."""
    files = PartitionFiles(KEYS)
    try:
        mine = await take(files, told.name, lambda head: head.log_start_offset)
        told.committed.append(mine)
        for _ in range(rounds):
            await Pause(1 if hot else 50)
            try:
                end = mine.offset if hot else (await files.head()).next_offset
                if end == mine.offset and not hot:
                    continue
                edit = CommitPosition(told.name, end, mine.committed_at, mine.instance)
                mine = (await files.manifest.commit(edit)).result
                told.committed.append(mine)
            except CommitUnknown:
                told.unknown += 1
            except Unavailable:
                pass
    except (Fenced, CommitUnknown, Unavailable) as error:
        told.ended = error


async def producer(count: int) -> None:
    files = PartitionFiles(KEYS)
    for _ in range(count):
        try:
            await append(files)
        except (BelowOrphanFloor, CommitUnknown, Unavailable):
            continue


async def compactor(rounds: int) -> None:
    files = PartitionFiles(KEYS)
    try:
        epoch = await claim(files)
        for _ in range(rounds):
            await Pause(100)
            if len((await files.head()).l0) > 1:
                await compact(files, epoch)
    except LithifyError:
        pass  # another may take its place; the consumers are what is looked at


async def collector(rounds: int) -> None:
    files = PartitionFiles(KEYS)
    for _ in range(rounds):
        await Pause(200)
        try:
            await collect(files, grace_ms=500)
        except LithifyError:
            continue


@pytest.mark.parametrize("seed", seeds(15, 60))
def test_one_instance_at_a_time_moves_a_position(seed: int) -> None:
    world = Recording(seed, fault_share=0.1 if seed % 2 else 0.0, sleep_share=0.01)
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    instances = [Told(name) for name in NAMES for _ in range(2)]
    for number in range(2):
        world.start(f"producer {number}", producer(8))
    for number, told in enumerate(instances):
        hot = seed % 3 == 0
        world.start(f"{told.name} {number}", instance(told, 100 if hot else 10, hot=hot))
    world.start("compactor", compactor(5))
    world.start("collector", collector(5))
    world.run()
    assert [actor.failed for actor in world.actors if actor.failed is not None] == []
    assert all(told.committed or (world.fault_share and told.ended) for told in instances), "a name that is kept"
    chain = [world.chain[number] for number in sorted(world.chain)]
    for name in NAMES:
        entries = [found for manifest in chain if (found := find_consumer(manifest, name)) is not None]
        # Who was taken over never moves the position again. But while it takes the name and does not know the outcome
        # (it slept until its number was dead), it takes it again from whoever came in between.
        taken_at = {told.committed[0].instance: told.committed[0].committed_at for told in instances if told.committed}
        held = (entry for entry in entries if entry.committed_at >= taken_at.get(entry.instance, 0))
        turns = [holder for holder, _ in groupby(entry.instance for entry in held)]
        assert len(set(turns)) == len(turns), (seed, turns)
        assert all(later.offset >= earlier.offset for earlier, later in pairwise(entries)), seed
        # What was acknowledged is in the chain, at the number that was told.
        at = {entry.committed_at: entry for entry in entries}
        for told in instances:
            if told.name == name:
                assert all(at[entry.committed_at] == entry for entry in told.committed), seed
