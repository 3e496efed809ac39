"""What is done to all partitions of a topic is done to each that can be read, whichever cannot."""

from collections.abc import Coroutine
from typing import Any

import pytest

from lithify.manifest.catalog import alter_topic, create_topic, delete_topic, partition_keys, topic_lineage
from lithify.manifest.each import AWAY_MAX
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.words import numbers_text
from lithify.store.errors import AccessDenied, CommitUnknown, Corrupt, LithifyError, Unavailable
from lithify.store.port import Create, Get, Head, Outcome, Together
from tests.interleave import World
from tests.protocol.scene import Held

COUNT = 4
SETS = [{n for n in range(COUNT) if bits >> n & 1} for bits in range(1, 1 << COUNT)]
CONFIG_2 = {"cleanup.policy": "delete", "retention.records": "2"}


def made(world: World, partitions: int = COUNT) -> TopicFile:
    return world.alone(create_topic(topic_lineage("t"), "t", partitions, {}))


def altering(topic: TopicFile) -> Coroutine[Any, Any, Any]:
    return alter_topic(topic_lineage("t"), topic, {**CONFIG_2}, None)


def deleting(topic: TopicFile) -> Coroutine[Any, Any, Any]:
    return delete_topic(topic_lineage("t"), topic)


def reached(world: World, keys: PartitionKeys, work: Any) -> bool:
    """Whether the partition's head shows the alteration, or the deletion."""
    head = world.alone(PartitionFiles(keys).head())
    return head.sealed if work is deleting else head.config_at == 2


def failing(held: Held, error: LithifyError, root: str) -> None:
    """To its end, while every request about what lies under `root` fails."""
    while held.request is not None:
        held.answers(lambda each: error if getattr(each, "key", "").startswith(root) else None)


def lost(held: Held, root: str) -> None:
    """To its end, while no create under `root` is answered, nor arrives."""
    while held.request is not None:
        held.answers(lambda each: Outcome.UNKNOWN if isinstance(each, Create) and each.key.startswith(root) else None)


@pytest.mark.parametrize("work", [altering, deleting])
@pytest.mark.parametrize("damaged", SETS, ids=str)
def test_damaged_partitions_keep_nothing_from_the_others(work: Any, damaged: set[int]) -> None:
    world = World(0)
    topic = made(world)
    all_keys = partition_keys(topic)
    for number in damaged:
        world.objects[all_keys[number].manifest.key(1)] = (b"garbage", 0)
    with pytest.raises(Corrupt, match="damaged") as raised:
        world.alone(work(topic))
    assert all(reached(world, all_keys[number], work) for number in range(COUNT) if number not in damaged)
    assert all_keys[min(damaged)].root in str(raised.value), "the first is the error"
    (note,) = raised.value.__notes__
    assert note.startswith("topic t was " + ("altered" if work is altering else "deleted"))
    assert note.endswith(numbers_text("partition", sorted(damaged)))


@pytest.mark.parametrize("work", [altering, deleting])
@pytest.mark.parametrize("error", [Unavailable("no answer"), AccessDenied("it is refused")], ids=["away", "refused"])
def test_a_partition_that_cannot_be_read_keeps_nothing_from_the_others(work: Any, error: LithifyError) -> None:
    world = World(0)
    topic = made(world)
    all_keys = partition_keys(topic)
    held = Held(world, work(topic))
    with pytest.raises(type(error), match=str(error)):
        failing(held, error, all_keys[1].root)
    assert [reached(world, keys, work) for keys in all_keys] == [True, False, True, True]


def test_an_outcome_that_is_not_known_keeps_nothing_from_the_others() -> None:
    world = World(0)
    topic = made(world)
    all_keys = partition_keys(topic)
    held = Held(world, altering(topic))
    with pytest.raises(CommitUnknown):
        lost(held, all_keys[1].root)
    assert [reached(world, keys, altering) for keys in all_keys] == [True, False, True, True]


@pytest.mark.parametrize("work", [altering, deleting])
def test_a_store_that_is_away_is_not_asked_for_every_partition(work: Any) -> None:
    world = World(0)
    topic = made(world, 40)
    all_keys = partition_keys(topic)
    held = Held(world, work(topic))
    with pytest.raises(Unavailable, match="no answer") as raised:
        failing(held, Unavailable("no answer"), f"t/{topic.topic_id}/")
    requests = [each for one in held.asked for each in (one.requests if isinstance(one, Together) else (one,))]
    asked = [each.key for each in requests if isinstance(each, Get | Head | Create)]
    assert sum(any(key.startswith(keys.root) for key in asked) for keys in all_keys) == AWAY_MAX
    assert f"0 to {len(all_keys) - 1}" in raised.value.__notes__[0]
