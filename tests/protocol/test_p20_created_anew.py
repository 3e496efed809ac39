"""P4, P20: a pinned manifest is let go of and deleted, and then a stalled writer creates its number anew. Nobody takes
what is there for what was pinned."""

from typing import Any

import pytest

from lithify.compactor import job_edits
from lithify.gc.collect import collect, sweep
from lithify.log import checkpoints
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.store.errors import SnapshotExpired
from lithify.store.port import Create, Get
from tests.protocol.days import Partition, put
from tests.protocol.scene import GRACE_MS, KEYS, L0_MAX, Held, creates_manifest, job, replacing, segment
from tests.unreadable import UNREADABLE, Rewrite, rewrite_in


class Stalled:
    """A writer that waits before it creates the number at which a checkpoint is then made."""

    def __init__(self, partition: Partition, commit: Any) -> None:
        self.partition = partition
        self.held = Held(partition.world, commit)
        create = self.held.until(creates_manifest)
        assert isinstance(create, Create)
        self.key = create.key
        partition.pin("a")
        assert KEYS.manifest.key(partition.pins["a"].id) == self.key

    def time_passes(self) -> None:
        """Until the pinned number is below the boundary and the orphan floor. What the writer needs stays in L0."""
        before = {ref.id for ref in self.partition.head.l0}
        for _ in range(2):
            self.partition.append()
            self.partition.compact(without=before)
            self.partition.collect(3)
        assert self.partition.head.orphan_floor > self.partition.pins["a"].id

    def let_go_and_swept(self) -> None:
        world = self.partition.world
        self.partition.unpin("a")
        world.alone(sweep(PartitionFiles(KEYS), GRACE_MS))
        assert self.key not in world.objects

    def comes_late(self) -> None:
        self.held.go()
        assert self.key in self.partition.world.objects, "the dead number is there anew"

    def ends_whole(self) -> None:
        """Its commit happens, with all that it names there."""
        self.held.end()
        live = {KEYS.segment(ref.id) for ref in self.partition.head.segments()}
        assert live <= self.partition.world.objects.keys()


def an_upload() -> Stalled:
    """Whose segment no floor and no epoch guards."""
    partition = Partition()
    driver = PartitionFiles(KEYS)
    upload = partition.world.alone(driver.manifest.commit(BeginUpload("f" * 16, 7 * 86_400_000))).result
    ref = segment(f"{upload.name}-{'a' * 16}")
    partition.world.alone(put(KEYS.segment(ref.id)))
    return Stalled(partition, driver.manifest.commit(AppendUploaded(upload.name, (ref,), L0_MAX)))


def a_compaction() -> Stalled:
    """Of a job that is under way, in an epoch that still holds."""
    partition = Partition()
    partition.append()
    world, head = partition.world, partition.head
    name, sources = f"{head.id:012}-0000beef", tuple(ref.id for ref in head.l0)
    world.alone(partition.files.compactor_state())
    admitted = job(name, segments=sources, sources=sources)
    world.alone(partition.files.compactor.commit(job_edits.Admit(partition.epoch, admitted, "w")))
    edit: CommitCompaction = replacing(head, head.l0, partition.epoch, job=name)
    for ref in edit.run.segments:
        world.alone(put(KEYS.segment(ref.id)))
    files = PartitionFiles(KEYS)
    world.alone(files.heads())
    return Stalled(partition, files.manifest.commit(edit))


@pytest.mark.parametrize("begun", [an_upload, a_compaction])
def test_what_is_there_anew_takes_nothing_along(begun: Any) -> None:
    stalled = begun()
    stalled.time_passes()
    stalled.let_go_and_swept()
    stalled.comes_late()
    stalled.partition.world.alone(collect(PartitionFiles(KEYS), GRACE_MS))
    stalled.ends_whole()


def test_a_reader_of_a_checkpoint_is_not_given_what_is_there_anew() -> None:
    stalled = an_upload()
    stalled.time_passes()
    reader = Held(stalled.partition.world, checkpoints.pinned(PartitionFiles(KEYS), "a"))
    reader.until(lambda request: request == Get(stalled.key))
    stalled.let_go_and_swept()
    stalled.comes_late()
    with pytest.raises(SnapshotExpired):
        reader.end()


def test_a_dead_number_is_shown_only_while_it_holds_what_was_pinned() -> None:
    stalled = an_upload()
    world, number = stalled.partition.world, stalled.partition.pins["a"].id
    stalled.time_passes()
    pinned = world.alone(PartitionFiles(KEYS).shown(number))
    assert pinned is not None
    assert pinned.value == stalled.partition.pins["a"]
    assert world.alone(PartitionFiles(KEYS).shown(stalled.partition.head.id)) is not None
    stalled.let_go_and_swept()
    stalled.comes_late()
    assert world.alone(PartitionFiles(KEYS).shown(number)) is None


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_manifest_is_shown_though_the_boundary_cannot_be_read(change: Rewrite) -> None:
    partition = Partition()
    partition.day()
    world, number = partition.world, partition.head.id
    rewrite_in(world, KEYS.boundary.key(world.alone(partition.files.boundary.refresh()).number), change)
    shown = world.alone(PartitionFiles(KEYS).shown(number))
    assert shown is not None
    assert shown.number == number


def test_what_a_pin_further_up_keeps_stays_though_the_nearest_pin_is_there_anew() -> None:
    """1. Three checkpoints pin the same segments, which are then replaced, and kept by them alone. The first is let go
    of. 2. A pass reads the head, and stands still. 3. The second is let go of, and its file swept; a compaction that
    stalled before it would have been that number creates it anew. 4. The pass asks it what it still keeps."""
    partition = Partition()
    world = partition.world
    partition.append()
    partition.pin("first")
    kept = {ref.id for ref in partition.head.segments()}
    files = PartitionFiles(KEYS)
    world.alone(files.heads())
    merged = replacing(partition.head, partition.head.l0, partition.epoch, job=f"{partition.head.id:012}-0000beef")
    stalled = Held(world, files.manifest.commit(merged))
    late = stalled.until(creates_manifest)
    assert isinstance(late, Create)
    partition.pin("second")
    assert KEYS.manifest.key(partition.pins["second"].id) == late.key
    partition.pin("third")
    for _ in range(2):
        partition.compact()
        partition.append()
        partition.collect(3)
    partition.unpin("first")
    assert partition.head.unpinned
    collecting = Held(world, collect(PartitionFiles(KEYS), GRACE_MS))
    collecting.until(lambda request: request == Get(late.key))
    partition.unpin("second")
    world.alone(sweep(PartitionFiles(KEYS), GRACE_MS))
    assert late.key not in world.objects
    stalled.go()
    assert late.key in world.objects
    collecting.end()
    assert {KEYS.segment(each) for each in kept} <= world.objects.keys()
