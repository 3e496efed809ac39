"""A full list makes room again in normal service: no sweep and nobody's hand is needed (P6, docs/rfcs/0005, 0009)."""

import pytest

from lithify.gc.collect import collect
from lithify.manifest.edits import Refused
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import OpenProducer
from lithify.store.errors import Unavailable
from lithify.store.port import Create
from tests.protocol.scene import GRACE_MS, KEYS, Held, appends, new_partition

PRODUCERS = 8


@pytest.fixture(autouse=True)
def _small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("manifest.producers", "manifest.invariants", "gc.reachable"):
        monkeypatch.setattr(f"lithify.{module}.PRODUCERS_MAX", PRODUCERS)


def test_producers_give_way_where_nothing_is_ever_compacted() -> None:
    """The orphan floor rose with what was collected only, or with a sweep."""
    world, files = new_partition(), PartitionFiles(KEYS)
    for number in range(3 * PRODUCERS):
        world.alone(files.manifest.commit(OpenProducer(f"p{number}")))
        world.alone(appends(files, 1))
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
    head = world.alone(files.head())
    assert (len(head.producers), head.retired) == (PRODUCERS, ())
    assert isinstance(OpenProducer("new").apply(head, head.id + 1, 0), Refused) is False


def test_a_full_list_alone_moves_the_boundary_after_a_grace_period_and_then_nothing_is_written() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    for number in range(PRODUCERS):
        world.alone(files.manifest.commit(OpenProducer(f"p{number}")))
    with pytest.raises(Unavailable):
        world.alone(files.manifest.commit(OpenProducer("new")))
    for _ in range(3):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    idle = Held(world, collect(files, GRACE_MS))
    idle.end()
    assert idle.asked_for(Create) == []
    world.alone(files.manifest.commit(OpenProducer("new")))
    assert {p.id for p in world.alone(files.head()).producers} == {"new", *(f"p{n}" for n in range(1, PRODUCERS))}
