"""A partition whose segments move to another home: what the tests of that begin with."""

from typing import Any

from msgspec.structs import replace

from lithify.compactor.job_edits import Admit, Finish
from lithify.manifest.jobs import Job, KeyRange, MergeRules, Plan
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.relocations import CommitRelocation, UseHome
from lithify.store.port import HERE
from tests.interleave import World
from tests.protocol.scene import KEYS, append, claim, compact, new_partition

__all__ = ["COLD", "begun", "cold_keys", "compacted", "copied", "ended", "head", "moved", "opened", "relocation"]

COLD = "memory://cold"
HOMES = frozenset({HERE, COLD})


def opened() -> PartitionFiles:
    return PartitionFiles(KEYS, homes=HOMES)


def relocation(head: Manifest, **fields: Any) -> Job:
    segments = tuple(s.id for run in head.runs for s in run.segments)
    plan = Plan(
        ranges=(KeyRange(),) * len(segments),
        rules=MergeRules(),
        output_bytes=100,
        input_bytes=100,
        input_rows=1,
        input_segments=len(segments),
    )
    plain: dict[str, Any] = {
        "id": SegmentId.for_job(head.id, "a" * 16),
        "kind": "relocate",
        "status": "in_progress",
        "origin": "scheduler",
        "sources": tuple(run.id for run in head.runs),
        "segments": segments,
        "home": COLD,
        "plan": plan,
        "created_at_ms": 0,
    }
    return Job(**{**plain, **fields})


def compacted() -> tuple[World, PartitionFiles, int]:
    """A partition with one run, and its compactor's epoch."""
    world, files = new_partition(), opened()
    epoch = world.alone(claim(files))
    world.alone(append(files))
    world.alone(compact(files, epoch))
    return world, files, epoch


def begun(world: World, files: PartitionFiles, epoch: int) -> Job:
    job = relocation(world.alone(files.head()))
    world.alone(files.compactor.commit(Admit(epoch, job, "worker")))
    world.alone(files.manifest.commit(UseHome(epoch, COLD)))
    return job


def copied(world: World, job: Job, ref: SegmentRef, nonce: str = "0" * 16) -> SegmentRef:
    """A worker's copy."""
    made = replace(ref, id=SegmentId.for_output(job.id, 1, 0, nonce), home=COLD, added_at=0)
    world.elsewhere.setdefault(COLD, {})[KEYS.segment(made.id)] = (b"copy", world.now_ms)
    return made


def ended(world: World, files: PartitionFiles, epoch: int, job: Job, status: Any) -> None:
    world.alone(files.compactor.commit(Finish(epoch, job.id, status, "so")))


def moved(world: World, files: PartitionFiles, epoch: int) -> SegmentRef:
    job = begun(world, files, epoch)
    (ref,) = world.alone(files.head()).runs[0].segments
    made = copied(world, job, ref)
    world.alone(files.manifest.commit(CommitRelocation(epoch, job.id, ((ref.id, made),), ())))
    ended(world, files, epoch, job, "completed")
    return made


def cold_keys(world: World) -> set[str]:
    return set(world.elsewhere.get(COLD, {}))


def head(world: World) -> Manifest:
    return world.alone(opened().head())
