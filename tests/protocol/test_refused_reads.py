"""A store that refuses a request says nothing about what is there: it is not taken for a file that cannot be read,
which collectors, searches and growth go past (RFC 0002)."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lithify.gc.collect import collect, sweep
from lithify.gc.lives import Lives
from lithify.gc.unannounced import sweep_unannounced
from lithify.manifest.catalog import alter_topic, create_topic, delete_topic, live_topic, topic_lineage
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown, InvalidRequest
from lithify.store.port import Create, Get, Head, List, Request
from tests.interleave import World
from tests.protocol.days import Partition
from tests.protocol.scene import GRACE_MS, KEYS, Held, append

Work = Coroutine[Any, Any, Any]


def a_partition() -> World:
    partition = Partition()
    partition.day(pin="a")
    partition.day()
    return partition.world


def two_lives() -> World:
    """And what a creator left who died."""
    world = World(0)
    lineage = topic_lineage("t")
    for _ in range(2):
        topic = world.alone(create_topic(lineage, "t", 2, {}))
        world.alone(alter_topic(lineage, topic, {"retention.ms": "5"}, None))
        world.alone(delete_topic(lineage, world.alone(live_topic(lineage, "t"))))
    creator = Held(world, create_topic(topic_lineage("t"), "t", 2, {}))
    creator.until(lambda request: isinstance(request, Create) and "/config/" in request.key)
    world.now_ms += 2 * GRACE_MS
    return world


READING: list[tuple[Callable[[], World], Callable[[], Work]]] = [
    (a_partition, lambda: PartitionFiles(KEYS).heads()),
    (a_partition, lambda: PartitionFiles(KEYS).shown(3)),
    (a_partition, lambda: append(PartitionFiles(KEYS))),
    (a_partition, lambda: collect(PartitionFiles(KEYS), GRACE_MS)),
    (a_partition, lambda: sweep(PartitionFiles(KEYS), GRACE_MS)),
    (two_lives, lambda: Lives("t", 0).refresh()),
    (two_lives, lambda: sweep_unannounced("t", GRACE_MS)),
]
NAMES = ["heads", "shown", "append", "collect", "sweep", "lives", "unannounced"]


class Refusing:
    """The store refuses the read of that number, counted from 0, alone."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked = 0

    def __call__(self, request: Request[Any]) -> Exception | None:
        if not isinstance(request, (Get, Head, List)):
            return None
        self.asked += 1
        return InvalidRequest("the store answers 400 KMS.DisabledException") if self.asked - 1 == self._number else None


@pytest.mark.parametrize(("made", "work"), READING, ids=NAMES)
def test_whichever_read_is_refused_it_is_told(made: Callable[[], World], work: Callable[[], Work]) -> None:
    for number in range(200):
        held, store = Held(made(), work()), Refusing(number)
        try:
            while held.request is not None:
                held.answers(store)
        except (InvalidRequest, CommitUnknown) as error:
            assert "KMS" in str(error)  # noqa: PT017 - which of the requests was refused is not known before
        else:
            assert store.asked <= number, f"read {number} was refused, and nobody was told"
            break
    assert number >= 3
