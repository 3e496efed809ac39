"""P5, with both heads asked for in step: who has just claimed is seen, in whatever order the store answers
(docs/rfcs/0030)."""

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.policy import LEASE_MS
from lithify.manifest.partition import PartitionFiles
from lithify.store.port import Get, Head, Together
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, new_partition


def with_a_dead_owner() -> World:
    """Its lease is over, and something is due."""
    world = new_partition()
    files = PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "dead:1").step(CONFIG), []))
    world.alone(append_rows(files, ROWS))
    world.now_ms += 2 * LEASE_MS
    return world


def test_who_claimed_between_the_two_answers_is_seen() -> None:
    """SUBTLE in partition.py: `.compactor` is answered before the rival's claim, the manifest after it."""
    world, mine, rival = with_a_dead_owner(), PartitionFiles(KEYS), Coordinator(PartitionFiles(KEYS), "rival:1")
    world.alone(mine.heads())
    held = Held(world, mine.heads())
    asked = held.request
    assert isinstance(asked, Together)
    early = [each for each in asked.requests if "/compactor/" in getattr(each, "key", "")]
    assert [world._answer(each) for each in early] == [None]
    at_work = Held(world, with_engine(KEYS, rival.step(CONFIG), []))
    at_work.until(lambda request: "/segments/" in getattr(request, "key", ""))  # it has claimed and admitted
    held.reply(tuple(None if each in early else world._answer(each) for each in asked.requests))
    manifest, state = held.end()
    assert state is not None
    assert (state.epoch, state.owner_name) == (manifest.compactor_epoch, "rival:1")


def test_where_both_agree_the_jobs_are_read_once() -> None:
    world, mine = with_a_dead_owner(), PartitionFiles(KEYS)
    world.alone(mine.heads())
    held = Held(world, mine.heads())
    held.end()
    assert len(held.asked_for(Get, Head, Together)) == 2
