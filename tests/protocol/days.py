"""A partition by days, for the tests of what checkpoints keep."""

from collections.abc import Collection

from lithify.gc.collect import Pass, collect
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint
from lithify.store.port import Put
from tests.interleave import World
from tests.protocol.scene import GRACE_MS, KEYS, appends, claim, new_partition, replacing

__all__ = ["PER_DAY", "Partition", "is_list", "lists_there", "old_partition", "put"]

PER_DAY = 4


async def put(key: str) -> None:
    await Put(key, b"merged")


class Partition:
    """A partition by days: appends, a checkpoint, a compaction, and collections until nothing ages any more."""

    def __init__(self) -> None:
        self.world, self.files = new_partition(), PartitionFiles(KEYS)
        self.epoch = self.world.alone(claim(self.files))
        self.pins: dict[str, Manifest] = {}

    @property
    def head(self) -> Manifest:
        return self.world.alone(self.files.head())

    def collect(self, passes: int = 1) -> list[Pass]:
        done: list[Pass] = []
        for _ in range(passes):
            self.world.now_ms += GRACE_MS
            done.append(self.world.alone(collect(self.files, GRACE_MS)))
        return done

    def append(self) -> None:
        self.world.alone(appends(self.files, PER_DAY))

    def pin(self, name: str) -> None:
        made = self.world.alone(self.files.manifest.commit(CreateCheckpoint(name, name, None)))
        self.pins[name] = made.version.value

    def unpin(self, name: str) -> None:
        self.world.alone(self.files.manifest.commit(DeleteCheckpoint(name)))
        del self.pins[name]

    def compact(self, *, runs: bool = False, without: Collection[str] = ()) -> None:
        """All L0 segments into a run, or all `runs` as well; `without` those, which another job has."""
        head = self.head
        sources = tuple(ref for ref in (head.segments() if runs else head.l0) if ref.id not in without)
        done = tuple(job.id for job in head.completed_jobs)
        edit = replacing(head, sources, self.epoch, job=f"{head.id:012}-0000abcd", forget=done)
        for ref in edit.run.segments:
            self.world.alone(put(KEYS.segment(ref.id)))
        self.world.alone(self.files.manifest.commit(edit))

    def day(self, pin: str | None = None) -> None:
        self.append()
        if pin is not None:
            self.pin(pin)
        self.compact()
        self.collect(3)

    def stored(self) -> set[str]:
        return {i for key in self.world.objects if (i := KEYS.segment_id(key)) is not None}

    def named(self) -> set[str]:
        return {s.id for manifest in (self.head, *self.pins.values()) for s in manifest.segments()}

    def readable(self) -> set[str]:
        """What any manifest above the boundary names, and any that is pinned."""
        boundary = self.world.alone(self.files.boundary.refresh()).value
        numbers = range(1 if boundary is None else boundary.manifest + 1, self.head.id)
        retained = [self.world.alone(self.files.manifest.read(number)).value for number in numbers]
        return {s.id for manifest in retained for s in manifest.segments()} | self.named()

    def files_of(self, *manifests: Manifest) -> set[str]:
        return {KEYS.manifest.key(manifest.id) for manifest in manifests} & self.world.objects.keys()


def is_list(key: str) -> bool:
    return KEYS.run_list_id(key) is not None


def lists_there(world: World) -> set[str]:
    return {i for key in world.objects if (i := KEYS.run_list_id(key)) is not None}


def old_partition() -> Partition:
    """Three days of runs, one list a day or two, and everything replaced after that."""
    partition = Partition()
    for _ in range(3):
        partition.append()
        partition.compact()
    return partition
