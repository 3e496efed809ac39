"""What one thread knows of a chain, another may take over (docs/rfcs/0024)."""

from typing import Any

from lithify.manifest.commit import Lineage
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.version import Version
from tests.protocol.scene import FIRST, KEYS, appends, at, new_partition


def test_who_learns_knows_the_newest_that_either_knew() -> None:
    world, one, other = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(appends(one, 2))
    world.alone(other.head())
    world.alone(appends(one, 2))
    for learner, teacher in ((other, one), (one, other)):
        learner.learn(teacher)
        assert learner.manifest.seen == one.manifest.seen
    assert other.beside().manifest.seen.number == one.manifest.seen.number == 5


class Slow(Lineage[Any]):
    """It sees a newer version, and when, while somebody learns from it."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "_seen_ms" and found == 100:
            self._seen, self._seen_ms = Version(9, at(FIRST, 9)), 100_000
        return found


def test_an_old_version_never_counts_as_fresh() -> None:
    chain = PartitionFiles(KEYS).manifest
    teacher = Slow(chain.chain, chain.kind, lambda *_: None)
    vars(teacher).update(_seen=Version(7, at(FIRST, 7)), _seen_ms=100)
    chain.learn(teacher)
    assert chain.seen.number == 9
    assert vars(chain)["_seen_ms"] == 100, "older than it is, never fresher"
