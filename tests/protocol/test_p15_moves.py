"""P15: a request that everything be moved to a home is refused only if everything is there, and stays there."""

import pytest

from lithify.admin.homes import ask
from lithify.manifest.config import parse
from lithify.manifest.jobs import Job
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.relocations import CommitRelocation
from lithify.store.errors import AlreadyExists, InvalidRequest
from lithify.store.port import HERE
from tests.interleave import World
from tests.protocol.homes import COLD, begun, compacted, copied, ended, head, opened

CONFIG = parse({"cold.location": COLD})
STEPS_MAX = 40  # more than a request takes


def requests(world: World) -> list[Job]:
    state = world.alone(opened().compactor_state())
    return [job for job in state.jobs if job.status == "submitted"]


def commit(world: World, files: PartitionFiles, epoch: int, job: Job) -> None:
    (ref,) = head(world).runs[0].segments
    world.alone(files.manifest.commit(CommitRelocation(epoch, job.id, ((ref.id, copied(world, job, ref)),), ())))


@pytest.mark.parametrize("steps", range(STEPS_MAX))
def test_a_recall_misses_no_move_that_is_under_way(steps: int) -> None:
    """The move commits, and its end is recorded, at any step of the recall."""
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    recall = world.start("recall", ask(opened(), CONFIG, HERE))
    for _ in range(steps):
        if recall.running:
            world.step(recall)
    commit(world, files, epoch, job)
    ended(world, files, epoch, job, "completed")
    world.run()
    assert recall.failed is None
    assert [each.home for each in requests(world)] == [HERE]


def test_a_recall_of_what_is_here_is_refused_once_nothing_moves() -> None:
    world, files, epoch = compacted()
    job = begun(world, files, epoch)
    ended(world, files, epoch, job, "cancelled")
    with pytest.raises(InvalidRequest, match="everything is in the warehouse already"):
        world.alone(ask(files, CONFIG, HERE))
    assert requests(world) == []


def test_one_request_is_enough() -> None:
    world, files, epoch = compacted()
    begun(world, files, epoch)
    first = world.alone(ask(files, CONFIG, HERE))
    with pytest.raises(AlreadyExists, match=first.id):
        world.alone(ask(files, CONFIG, HERE))
