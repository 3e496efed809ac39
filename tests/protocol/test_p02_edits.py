"""P2: a commit is a pure edit of the head, checked by invariants; a lost race applies it to the new head."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.edits import Next
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint
from lithify.store.errors import AlreadyExists, Corrupt, NotFound
from lithify.store.port import Create
from tests.protocol.scene import KEYS, L0_MAX, Held, append, appends, new_partition, segment


def test_a_lost_race_applies_the_edit_to_the_new_head() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(files.head())
    world.alone(appends(PartitionFiles(KEYS), 5))  # a rival, five commits ahead of what `files` has seen
    _, offsets = world.alone(append(files, 2))
    assert offsets == range(5, 7)
    assert [s.base_offset for s in world.alone(files.head()).l0] == [0, 1, 2, 3, 4, 5]


def test_an_edit_that_no_longer_holds_is_refused_with_a_reason() -> None:
    world, slow = new_partition(), PartitionFiles(KEYS)
    world.alone(slow.head())
    world.alone(PartitionFiles(KEYS).manifest.commit(CreateCheckpoint("one", "name", None)))
    with pytest.raises(AlreadyExists, match="'name'"):
        world.alone(slow.manifest.commit(CreateCheckpoint("two", "name", None)))


def test_a_refusal_is_raised_only_of_the_current_head() -> None:
    world, slow = new_partition(), PartitionFiles(KEYS)
    quick = PartitionFiles(KEYS)
    world.alone(quick.manifest.commit(CreateCheckpoint("one", "name", None)))
    world.alone(slow.head())
    world.alone(quick.manifest.commit(DeleteCheckpoint("one")))
    made = world.alone(slow.manifest.commit(CreateCheckpoint("two", "name", None)))
    assert made.result.manifest == made.version.number == 4


@dataclass(frozen=True)
class Forget:
    """An edit with a fault: it lets a live segment vanish."""

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(head, l0=()), None)


def test_an_edit_that_breaks_an_invariant_is_not_written() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 1))
    held = Held(world, files.manifest.commit(Forget()))
    with pytest.raises(Corrupt, match="retired list only"):
        held.end()
    assert held.asked_for(Create) == []


def test_a_partition_without_a_manifest_is_not_found() -> None:
    world = new_partition()
    world.objects.clear()
    with pytest.raises(NotFound):
        world.alone(PartitionFiles(KEYS).manifest.commit(Append(segment("000000000001-x"), L0_MAX)))
