"""What of a job begins before it is admitted: its tasks read and merge, and write nothing (docs/rfcs/0033; P10)."""

from msgspec.structs import replace

from lithify.compactor.engine import PrepareTasks
from lithify.compactor.estimate import estimate
from lithify.compactor.plan import Proposal, freeze, tasks, tasks_label
from lithify.compactor.policy import Action, Propose
from lithify.compactor.split import ranges_without_weights
from lithify.compactor.waves import waves
from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import reachable
from lithify.manifest.jobs import Job, KeyRange
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import segments_of
from lithify.store.port import NewId

__all__ = ["foresee", "planned", "prepare"]

_FIRST_ATTEMPT = 1


async def foresee(files: PartitionFiles, action: Action, reading: Reading) -> Job | None:
    """The job to which a claim will lead if it finds what was read before it; its tasks begin to read. None: more has
    to be known for that."""
    if not isinstance(action, Propose) or action.due.kind == "relocate":
        return None
    due, config = action.due, reading.config
    ranges = ranges_without_weights(due.units, config)
    if ranges is None or not all(reachable(segment, files.homes) for segment in segments_of(due.units)):
        return None
    job = await planned(reading, Proposal(due.units, due.job_kind, due.reason), ranges)
    await prepare(files, reading.manifest, job, config)
    return job


async def planned(reading: Reading, proposal: Proposal, ranges: tuple[KeyRange, ...]) -> Job:
    """The job that does `proposal`, ready to be admitted."""
    request = proposal.request
    job_id = request.id if request else SegmentId.for_job(reading.manifest.id, await NewId())
    job = freeze(reading, proposal, ranges, job_id)
    return replace(job, estimate=estimate(reading, proposal.units, job.kind or proposal.kind, len(ranges)))


async def prepare(files: PartitionFiles, manifest: Manifest, job: Job, config: TopicConfig) -> None:
    """Let the first tasks of `job`, which is about to be admitted, read and merge."""
    if job.plan is None or job.relocates:
        return
    first = waves(job, range(len(job.plan.ranges)), config.compaction_throttle_bytes_per_second)[0]
    await PrepareTasks(tasks(manifest, job, _FIRST_ATTEMPT, first), tasks_label(files.name, job))
